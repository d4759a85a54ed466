package lin

import (
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/brimgo/brim/lab/internal/history"
	"github.com/brimgo/brim/spend"
)

// tens is a budget with 10 units for each rule.
var tens = &budget{Single: 10, Lifetime: 10, Window: 10, Length: time.Hour, TTL: time.Hour}

// charged is a call that charges 5 units, with request 1. used is what the rules count after it.
func charged(began, over, used int64) *call {
	d := spend.Decision{Approved: true, Amount: eur(5), At: history.At(0)}
	for _, name := range ruleNames {
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

// TestResolved: a later call with the same request tells the outcome of a call of unknown outcome,
// and the model judges the history as before.
func TestResolved(t *testing.T) {
	m := &spendModel{budget: tens, began: history.At(0)}
	reads := func(began, over, used int64) *call {
		c := charged(began, over, used)
		a, _ := c.out.(spendAnswer)
		if used > 0 {
			a.Remaining[window].GrowsAt = a.At.Add(tens.Length)
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
