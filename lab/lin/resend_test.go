package lin

import (
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/brimgo/brim/lab/internal/history"
	"github.com/brimgo/brim/spend"
	"github.com/brimgo/brim/spend/memledger"
	"github.com/brimgo/brim/store"
)

// tens is a budget with 10 units for each rule.
var tens = &budget{First: Rules{Single: 10, Lifetime: 10, Window: 10, Length: time.Hour}, TTL: time.Hour}

// charged is a call that charges 5 units, with request 1. used is what the rules count after it.
func charged(began, over, used int64) *call {
	d := spend.Decision{Approved: true, Amount: eur(5), At: history.At(0)}
	for _, name := range ruleNames[:extra] {
		u := spend.Usage{Account: spend.Account{Name: "0"}, Rule: name, Limit: eur(10), Used: eur(used), Held: eur(0), Remaining: eur(10 - used)}
		if name == "single" {
			u.Used, u.Remaining = eur(0), eur(10)
		}
		d.Remaining = append(d.Remaining, u)
	}
	return &call{
		in: spendRequest{Verb: charge, Number: 1, Amount: 5}, out: spendAnswer{Decision: d}, began: began, over: over,
	}
}

func replayed(c *call) *call {
	a, _ := c.out.(spendAnswer)
	a.Replayed = true
	c.out = a
	return c
}

func lost(c *call) *call {
	c.out = nil
	return c
}

// recorded is as charged, of money that has moved.
func recorded(began, over int64) *call {
	c := charged(began, over, 5)
	c.in = spendRequest{Verb: record, Number: 1, Amount: 5}
	return c
}

// canceling is a call that cancels request 1, and gives money back.
func canceling(began, over, amount int64) *call {
	c := charged(began, over, 0)
	a, _ := c.out.(spendAnswer)
	a.Amount, a.Canceled = eur(amount), true
	c.in, c.out = spendRequest{Verb: charge, Number: 1}.canceled(), a
	return c
}

// dead is a call that charges with request 1 after its cancellation.
func dead(began, over int64) *call {
	c := charged(began, over, 0)
	a, _ := replayed(c).out.(spendAnswer)
	a.Approved, a.Canceled, a.Amount, a.RetryAfter = false, true, spend.Money{}, store.Never
	c.out = a
	return c
}

// voided is a call that voids request 1, which holds nothing.
func voided(began, over int64) *call {
	return &call{
		in: spendRequest{Verb: void, Number: 2, Spend: 1}, out: spendAnswer{Mistake: spend.ErrHoldEnded.Error()}, began: began, over: over,
	}
}

// TestResolved: a later call with the same request tells the outcome of a call of unknown outcome,
// and the model judges the history as before.
func TestResolved(t *testing.T) {
	m := &spendModel{budget: tens, began: history.At(0)}
	reads := func(began, over, used int64) *call {
		c := charged(began, over, used)
		a, _ := c.out.(spendAnswer)
		if used > 0 {
			a.Remaining[window].GrowsAt = a.At.Add(tens.First.Length)
		}
		c.in, c.out = spendRequest{Verb: remaining}, a
		return c
	}
	mistaken := charged(7, 8, 0)
	mistaken.out = spendAnswer{Mistake: "unknown"}
	for _, c := range []struct {
		name, why string
		calls     []*call
		unknown   int // in the end
		left      int // calls in the end
		want      porcupine.CheckResult
	}{
		{
			"decided", "the answer is that of the first call",
			[]*call{lost(charged(1, 4, 5)), reads(2, 3, 5), replayed(charged(7, 8, 5))},
			0, 3, porcupine.Ok,
		},
		{
			"never arrived", "the later call was decided",
			[]*call{lost(charged(1, 4, 5)), reads(5, 6, 0), charged(7, 8, 5)},
			0, 2, porcupine.Ok,
		},
		{
			"charged twice", "the first call was decided, too",
			[]*call{lost(charged(1, 4, 5)), reads(5, 6, 5), charged(7, 8, 10)},
			0, 2, porcupine.Illegal,
		},
		{
			"answered for nothing", "the money is not used, although the first call is said to have been decided",
			[]*call{lost(charged(1, 4, 5)), reads(5, 6, 0), replayed(charged(7, 8, 5))},
			0, 3, porcupine.Illegal,
		},
		{
			"decided by another call", "a call of the same time was decided",
			[]*call{lost(charged(1, 4, 5)), charged(2, 3, 5), replayed(charged(7, 8, 5))},
			0, 2, porcupine.Ok,
		},
		{
			"one of two", "nobody knows which of two was the first",
			[]*call{lost(charged(1, 4, 5)), lost(charged(2, 4, 5)), replayed(charged(7, 8, 5))},
			2, 3, porcupine.Ok,
		},
		{
			"asked too early", "the first call can still be decided after the later one",
			[]*call{lost(charged(1, 9, 5)), mistaken},
			1, 2, porcupine.Illegal, // a charge makes no mistake
		},
		{
			"a mistake", "a request that is still wrong was not decided",
			[]*call{lost(charged(1, 4, 5)), mistaken},
			0, 1, porcupine.Illegal,
		},
		{
			"canceled", "the first call was decided before the cancellation, or never: the later answer does not tell",
			[]*call{lost(charged(1, 4, 5)), canceling(5, 6, 5), dead(7, 8)},
			1, 3, porcupine.Ok,
		},
		{
			"canceled for nothing", "the cancellation has given back what nobody has taken",
			[]*call{lost(charged(1, 4, 5)), reads(5, 6, 0), canceling(7, 8, 5), dead(9, 10)},
			1, 4, porcupine.Illegal,
		},
		{
			"canceled twice", "a record takes the place of a cancellation, so the later one does not tell whether there was an earlier one",
			[]*call{lost(canceling(1, 4, 0)), voided(5, 6), recorded(7, 8), canceling(9, 10, 5)},
			1, 4, porcupine.Ok,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			calls := resolved(c.calls)
			if n := pending(calls); n != c.unknown || len(calls) != c.left {
				t.Errorf("%d calls, %d of them unknown, want %d and %d: %s", len(calls), n, c.left, c.unknown, c.why)
			}
			if got := check(m, calls, time.Minute).CheckResult; got != c.want {
				t.Errorf("%s, want %s: %s", got, c.want, c.why)
			}
			if before := check(m, c.calls, time.Minute).CheckResult; before != c.want {
				t.Errorf("%s before, want %s: %s", before, c.want, c.why)
			}
		})
	}
}

// TestResendTells: the entry of a request tells its time although it was canceled, and so the wait
// of a later decline is known.
func TestResendTells(t *testing.T) {
	b := &budget{First: hundreds, TTL: time.Hour}
	m := newSpendModel(b)
	now := m.began
	s, err := b.over(t.Context(), memledger.New(&memledger.Options{Clock: func() time.Time { now = now.Add(time.Second); return now }}))
	if err != nil {
		t.Fatal(err)
	}
	h := &played{world: &remote{callee: callee{spends: s}}, slots: make(chan struct{}, clients)}
	hold := spendRequest{Verb: authorize, Number: 1, Amount: 60}
	for _, q := range []spendRequest{hold, {Verb: charge, Number: 2, Amount: 60}, hold.canceled()} {
		if _, err := h.call(step{in: q}); err != nil {
			t.Fatal(err)
		}
	}
	lost(h.rec.calls[0])
	if err := h.resend(); err != nil {
		t.Fatal(err)
	}
	calls := resolved(h.rec.calls)
	if got := check(m, calls, time.Minute).CheckResult; got != porcupine.Ok || pending(calls) != 1 {
		t.Errorf("%s, and %d calls of unknown outcome; want %s and 1", got, pending(calls), porcupine.Ok)
	}
}
