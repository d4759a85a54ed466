package spendtest

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/brimgo/brim/internal/differ"
	"github.com/brimgo/brim/internal/seed"
	"github.com/brimgo/brim/spend"
	"github.com/brimgo/brim/spend/ledger"
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
	// Reopen, if set, closes l, a ledger of New, and opens its data again, as after
	// a restart of the process. The suite closes the new ledger. Leave it nil if the
	// data do not survive.
	Reopen func(t testing.TB, l ledger.Ledger, clock func() time.Time) ledger.Ledger
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

// Random runs random sequences of requests and compares every answer with a model: charges,
// authorizations, increases, captures, voids, refunds, records, expiries, retries, lost
// transactions, prunes, plans, revisions of the rules that reach processes of old and new versions
// of a program, and accounts that are mended. After every step it compares all figures; see
// [Harness].CompareRarely. Before that, it sends the same requests to two budgets with the same
// revisions of their rules, of which one is pruned, and compares the decisions of years. With
// -short, it runs a tenth of the sequences.
//
// Everything random comes from the environment variable BRIM_SEED, a number, or
// from a new seed without it. A failure prints the command that repeats it. The
// same seed makes the same sequences at the same times. The environment variable
// BRIM_COUNT, if it is set, is the number of sequences.
func Random(t *testing.T, h Harness, sequences int) {
	n, err := seed.New()
	if err != nil {
		t.Fatal(err)
	}
	if testing.Short() {
		sequences = max(1, sequences/10)
	}
	if sequences, err = seed.Count(sequences); err != nil {
		t.Fatal(err)
	}
	t.Logf("seed %d: %d sequences", n, sequences)
	playTwins(t, h, n, sequences)
	play(t, h, n, sequences, func(s *sequence, err error) {
		if err != nil {
			t.Errorf("sequence %s: %v\n%s%s", s.name, err, s.story(), again(t, n, sequences))
		}
	})
}

// again returns the command that plays the sequences of a seed again.
func again(t *testing.T, seed uint64, sequences int) string {
	return fmt.Sprintf("repeat: BRIM_SEED=%d BRIM_COUNT=%d go test -count=1 -run '^%s$', in the package's directory",
		seed, sequences, t.Name())
}

// mostPerLedger is small, because to prune, some ledgers go through all requests.
const mostPerLedger = 2048

// play plays random sequences until there is a mismatch. It calls done after each, with its first
// mismatch if there is one, from several goroutines.
func play(t *testing.T, h Harness, seed uint64, sequences int, done func(*sequence, error)) {
	together := min(max(1, h.PerLedger), sequences)
	round := max(1, mostPerLedger/together) * together * max(1, h.Ledgers)
	for first := 0; first < sequences && !t.Failed(); first += round {
		playFrom(t, h, seed, first, min(first+round, sequences), together, done)
	}
}

// playFrom plays sequences on new ledgers, groups of them together.
func playFrom(t *testing.T, h Harness, seed uint64, first, end, together int, done func(*sequence, error)) {
	var next atomic.Int64
	next.Store(int64(first))
	var wg sync.WaitGroup
	for range max(1, h.Ledgers) {
		clock := &testClock{}
		l := h.New(t, clock.now)
		defer func() {
			if err := l.Close(); err != nil {
				t.Error(err)
			}
		}()
		wg.Go(func() {
			for !t.Failed() {
				n := next.Add(int64(together))
				if n-int64(together) >= int64(end) {
					return
				}
				// The times of a group must not depend on the groups that this ledger played
				// before. No account belongs to two groups, so the clock may step back.
				clock.us.Store(time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC).UnixMicro())
				var group []*sequence
				for i := range int64(together) {
					group = append(group, &sequence{
						player: player{clock: clock, r: rand.New(rand.NewPCG(seed, uint64(n-i))), name: fmt.Sprintf("m%d-%d", seed, n-i)},
						t:      t, h: h, l: l, model: NewModel(), prunes: prunes(n - i),
					})
				}
				run(t, group, done)
			}
		})
	}
	wg.Wait()
}

// run runs sequences in step. They share a clock, which stands still while they
// decide.
func run(t *testing.T, group []*sequence, done func(*sequence, error)) {
	each := func(f func(*sequence) error) {
		var wg sync.WaitGroup
		for _, s := range group {
			wg.Go(func() {
				if s.err == nil {
					s.err = f(s)
				}
			})
		}
		wg.Wait()
	}
	defer func() {
		for _, s := range group {
			done(s, s.err)
		}
	}()
	each((*sequence).begin)
	for range steps {
		if t.Failed() {
			return
		}
		group[0].advance()
		each((*sequence).step)
		each((*sequence).compare)
		if group[0].r.IntN(20) == 0 {
			astray(group[0], each)
		}
	}
	each((*sequence).end)
}

// astray lets sequences decide under a clock that is ahead, and then mends their accounts.
func astray(first *sequence, each func(func(*sequence) error)) {
	right := first.now()
	for range 1 + first.r.IntN(3) {
		first.clock.us.Add(tick * (1 + first.r.Int64N(64*60)))
		if first.r.IntN(4) == 0 {
			first.clock.us.Add(first.r.Int64N(3 * dayLength))
		}
		each((*sequence).stray)
	}
	each((*sequence).touch)
	top := first.now()
	first.clock.us.Store(min(right+tick*first.r.Int64N(64*4), top-1)) // ahead until then
	each(func(s *sequence) error { return s.mend(top) })
	each((*sequence).compare)
}

// testClock stands still until a test moves it.
type testClock struct {
	us   atomic.Int64
	slow atomic.Bool // a reading takes some time
}

// reading is the time that a slow clock takes for one reading. Callers queue up
// meanwhile for the lock under which the ledger reads it. From a millisecond on, a
// mutex of package sync goes to the longest waiter, and not to its last holder.
const reading = 200 * time.Microsecond

func (c *testClock) now() time.Time {
	if c.slow.Load() {
		time.Sleep(reading)
	}
	return time.UnixMicro(c.us.Load())
}

// sequence is one random sequence.
type sequence struct {
	player
	t        testing.TB
	h        Harness
	l        ledger.Ledger
	model    *Model
	all      []Rule
	rules    map[string][]Rule // in force, by plan: those of all that the last change has left
	plans    map[string]string // of accounts
	revision int64
	declared []spend.Budget    // every revision
	budgets  *spend.Budgets    // of the process that decides
	programs []*spend.Budgets  // the processes
	accounts []string          // as the model knows them: by their first names
	names    map[string]string // the present names of accounts
	formers  map[string]former // by a name that an account had
	prunes   bool
	keep     int64 // the lifetime of IDs in a sequence that prunes; 0 in any other
	sent     []sent
	err      error // the first mismatch
}

// sent is a request with its first answer.
type sent struct {
	request Request
	first   spend.Decision
}

func (s *sequence) begin() error {
	s.accounts = []string{"a", "b"}
	s.names, s.formers = map[string]string{"a": "a", "b": "b"}, make(map[string]former)
	s.plans = make(map[string]string)
	s.model.Others = s.others
	s.all = s.someRules()
	if s.prunes {
		s.keep = tick * (64 + s.r.Int64N(64*40))
	}
	s.choose()
	if err := s.start(s.declared[0]); err != nil {
		return err
	}
	return s.beginPruning()
}

func (s *sequence) end() error {
	for _, a := range s.accounts {
		if err := s.budgets.Verify(ctx, s.anyName(a)); err != nil {
			return err
		}
	}
	if err := s.exported(); err != nil {
		return err
	}
	return s.compareAll()
}

func (s *sequence) story() (text string) {
	for _, r := range s.all {
		text += fmt.Sprintf("  rule %+v\n", r)
	}
	return text + strings.Join(s.told, "")
}

func (s *sequence) someRules() (rules []Rule) {
	limit := func() int64 { return 20 + s.r.Int64N(100) }
	width := func() int64 { return tick * (1 + s.r.Int64N(64*40)) }
	possible := []Rule{
		{Kind: "rolling", Name: "rolling", Limit: limit(), Width: width()},
		{Kind: "rolling", Name: "travel", Limit: limit(), Width: width(), tag: "category", value: "travel"},
		{Kind: "day", Name: "day", Limit: limit(), offset: 3600e6, begins: s.r.Int64N(2) * 4 * 3600e6},
		{Kind: "rolling", Name: "at home", Limit: limit(), Width: width(), tag: "category", value: "travel", not: true},
		{Kind: "single", Name: "single", Limit: 10 + s.r.Int64N(60)},
		{Kind: "lifetime", Name: "lifetime", Limit: 2 * limit()},
		{Kind: "count", Name: "count", Limit: 1 + s.r.Int64N(6), Width: width()},
		{Kind: "counted", Name: "counted", Limit: 1 + s.r.Int64N(6), offset: -3600e6},
		{Kind: "leaky", Name: "leaky", Limit: 64, Width: leakyWidth(s.r)},
	}
	possible = append(append(possible, boundedRules(s.r, limit, width)...), slices.Concat(perRules(s.r, limit, width), attemptRules(s.r, width))...)
	for _, i := range s.r.Perm(len(possible))[:1+s.r.IntN(4)] {
		r := possible[i]
		r.Most = 2 * r.Limit
		r.Credits = r.mayCredit() && s.r.IntN(2) == 0
		r.tells = s.r.IntN(3)
		r.Shadow = s.r.IntN(4) == 0
		rules = append(rules, r)
	}
	return rules
}

// leakyWidth returns a time in which a bucket drains. Doubles hold its leak rates exactly.
func leakyWidth(r *rand.Rand) int64 { return int64(time.Second/time.Microsecond) << r.IntN(6) }

// start starts a process with the rules of a revision. It takes the place of another one if there
// are some already.
func (s *sequence) start(b spend.Budget) error {
	p, err := spend.New(ctx, s.l, b, s.options())
	if err != nil {
		return fmt.Errorf("revision %d: %w", b.Revision, err)
	}
	if s.programs = append(s.programs, p); len(s.programs) > 3 {
		s.programs = slices.Delete(s.programs, s.r.IntN(3), 4)
		s.programs = append(s.programs, p)
	}
	s.budgets = p
	return nil
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
		s.clock.us.Add((1 + s.r.Int64N(8)) * dayLength / 2)
	}
}

// change sets other rules, by a process that goes on or by one that starts with them, or starts one
// with rules of before, which do not hold.
func (s *sequence) change() error {
	if s.r.IntN(4) == 0 {
		old := s.declared[s.r.IntN(len(s.declared))]
		s.tell("a program starts with revision %d", old.Revision)
		return s.start(old)
	}
	for i := range s.all {
		r := &s.all[i]
		switch {
		case s.r.IntN(3) > 0:
		case r.Kind == "leaky":
			r.Limit, r.Width = 32<<s.r.IntN(3), leakyWidth(s.r)
		default:
			r.Limit = max(1, r.Limit+s.r.Int64N(21)-10)
		}
		if r.mayCredit() && s.r.IntN(8) == 0 {
			r.Credits = !r.Credits
		}
		if s.r.IntN(8) == 0 {
			r.tells = s.r.IntN(3)
		}
		if s.r.IntN(8) == 0 {
			r.Shadow = !r.Shadow
		}
		r.Most = max(r.Most, r.Limit)
	}
	s.choose()
	next := s.declared[s.revision-1]
	s.tell("revision %d is %+v", s.revision, s.rules)
	if s.r.IntN(2) == 0 {
		return s.start(next)
	}
	return s.budgets.SetRules(ctx, next, nil)
}

// choose leaves out some rules of each plan, in a new revision. A Leaky rule is never left out,
// because a new one starts empty. In a sequence that prunes, no rule is left out, because entries
// that it would count when it is back may be gone.
func (s *sequence) choose() {
	s.rules = make(map[string][]Rule)
	for _, plan := range []string{"", other} {
		for _, r := range s.all {
			if r.Kind == "leaky" || s.keep > 0 || s.r.IntN(3) > 0 {
				if plan != "" && r.Kind != "leaky" {
					r.Limit = min(r.Most, r.Limit+s.r.Int64N(20))
				}
				s.rules[plan] = append(s.rules[plan], r)
			}
		}
		if len(s.rules[plan]) == 0 {
			s.rules[plan] = []Rule{s.all[0]}
		}
	}
	s.revision++
	b := budget(s.name, s.rules[""])
	b.Revision, b.Plans = s.revision, map[string][]spend.Rule{other: budget("", s.rules[other]).Rules}
	for _, r := range s.all {
		if r.Kind == "lifetime" {
			b.Retired = append(b.Retired, r.Name)
		}
	}
	s.declared = append(s.declared, b)
}

// other is the plan beside the rules of the budget.
const other = "other"

// compare compares all figures after a step, or after one step in eight.
func (s *sequence) compare() error {
	if s.h.CompareRarely && s.r.IntN(8) > 0 {
		return nil
	}
	return s.compareAll()
}

func (s *sequence) compareAll() error {
	for _, account := range s.accounts {
		shown, err := s.budgets.Remaining(ctx, s.anyName(account))
		if err != nil {
			return fmt.Errorf("remaining: %w", err)
		}
		for i := range shown {
			s.firstName(&shown[i].Account)
		}
		if err := s.model.Remaining(s.of, account, s.clock.now(), shown); err != nil {
			return err
		}
		if err := s.listed(account); err != nil {
			return err
		}
	}
	return nil
}

// send sends a request and keeps it for retries. Now and then it first sends the
// request into a transaction that is lost.
func (s *sequence) send(r Request) (spend.Decision, error) {
	if s.h.Crash != nil && s.r.IntN(8) == 0 {
		s.h.Crash(s.t, s.l, func(l ledger.Ledger) { _, _ = s.byName(r, s.budgets.With(l)) })
		s.tell("lost")
	}
	d, err := s.byName(r, s.budgets)
	s.tell("%+v: %t %v", r, d.Approved, err)
	if err == nil {
		s.sent = append(s.sent, sent{r, d})
	}
	return d, err
}

// of returns the rules that judge an account.
func (s *sequence) of(account string) []Rule { return s.rules[s.plans[account]] }

// others returns the rules of both plans.
func (s *sequence) others(string) []Rule { return slices.Concat(s.rules[""], s.rules[other]) }

// setPlan gives an account another plan, or the one that it has.
func (s *sequence) setPlan() error {
	account, before := s.account(), maps.Clone(s.plans)
	s.plans[account] = []string{"", other}[s.r.IntN(2)]
	d, err := s.try(Request{Method: "plan", Account: account, Plan: s.plans[account]})
	if !d.Approved {
		s.plans = before
	}
	return err
}

// again sends an earlier request once more.
func (s *sequence) again() error {
	if len(s.sent) == 0 {
		return nil
	}
	return s.resend(s.sent[s.r.IntN(len(s.sent))])
}

// resend sends a request once more, and compares the answer with the first.
func (s *sequence) resend(x sent) error {
	if x.request.Varying != nil {
		x.request.Tags = maps.Clone(x.request.Tags)
		delete(x.request.Tags, "trace")
	}
	d, err := s.byName(x.request, s.budgets)
	if err != nil {
		return fmt.Errorf("retry: %w", err)
	}
	want := x.first
	want.Replayed = true
	if diff := differ.Fields(d, want); diff != "" {
		return fmt.Errorf("retry of %+v:\n%s", x.request, diff)
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
