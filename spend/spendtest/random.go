package spendtest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/brimgo/brim/spend"
	"github.com/brimgo/brim/spend/ledger"
	"github.com/brimgo/brim/store"
)

// Harness tells the suite how to make the ledgers that it tests.
type Harness struct {
	// New returns a ledger that reads clock. Several ledgers may share one place
	// for their data, although each has a clock of its own: the suite gives them
	// different accounts and IDs. The suite closes the ledger.
	New func(t testing.TB, clock func() time.Time) ledger.Ledger
	// Crash, if set, calls f with a ledger whose transaction is lost afterwards,
	// as if the process had crashed before the commit. l is a ledger of New.
	Crash func(t testing.TB, l ledger.Ledger, f func(ledger.Ledger))
	// Ledgers is the number of ledgers that [Random] uses at a time; 0 means 1.
	Ledgers int
	// PerLedger is the number of sequences that use one ledger at the same time,
	// so that their decisions meet; 0 means 1.
	PerLedger int
	// CompareRarely makes [Random] compare all figures after about one step in
	// eight and at the end of each sequence, instead of after every step. Set it
	// for a ledger behind a network.
	CompareRarely bool
}

// tick divides all times of the suite. Doubles hold its multiples, in seconds,
// exactly.
const tick = int64(time.Second/time.Microsecond) / 64

// steps is the number of requests in a random sequence.
const steps = 10

// Random runs random sequences of requests and compares every answer with a
// model: charges, authorizations, increases, captures, voids, refunds, records,
// expiries, retries, lost transactions and changes of rules. After every step it
// compares all figures; see [Harness].CompareRarely. It logs its seed. With
// -short, it runs a tenth of the sequences.
func Random(t *testing.T, h Harness, sequences int) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	if testing.Short() {
		sequences = max(1, sequences/10)
	}
	together := max(1, h.PerLedger)
	var next atomic.Int64
	var wg sync.WaitGroup
	for range max(1, h.Ledgers) {
		clock := &testClock{}
		clock.us.Store(time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC).UnixMicro())
		l := h.New(t, clock.now)
		defer func() {
			if err := l.Close(); err != nil {
				t.Error(err)
			}
		}()
		wg.Go(func() {
			for !t.Failed() {
				n := next.Add(int64(together))
				if n-int64(together) >= int64(sequences) {
					return
				}
				var group []*sequence
				for i := range int64(together) {
					group = append(group, &sequence{
						t: t, h: h, l: l, clock: clock, r: rand.New(rand.NewPCG(seed, uint64(n-i))),
						name: fmt.Sprintf("m%d-%d", seed, n-i), model: newModel(),
					})
				}
				run(t, seed, group)
			}
		})
	}
	wg.Wait()
}

// run runs sequences in step. They share a clock, which stands still while they
// decide.
func run(t *testing.T, seed uint64, group []*sequence) {
	each := func(f func(*sequence) error) {
		var wg sync.WaitGroup
		for _, s := range group {
			wg.Go(func() {
				if err := f(s); err != nil {
					t.Errorf("seed %d, sequence %s: %v\n%s", seed, s.name, err, s.story())
				}
			})
		}
		wg.Wait()
	}
	each((*sequence).begin)
	for range steps {
		if t.Failed() {
			return
		}
		group[0].advance()
		each((*sequence).step)
		each((*sequence).compare)
	}
	each((*sequence).end)
}

// testClock stands still until a test moves it.
type testClock struct{ us atomic.Int64 }

func (c *testClock) now() time.Time { return time.UnixMicro(c.us.Load()) }

// sequence is one random sequence. Its budget has a name of its own, so that no
// two sequences share an account.
type sequence struct {
	t        testing.TB
	h        Harness
	l        ledger.Ledger
	clock    *testClock
	r        *rand.Rand
	name     string
	model    *model
	all      []modelRule
	rules    []modelRule // in use: those of all that the last change has left
	budgets  *spend.Budgets
	accounts []string
	ids      int
	sent     []sent
	told     []string
}

// sent is a request with its first answer.
type sent struct {
	again func(*spend.Budgets) (spend.Decision, error)
	first spend.Decision
}

func (s *sequence) begin() error {
	s.accounts = []string{"a", "b"}
	s.all = s.someRules()
	s.rules = slices.Clone(s.all)
	return s.use()
}

func (s *sequence) end() error {
	for _, a := range s.accounts {
		if err := s.budgets.Verify(context.Background(), a); err != nil {
			return err
		}
	}
	return s.compareAll()
}

func (s *sequence) story() (text string) {
	for _, r := range s.all {
		text += fmt.Sprintf("  rule %+v\n", r)
	}
	for _, line := range s.told {
		text += "  " + line + "\n"
	}
	return text
}

func (s *sequence) tell(format string, args ...any) {
	s.told = append(s.told, fmt.Sprintf("%d ", s.clock.us.Load()/tick)+fmt.Sprintf(format, args...))
}

func (s *sequence) someRules() (rules []modelRule) {
	limit := func() int64 { return 20 + s.r.Int64N(100) }
	width := func() int64 { return tick * (1 + s.r.Int64N(64*40)) }
	possible := []modelRule{
		{kind: "rolling", name: "rolling", limit: limit(), width: width()},
		{kind: "rolling", name: "travel", limit: limit(), width: width(), tag: "category", value: "travel"},
		{kind: "day", name: "day", limit: limit(), offset: 3600e6},
		{kind: "single", name: "single", limit: 10 + s.r.Int64N(60)},
		{kind: "lifetime", name: "lifetime", limit: 2 * limit()},
		{kind: "count", name: "count", limit: 1 + s.r.Int64N(6), width: width()},
		{kind: "leaky", name: "leaky", limit: 64, width: int64(time.Second/time.Microsecond) << s.r.IntN(6)},
	}
	for _, i := range s.r.Perm(len(possible))[:1+s.r.IntN(4)] {
		rules = append(rules, possible[i])
	}
	return rules
}

// use makes budgets with the rules in use.
func (s *sequence) use() (err error) {
	b := spend.Budget{Name: s.name, Currency: "EUR"}
	for _, r := range s.rules {
		b.Rules = append(b.Rules, r.rule())
	}
	s.budgets, err = spend.New(s.l, b, nil)
	return err
}

func (s *sequence) advance() {
	switch s.r.IntN(4) {
	case 0:
	case 1, 2:
		s.clock.us.Add(tick * s.r.Int64N(64*8))
	case 3:
		s.clock.us.Add(tick * s.r.Int64N(64*60))
	}
	if s.r.IntN(20) == 0 {
		s.clock.us.Add(dayLength / 2)
	}
}

// change changes amounts and leaves out some rules. Leaky rules stay as they
// are, because a new one starts empty.
func (s *sequence) change() error {
	s.rules = nil
	for i := range s.all {
		r := &s.all[i]
		if r.kind != "leaky" && s.r.IntN(3) == 0 {
			r.limit = max(1, r.limit+s.r.Int64N(21)-10)
		}
		if r.kind == "leaky" || s.r.IntN(3) > 0 {
			s.rules = append(s.rules, *r)
		}
	}
	if len(s.rules) == 0 {
		s.rules = []modelRule{s.all[0]}
	}
	s.tell("rules are now %+v", s.rules)
	return s.use()
}

// compare compares all figures after a step, or after one step in eight.
func (s *sequence) compare() error {
	if s.h.CompareRarely && s.r.IntN(8) > 0 {
		return nil
	}
	return s.compareAll()
}

func (s *sequence) compareAll() error {
	now := s.clock.us.Load()
	for _, account := range s.accounts {
		shown, err := s.budgets.Remaining(context.Background(), account)
		if err != nil {
			return fmt.Errorf("remaining: %w", err)
		}
		for i, u := range shown {
			r := s.rules[i]
			used, held, _ := s.model.usage(r, account, now)
			room := s.model.room(r, account, now)
			if u.Used.Minor != used || u.Held.Minor != held || u.Remaining.Minor != room || u.Limit.Minor != r.limit {
				return fmt.Errorf("account %s, rule %s: %d used, %d held, %d remaining; want %d, %d, %d",
					account, r.name, u.Used.Minor, u.Held.Minor, u.Remaining.Minor, used, held, room)
			}
			if err := s.grows(r, account, now, u.GrowsAt); err != nil {
				return err
			}
		}
	}
	return nil
}

const year = 366 * dayLength

// grows checks that the rule has more room at that time, and none more a
// microsecond before.
func (s *sequence) grows(r modelRule, account string, now int64, at time.Time) error {
	room := func(t int64) int64 { return s.model.room(r, account, t) }
	switch {
	case at.IsZero():
		if later := room(now + year); later > room(now) {
			return fmt.Errorf("account %s, rule %s: GrowsAt is zero; within a year room grows from %d to %d",
				account, r.name, room(now), later)
		}
	case room(at.UnixMicro()) <= room(now) || at.UnixMicro() > now && room(at.UnixMicro()-1) > room(now):
		return fmt.Errorf("account %s, rule %s: GrowsAt is %d us from now; that is not the first time with more room than %d",
			account, r.name, at.UnixMicro()-now, room(now))
	}
	return nil
}

// judge checks a decision about n more units of a spend, which then amounts to
// total, and about so many more spends.
func (s *sequence) judge(d spend.Decision, sp *modelSpend, n, total, spends int64) error {
	now := s.clock.us.Load()
	if d.Replayed || d.At.UnixMicro() != now {
		return fmt.Errorf("a first decision is replayed, or has another time than the clock: %+v", d)
	}
	refused, wait := 0, time.Duration(0)
	for _, account := range sp.accounts {
		for _, r := range s.rules {
			at := slices.IndexFunc(d.Declines, func(x spend.Decline) bool {
				return x.Rule == r.name && x.Account.Name == account
			})
			fits := func(t int64) bool { return s.model.fits(r, account, t, n, total, spends, sp.tags) }
			if fits(now) != (at < 0) {
				return fmt.Errorf("rule %s of %s: it refused is %t; want the opposite", r.name, account, at >= 0)
			}
			if at < 0 {
				continue
			}
			refused++
			after := d.Declines[at].RetryAfter
			wait = max(wait, after)
			switch {
			case after == store.Never:
				if fits(now + year) {
					return fmt.Errorf("rule %s of %s: RetryAfter is Never; the amount fits within a year", r.name, account)
				}
			case !fits(now + after.Microseconds()), after > 0 && fits(now+after.Microseconds()-1):
				return fmt.Errorf("rule %s of %s: RetryAfter is %v; that is not the first time at which the amount fits",
					r.name, account, after)
			}
		}
	}
	if d.Approved != (refused == 0) || len(d.Declines) != refused || d.RetryAfter != wait {
		return fmt.Errorf("approved is %t with %d declines and RetryAfter %v; want %d declines and %v",
			d.Approved, len(d.Declines), d.RetryAfter, refused, wait)
	}
	return nil
}

// send sends a request and keeps it for retries. Now and then it first sends the
// request into a transaction that is lost.
func (s *sequence) send(call func(*spend.Budgets) (spend.Decision, error)) (spend.Decision, error) {
	if s.h.Crash != nil && s.r.IntN(8) == 0 {
		s.h.Crash(s.t, s.l, func(l ledger.Ledger) { _, _ = call(s.budgets.With(l)) })
		s.tell("lost")
	}
	d, err := call(s.budgets)
	if err == nil {
		s.sent = append(s.sent, sent{call, d})
	}
	return d, err
}

// again sends an earlier request once more.
func (s *sequence) again() error {
	if len(s.sent) == 0 {
		return nil
	}
	x := s.sent[s.r.IntN(len(s.sent))]
	d, err := x.again(s.budgets)
	if err != nil {
		return fmt.Errorf("retry: %w", err)
	}
	want := x.first
	want.Replayed = true
	if !reflect.DeepEqual(d, want) {
		return fmt.Errorf("retry: got %+v; want %+v", d, want)
	}
	return nil
}

// refuses checks that a call failed with want, or succeeded if want is nil.
func refuses(err, want error) error {
	if want == nil && err == nil || want != nil && errors.Is(err, want) {
		return nil
	}
	switch {
	case err == nil:
		return fmt.Errorf("no error; want: %w", want)
	case want == nil:
		return fmt.Errorf("want no error: %w", err)
	}
	return fmt.Errorf("want %q, and got: %w", want.Error(), err)
}
