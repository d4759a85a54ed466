package spendtest

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/brimgo/brim/internal/differ"
	"github.com/brimgo/brim/spend"
	"github.com/brimgo/brim/spend/ledger"
)

// twins are budgets of one ledger that get the same requests, of two processes with different
// rules. One of the budgets is pruned, by either process. Another one has the rules of both
// processes as plans, and each request goes to accounts with the plan of its process. Every
// decision must be the same.
type twins struct {
	player
	// rarely is Harness.CompareRarely.
	rarely bool
	// long is set if the processes have rules that look back further than KeepIDs. Then each
	// process decides on each account within KeepIDs. Otherwise a decision of the other process
	// would drop its rules, and as new ones they would count the entries that are left.
	long  bool
	rules [2][]Rule // of each process
	kept  [2]*spend.Budgets
	prune [2]*spend.Budgets // the budgets that are pruned
	plans *spend.Budgets    // has the rules of process 1 as a plan
	plan  map[string]int    // the process whose rules an account has there
	used  map[string]int64  // the last decision of a process on an account
	began []began
}

// began is a spend, its accounts, and the time at which it began.
type began struct {
	id       string
	accounts []string
	at       int64
}

// keepIDs is how long an ID is known.
const keepIDs = 90 * days

// twinSteps is the number of requests to each of the twins.
const twinSteps = 40

// twinsPerLedger is small, because to prune, some ledgers go through all requests.
const twinsPerLedger = 50

// playTwins plays n twins, until there is a mismatch.
func playTwins(t *testing.T, h Harness, seed uint64, n int) {
	for first := 0; first < n && !t.Failed(); first += twinsPerLedger {
		playTwinsFrom(t, h, seed, first, min(first+twinsPerLedger, n))
	}
}

// playTwinsFrom plays twins on one ledger.
func playTwinsFrom(t *testing.T, h Harness, seed uint64, first, end int) {
	clock := &testClock{}
	l := h.New(t, clock.now)
	defer func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}()
	for i := first; i < end && !t.Failed(); i++ {
		clock.us.Store(time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC).UnixMicro())
		tw := &twins{
			player: player{clock: clock, r: rand.New(rand.NewPCG(seed, 1<<40+uint64(i))), name: fmt.Sprintf("t%d-%d", seed, i)},
			rarely: h.CompareRarely, long: i%3 == 0, used: make(map[string]int64), plan: make(map[string]int),
		}
		if err := tw.play(l); err != nil {
			t.Errorf("twins %s: %v\nwhy: a later decision is the same with and without Prune, whichever process prunes, "+
				"and the same by the rules of a plan\n"+
				"%srepeat: BRIM_SEED=%d go test -count=1 -run '^%s$', in the package's directory",
				tw.name, err, strings.Join(tw.told, ""), seed, t.Name())
		}
	}
}

// plans are the names of the plans with the rules of each process.
var plans = [...]string{"", "other"}

func (tw *twins) play(l ledger.Ledger) error {
	tw.someRules()
	for p := range tw.rules {
		for name, b := range map[string]*[2]*spend.Budgets{"k": &tw.kept, "p": &tw.prune} {
			var err error
			if b[p], err = spend.New(ctx, l, budget(tw.name+name, tw.rules[p]), nil); err != nil {
				return err
			}
		}
		tw.tell("process %d has %+v", p, tw.rules[p])
	}
	planned := budget(tw.name+"q", tw.rules[0])
	planned.Plans = map[string][]spend.Rule{plans[1]: budget("", tw.rules[1]).Rules}
	var err error
	if tw.plans, err = spend.New(ctx, l, planned, nil); err != nil {
		return err
	}
	// A rule that is new to an account counts the entries that are left, so every rule begins here.
	for p := range tw.rules {
		if err := tw.charge(p, "record", []string{"a", "b"}); err != nil {
			return err
		}
	}
	for range twinSteps {
		tw.advance()
		if tw.long {
			if err := tw.refresh(); err != nil {
				return err
			}
		}
		if tw.r.IntN(3) == 0 {
			p := tw.r.IntN(2)
			done, err := tw.prune[p].Prune(ctx)
			tw.tell("process %d prunes: %+v, %v", p, done, err)
			if err != nil {
				return err
			}
		}
		if err := tw.step(); err != nil {
			return err
		}
		if tw.rarely && tw.r.IntN(8) > 0 {
			continue
		}
		if err := tw.compare(); err != nil {
			return err
		}
	}
	return tw.compare()
}

// someRules gives each process some rules, and rules of the same name other amounts.
func (tw *twins) someRules() {
	r := tw.r
	limit := func() int64 { return 40 + r.Int64N(100) }
	width := func() int64 { return (90 - r.Int64N(r.Int64N(89)+1)) * dayLength }
	possible := []Rule{
		{Kind: "rolling", Name: "rolling", Width: width()},
		{Kind: "rolling", Name: "rolling each", Width: width(), each: true},
		{Kind: "rolling", Name: "travel", Width: width(), tag: "category", value: "travel"},
		{Kind: "day", Name: "day", offset: 3600e6},
		{Kind: "month", Name: "month"},
		{Kind: "month", Name: "month each", each: true},
		{Kind: "count", Name: "count", Width: width(), declines: r.IntN(2) == 0, voids: r.IntN(2) == 0},
		{Kind: "counted", Name: "counted", offset: -3600e6},
		{Kind: "single", Name: "single"},
		{Kind: "leaky", Name: "leaky", Width: width() << 2},
		{Kind: "leaky", Name: "slow", Width: 1000 * dayLength},
	}
	if tw.long {
		possible = append(
			possible[r.IntN(8):],
			Rule{Kind: "rolling", Name: "long", Width: 180 * dayLength},
			Rule{Kind: "rolling", Name: "longest", Width: 400 * dayLength, each: true},
			Rule{Kind: "year", Name: "year"}, Rule{Kind: "lifetime", Name: "lifetime"},
			Rule{Kind: "lifetime", Name: "lifetime each", each: true},
		)
	}
	for _, i := range r.Perm(len(possible))[:min(len(possible), 2+r.IntN(4))] {
		who := r.IntN(3) // process 0, process 1, or both
		for p := range tw.rules {
			if x := possible[i]; who == 2 || who == p {
				x.Limit = limit()
				x.Most = 2 * x.Limit
				x.Credits = x.mayCredit() && r.IntN(2) == 0
				x.tells = r.IntN(3)
				tw.rules[p] = append(tw.rules[p], x)
			}
		}
	}
	for p := range tw.rules {
		if len(tw.rules[p]) == 0 {
			tw.rules[p] = []Rule{{Kind: "single", Name: "alone", Limit: 100, Most: 200}}
		}
	}
}

func (tw *twins) advance() {
	const second = int64(time.Second / time.Microsecond)
	switch n := tw.r.IntN(8); {
	case n == 0:
	case n < 3:
		tw.clock.us.Add(tw.r.Int64N(3600 * second))
	case n < 5:
		tw.clock.us.Add(tw.r.Int64N(10 * dayLength))
	case n < 7 || tw.long:
		tw.clock.us.Add(tw.r.Int64N(40 * dayLength))
	default: // the cards are idle
		tw.clock.us.Add(60*dayLength + tw.r.Int64N(60*dayLength))
	}
}

// step sends one request to the twins.
func (tw *twins) step() error {
	accounts := [][]string{{"a"}, {"b"}, {"a", "b"}}[tw.r.IntN(3)]
	p := tw.r.IntN(2)
	switch n := tw.r.IntN(100); {
	case n < 20:
		return tw.charge(p, "charge", accounts)
	case n < 40:
		return tw.charge(p, "authorize", accounts)
	case n < 50:
		return tw.charge(p, "record", accounts)
	case n < 60:
		return tw.charge(p, "credit", accounts)
	case n < 70:
		return tw.limit(p, accounts[0])
	}
	return tw.follow(p)
}

// refresh lets each process decide on each account that it has not used for half of KeepIDs.
func (tw *twins) refresh() error {
	for p := range tw.rules {
		for _, account := range []string{"a", "b"} {
			if tw.now()-tw.used[fmt.Sprint(p, account)] < keepIDs.Microseconds()/2 {
				continue
			}
			if err := tw.charge(p, "charge", []string{account}); err != nil {
				return err
			}
		}
	}
	return nil
}

// all sends a request of process p about accounts to the twins. In those that have another plan,
// the process decides beforehand in all twins, so that the accounts have decided as often.
func (tw *twins) all(p int, accounts []string, r Request) error {
	for _, account := range accounts {
		if tw.plan[account] == p {
			continue
		}
		tw.plan[account] = p
		id := tw.id()
		now := Request{Method: "unfreeze", ID: id, Account: account}
		if err := tw.same(p, now, Request{Method: "plan", ID: id, Account: account, Plan: plans[p]}); err != nil {
			return err
		}
	}
	return tw.same(p, r, r)
}

// same sends a request of process p to the twins, and another one to that with plans, and compares
// the answers. Names of requests and budgets end in that of the twin.
func (tw *twins) same(p int, r, planned Request) error {
	twin := func(name string, b *spend.Budgets, q Request) (spend.Decision, error) {
		q.ID += name
		if q.Of != "" {
			q.Of += name
		}
		q.Also = slices.Clone(q.Also)
		for i := range q.Also {
			q.Also[i].Budget = tw.name + name
		}
		d, err := q.Send(ctx, b)
		tw.plain(d.Remaining)
		for i := range d.Declines {
			if d.Declines[i].Account.Budget = ""; d.Declines[i].AtLeast { // Prune adds ends of holds to the entries that it looks at
				d.Declines[i].RetryAfter, d.RetryAfter = 0, 0
			}
		}
		for i := range d.Crossed {
			d.Crossed[i].Account.Budget = ""
		}
		return d, err
	}
	kept, err := twin("k", tw.kept[p], r)
	tw.tell("process %d: %+v: %t %v", p, r, kept.Approved, err)
	for name, other := range map[string]func() (spend.Decision, error){
		"after Prune": func() (spend.Decision, error) { return twin("p", tw.prune[p], r) },
		"by a plan":   func() (spend.Decision, error) { return twin("q", tw.plans, planned) },
	} {
		d, oerr := other()
		if fmt.Sprint(err) != fmt.Sprint(oerr) {
			return fmt.Errorf("the error %s is %w; without, it is %w", name, cmp.Or(oerr, errNone), cmp.Or(err, errNone))
		}
		if diff := differ.Fields(d, kept); diff != "" {
			return fmt.Errorf("the decision %s, against the one without:\n%s", name, diff)
		}
	}
	for _, u := range kept.Remaining {
		tw.used[fmt.Sprint(p, u.Account.Name)] = tw.now()
	}
	return nil
}

var errNone = errors.New("none")

// plain removes the names of the twins from figures.
func (tw *twins) plain(list []spend.Usage) []spend.Usage {
	for i := range list {
		list[i].Account.Budget = ""
	}
	return list
}

func (tw *twins) charge(p int, method string, accounts []string) error {
	now := tw.now()
	r := tw.payment(method, accounts[0], 1+tw.r.Int64N(40))
	r.TTL = time.Duration(1+tw.r.Int64N(60*dayLength)) * time.Microsecond
	r.OnExpiry, r.Force = spend.Expiry(tw.r.IntN(3)), tw.r.IntN(6) == 0
	if (method == "record" || r.Force) && tw.r.IntN(2) == 0 {
		r.Dated = time.UnixMicro(now - tw.r.Int64N(80*dayLength))
	}
	for _, also := range accounts[1:] {
		r.Also = append(r.Also, spend.Account{Name: also})
	}
	if method != "credit" {
		tw.began = append(tw.began, began{r.ID, accounts, now})
	}
	return tw.all(p, accounts, r)
}

// follow sends a request about an earlier spend whose ID Prune keeps.
func (tw *twins) follow(p int) error {
	tw.began = slices.DeleteFunc(tw.began, func(x began) bool { return tw.now()-x.at > keepIDs.Microseconds() })
	if len(tw.began) == 0 {
		return nil
	}
	n := 1 + tw.r.Int64N(20)
	of := tw.began[tw.r.IntN(len(tw.began))]
	method := []string{"capture", "void", "increase", "extend", "refund", "reverse", "decrease", "cancel"}[tw.r.IntN(8)]
	r := Request{
		Method: method, ID: tw.id(), Of: of.id, Amount: money(n), Final: n%2 == 0, Force: n%3 == 0,
		TTL: time.Duration(n) * days, OnExpiry: spend.Expiry(tw.r.IntN(3)),
	}
	if method == "cancel" {
		r.ID, r.Account = of.id, of.accounts[0]
	}
	return tw.all(p, of.accounts, r)
}

// limit gives an account a limit of its own.
func (tw *twins) limit(p int, account string) error {
	r := tw.rules[p][tw.r.IntN(len(tw.rules[p]))]
	l := spend.RuleLimit{Rule: r.Name, Default: tw.r.IntN(3) == 0}
	if !l.Default {
		l.Amount = r.units(tw.r.Int64N(r.Most))
		if tw.r.IntN(2) == 0 {
			l.Until = time.UnixMicro(tw.now() + tw.r.Int64N(100*dayLength))
		}
	}
	return tw.all(p, []string{account}, Request{Method: "limit", ID: tw.id(), Account: account, Limits: []spend.RuleLimit{l}})
}

// compare compares the figures that each process sees of the twins, and has it verify them.
func (tw *twins) compare() error {
	for p := range tw.rules {
		for _, account := range []string{"a", "b"} {
			var shown [2][]spend.Usage
			for i, b := range [...]*spend.Budgets{tw.kept[p], tw.prune[p]} {
				list, err := b.Remaining(ctx, account)
				if err := errors.Join(err, b.Verify(ctx, account)); err != nil {
					return fmt.Errorf("process %d, account %s: %w", p, account, err)
				}
				shown[i] = tw.plain(list)
			}
			if d := differ.Fields(shown[1], shown[0]); d != "" {
				return fmt.Errorf("process %d: the figures of account %s after Prune, against those without:\n%s", p, account, d)
			}
			if p != tw.plan[account] {
				continue
			}
			list, err := tw.plans.Remaining(ctx, account)
			if err := errors.Join(err, tw.plans.Verify(ctx, account)); err != nil {
				return fmt.Errorf("plan %q, account %s: %w", plans[p], account, err)
			}
			if d := differ.Fields(tw.plain(list), shown[0]); d != "" {
				return fmt.Errorf("the figures of account %s by a plan, against those by a process with these rules:\n%s", account, d)
			}
		}
	}
	return nil
}
