package lin

import (
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/brimgo/brim/lab/internal/harness"
	"github.com/brimgo/brim/lab/internal/history"
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

// TestFiguresAfterMend: a mend gives the account figures of all rules of its process, and
// ForgetRule tells that it has taken them.
func TestFiguresAfterMend(t *testing.T) {
	s := subject{name: "memledger", open: inMemledger}
	f, _, err := s.try(harness.Seed(1), []step{
		{in: spendRequest{Verb: mend, Number: 1, Account: team, Old: true}}, {in: spendRequest{Verb: forget, Account: team}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if f != nil {
		t.Error(f.describe())
	}
}
