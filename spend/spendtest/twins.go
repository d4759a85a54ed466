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

// twins are two budgets of one ledger that get the same requests, and the same revisions of their
// rules. One of them is pruned. Every decision must be the same.
type twins struct {
	player
	// rarely is Harness.CompareRarely.
	rarely bool
	// long is set if the budgets have rules that look back further than KeepIDs.
	long     bool
	rules    [2][]Rule // of which one or the other is in force
	force    int       // the one in force
	revision int64
	kept     *spend.Budgets
	pruned   *spend.Budgets
	began    []began
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

// playTwins plays a pair of twins for every 40 sequences, until there is a mismatch.
func playTwins(t *testing.T, h Harness, seed uint64, sequences int) {
	n := max(1, sequences/40)
	for first := 0; first < n && !t.Failed(); first += twinsPerLedger {
		playTwinsFrom(t, h, seed, first, min(first+twinsPerLedger, n), again(t, seed, sequences))
	}
}

// playTwinsFrom plays twins on one ledger.
func playTwinsFrom(t *testing.T, h Harness, seed uint64, first, end int, again string) {
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
			rarely: h.CompareRarely, long: i%3 == 0,
		}
		if err := tw.play(l); err != nil {
			t.Errorf("twins %s: %v\nwhy: a later decision is the same with and without Prune\n"+
				"%s%s", tw.name, err, strings.Join(tw.told, ""), again)
		}
	}
}

func (tw *twins) play(l ledger.Ledger) (err error) {
	tw.someRules()
	for name, b := range map[string]**spend.Budgets{"k": &tw.kept, "p": &tw.pruned} {
		if *b, err = spend.New(ctx, l, tw.budget(name), nil); err != nil {
			return err
		}
	}
	tw.tell("the rules are %+v", tw.rules[0])
	// A rule that is new to an account counts the entries that are left, so every rule begins here.
	if err := tw.charge("record", []string{"a", "b"}); err != nil {
		return err
	}
	for range twinSteps {
		tw.advance()
		if tw.r.IntN(3) == 0 {
			done, err := tw.pruned.Prune(ctx)
			tw.tell("prune: %+v, %v", done, err)
			if err != nil {
				return err
			}
		}
		if tw.r.IntN(4) == 0 {
			if err := tw.revise(); err != nil {
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

// budget returns the rules in force for the budget of a twin.
func (tw *twins) budget(name string) spend.Budget {
	b := budget(tw.name+name, tw.rules[tw.force])
	b.Revision = tw.revision
	return b
}

// revise lets the other rules be in force.
func (tw *twins) revise() error {
	tw.force, tw.revision = 1-tw.force, tw.revision+1
	tw.tell("the rules are %+v", tw.rules[tw.force])
	if err := cmp.Or(tw.kept.SetRules(ctx, tw.budget("k"), nil), tw.pruned.SetRules(ctx, tw.budget("p"), nil)); err != nil {
		return err
	}
	return tw.charge("record", []string{"a", "b"}) // Prune drops the figures of a rule that is gone, as a decision does
}

// someRules makes rules for both kinds of revisions, and gives rules of the same name other
// amounts. Some are in one of them alone: those that count nothing but the entries of KeepIDs.
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
		who := r.IntN(3) // the one, the other, or both
		credits := possible[i].mayCredit() && r.IntN(2) == 0
		if k := possible[i].Kind; credits || k == "leaky" || k == "year" || k == "lifetime" || possible[i].Width > keepIDs.Microseconds() {
			who = 2
		}
		for p := range tw.rules {
			if x := possible[i]; who == 2 || who == p {
				x.Limit = limit()
				x.Most = 2 * x.Limit
				x.Credits = credits
				x.tells = r.IntN(3)
				x.Shadow = r.IntN(4) == 0
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
	switch n := tw.r.IntN(100); {
	case n < 20:
		return tw.charge("charge", accounts)
	case n < 40:
		return tw.charge("authorize", accounts)
	case n < 50:
		return tw.charge("record", accounts)
	case n < 60:
		return tw.charge("credit", accounts)
	case n < 70:
		return tw.limit(accounts[0])
	}
	return tw.follow()
}

// same sends a request to the twins, and compares the answers. Names of requests and budgets end in
// that of the twin.
func (tw *twins) same(r Request) error {
	twin := func(name string, b *spend.Budgets) (spend.Decision, error) {
		q := r
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
		tw.plain(d.Shadow)
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
	kept, err := twin("k", tw.kept)
	tw.tell("%+v: %t %v", r, kept.Approved, err)
	pruned, perr := twin("p", tw.pruned)
	if fmt.Sprint(err) != fmt.Sprint(perr) {
		return fmt.Errorf("the error after Prune is %w; without, it is %w", cmp.Or(perr, errNone), cmp.Or(err, errNone))
	}
	if diff := differ.Fields(pruned, kept); diff != "" {
		return fmt.Errorf("the decision after Prune, against the one without:\n%s", diff)
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

func (tw *twins) charge(method string, accounts []string) error {
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
	return tw.same(r)
}

// follow sends a request about an earlier spend whose ID Prune keeps.
func (tw *twins) follow() error {
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
	return tw.same(r)
}

// limit gives an account a limit of its own.
func (tw *twins) limit(account string) error {
	rules := tw.rules[tw.force]
	r := rules[tw.r.IntN(len(rules))]
	l := spend.RuleLimit{Rule: r.Name, Default: tw.r.IntN(3) == 0}
	if !l.Default {
		l.Amount = r.units(tw.r.Int64N(r.Most))
		if tw.r.IntN(2) == 0 {
			l.Until = time.UnixMicro(tw.now() + tw.r.Int64N(100*dayLength))
		}
	}
	return tw.same(Request{Method: "limit", ID: tw.id(), Account: account, Limits: []spend.RuleLimit{l}})
}

// compare compares the figures of the twins, and verifies them.
func (tw *twins) compare() error {
	for _, account := range []string{"a", "b"} {
		var shown [2][]spend.Usage
		for i, b := range [...]*spend.Budgets{tw.kept, tw.pruned} {
			list, err := b.Remaining(ctx, account)
			if err := errors.Join(err, b.Verify(ctx, account)); err != nil {
				return fmt.Errorf("account %s: %w", account, err)
			}
			shown[i] = tw.plain(list)
		}
		if d := differ.Fields(shown[1], shown[0]); d != "" {
			return fmt.Errorf("the figures of account %s after Prune, against those without:\n%s", account, d)
		}
	}
	return nil
}
