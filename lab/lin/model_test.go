package lin

import (
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/brimgo/brim/lab/internal/history"
	"github.com/brimgo/brim/spend"
	"github.com/brimgo/brim/store"
)

// epoch is the time at which the histories' clocks begin.
var epoch = history.At(0).UnixMicro()

// fillOf is a call on bucket 0, which has the capacity 10. A negative amount drains.
func fillOf(began, over int64, amount, level float64) *call {
	st := store.State{Accepted: true, Level: level, Capacity: 10, LeakRate: 1, Drained: max(0, -amount), At: history.At(0)}
	res := history.Result{Accepted: true, States: []store.State{st}}
	return &call{
		in:    fillOne(0, amount, 0, store.Always),
		out:   storeResponse{history.Answer{Results: []history.Result{res}}},
		began: began, over: over, readings: []int64{epoch},
	}
}

func unknownOf(began, over int64, amount float64) *call {
	c := fillOf(began, over, amount, 0)
	c.out = nil
	return c
}

func readOf(began, over int64, level float64) *call {
	c := fillOf(began, over, 0, level)
	c.in = storeRequest{history.Op{Kind: history.Read, Keys: []int{0}}}
	a, _ := c.out.(storeResponse)
	a.Results[0].States[0].Accepted = false
	return c
}

// TestModels: the models allow none of these histories, which no planted fault makes.
func TestModels(t *testing.T) {
	var limits [keys]store.Limit
	for k := range limits {
		limits[k] = store.Limit{Capacity: 10, LeakRate: 1}
	}
	exact := &storeModel{bucket: bucketsOf(limits, "")}
	cutOff := fillOf(3, 4, -2, 3)
	cutOff.split = true
	for _, c := range []struct {
		name, why string
		m         model
		calls     []*call
	}{
		{
			"after the end", "a server that has ended commits nothing", exact,
			[]*call{unknownOf(1, 4, 5), readOf(5, 6, 0), readOf(7, 8, 5)},
		},
		{
			"drain lost while cut off", "the drain found something", exact,
			[]*call{fillOf(1, 2, 5, 5), cutOff, readOf(5, 6, 5)},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := check(c.m, c.calls, time.Minute).CheckResult; got != porcupine.Illegal {
				t.Errorf("%s, want %s: %s", got, porcupine.Illegal, c.why)
			}
		})
	}
}

// TestPartition: calls that share a bucket, also by way of another call, are checked together.
func TestPartition(t *testing.T) {
	on := func(ks ...int) *call {
		return &call{in: storeRequest{history.Op{Kind: history.Delete, Keys: ks}}}
	}
	parts := partition([]*call{on(0), on(1), on(2, 3), on(1, 3), on()})
	if len(parts) != 2 || len(parts[0]) != 1 || len(parts[1]) != 3 {
		t.Errorf("the parts are %v, want one of the first call and one of three", parts)
	}
}

// TestRules: a decision that begins when new rules are set goes by them, and no account goes back.
func TestRules(t *testing.T) {
	m := &spendModel{budget: tens, began: history.At(0)}
	set := func(began, over, revision, amount int64) *call {
		r := tens.First
		r.Revision, r.Single, r.Lifetime, r.Window = revision, amount, amount, amount
		return &call{in: spendRequest{Verb: setRules, Rules: r}, out: spendAnswer{}, began: began, over: over}
	}
	refused := func(c *call) *call {
		c.out = spendAnswer{Mistake: spend.ErrBudget.Error()}
		return c
	}
	starting := func(c *call) *call {
		q, _ := c.in.(spendRequest)
		q.Starts = true
		c.in = q
		return c
	}
	by := func(limit int64, c *call) *call {
		a, _ := c.out.(spendAnswer)
		for i := range a.Remaining {
			u := &a.Remaining[i]
			u.Limit, u.Remaining = eur(limit), eur(u.Remaining.Minor+limit-u.Limit.Minor)
		}
		return c
	}
	next := func(c *call) *call { // another request
		q, _ := c.in.(spendRequest)
		q.Number++
		c.in = q
		return c
	}
	asked := func(c *call) *call {
		c.in = spendRequest{Verb: remaining}
		return c
	}
	for _, c := range []struct {
		name  string
		calls []*call
		want  porcupine.CheckResult
	}{
		{"newer rules hold", []*call{set(1, 2, 1, 20), by(20, charged(3, 4, 5))}, porcupine.Ok},
		{"older rules hold no more", []*call{set(1, 2, 1, 20), charged(3, 4, 5)}, porcupine.Illegal},
		{"older rules hold meanwhile", []*call{set(1, 4, 1, 20), charged(2, 3, 5)}, porcupine.Ok},
		{"a question between the rules and the commit", []*call{charged(1, 8, 5), set(2, 3, 1, 20), by(20, asked(charged(4, 5, 0)))}, porcupine.Ok},
		{"a question after both", []*call{charged(1, 8, 5), set(2, 3, 1, 20), by(20, asked(charged(9, 10, 0)))}, porcupine.Illegal},
		{"a decision between them", []*call{next(charged(1, 8, 10)), set(2, 3, 1, 20), by(20, charged(4, 5, 5))}, porcupine.Illegal},
		{"unknown, and done", []*call{lost(set(1, 9, 1, 20)), charged(2, 3, 5), by(20, next(charged(4, 5, 10)))}, porcupine.Ok},
		{"unknown, and not done", []*call{lost(set(1, 9, 1, 20)), charged(2, 3, 5), next(charged(10, 11, 10))}, porcupine.Ok},
		{"older rules are back", []*call{lost(set(1, 9, 1, 20)), by(20, charged(2, 3, 5)), next(charged(4, 5, 10))}, porcupine.Illegal},
		{"the same rules", []*call{set(1, 2, 1, 20), set(3, 4, 1, 20)}, porcupine.Ok},
		{"other rules of one revision", []*call{set(1, 2, 1, 20), set(3, 4, 1, 30)}, porcupine.Illegal},
		{"one of two", []*call{set(1, 4, 1, 20), refused(set(2, 3, 1, 30)), by(20, charged(5, 6, 5))}, porcupine.Ok},
		{"none of two", []*call{refused(set(1, 4, 1, 20)), refused(set(2, 3, 1, 30))}, porcupine.Illegal},
		{"a lower revision", []*call{set(1, 2, 2, 20), set(3, 4, 1, 30)}, porcupine.Illegal},
		{"a start with a lower revision", []*call{set(1, 2, 2, 20), starting(set(3, 4, 1, 30)), by(20, charged(5, 6, 5))}, porcupine.Ok},
		{"a start with other rules of one revision", []*call{set(1, 2, 1, 20), starting(set(3, 4, 1, 30))}, porcupine.Illegal},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := check(m, c.calls, time.Minute).CheckResult; got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
		})
	}
}
