package postgres

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/brimgo/brim/internal/pgrun"
	"github.com/brimgo/brim/internal/pgtest"
	"github.com/brimgo/brim/migrations"
	"github.com/brimgo/brim/store"
)

// TestCaution: statements look before they lock while refusals are frequent, and for some
// statements more.
func TestCaution(t *testing.T) {
	for _, c := range []struct {
		why               string
		careful           int // before
		refusals, answers int // of each statement
		statements        int
		want              int // careful afterwards
		seen, among       int // the numbers that are remembered
	}{
		{"one refusal among 64 is rare", 5, 1, 64, 1, 4, 1, 64},
		{"one refusal among fewer is frequent", 5, 1, 63, 1, cautious, 1, 63},
		{"caution ends after as many statements without a refusal", cautious, 0, 1, cautious, 0, 0, cautious},
		{"caution that has ended does not begin by itself", 0, 0, 1, 3, 0, 0, 3},
		{"the last 1024 answers count in full", 0, 0, recent, 1, 0, 0, recent},
		{"older ones count for half", 0, 8, recent + 2, 1, 0, 4, recent/2 + 1},
	} {
		f := &filler{careful: c.careful}
		for range c.statements {
			f.caution(c.refusals, c.answers)
		}
		if f.careful != c.want || f.refusals != c.seen || f.answers != c.among {
			t.Errorf("%s: careful for %d statements, %d refusals among %d answers; want %d, %d and %d",
				c.why, f.careful, f.refusals, f.answers, c.want, c.seen, c.among)
		}
	}
}

// TestCountRefusals: a group counts as a refusal if its first request was refused, and the groups
// that a statement left open count besides.
func TestCountRefusals(t *testing.T) {
	tried := func(accepted bool, err error) group {
		return group{reqs: []*fillRequest{{Out: store.State{Accepted: accepted}, Err: err}}}
	}
	for _, c := range []struct {
		why  string
		g    group
		open int
		want int
	}{
		{"it went in", tried(true, nil), 0, 0},
		{"it was refused", tried(false, nil), 0, 1},
		{"it failed, and nobody knows whether it fits", tried(false, store.ErrUnavailable), 0, 0},
		{"others were left open", tried(true, nil), 2, 2},
	} {
		f := &filler{}
		f.tries = []group{c.g}
		f.countRefusals(c.open)
		if f.refusals != c.want || f.answers != 1 {
			t.Errorf("%s: %d refusals among %d answers; want %d among 1", c.why, f.refusals, f.answers, c.want)
		}
	}
}

// TestNewAsked: the snapshot may refuse an operation where the row alone decides it.
func TestNewAsked(t *testing.T) {
	b := store.Limit{Capacity: 10}.For("k")
	plain := store.Op{Bucket: b, Amount: 1, Hold: 2}
	for _, c := range []struct {
		why      string
		txns     []store.Txn
		refuses  bool    // the first operation, if it does not fit
		need     float64 // of it
		capacity float64
	}{
		{"amount and hold must fit together", []store.Txn{{plain}}, true, 3, 10},
		{"a lower ceiling refuses sooner", []store.Txn{{{Bucket: b, Amount: 3, Ceiling: 4}}}, true, 3, 4},
		{"a higher ceiling lets in no more than the capacity", []store.Txn{{{Bucket: b, Amount: 3, Ceiling: 40}}}, true, 3, 10},
		{"a refusal sets a block", []store.Txn{{{Bucket: b, Amount: 3, BlockFor: 1e9}}}, false, 0, 10},
		{"nothing is always accepted", []store.Txn{{{Bucket: b}}}, false, 0, 10},
		{"another operation makes room", []store.Txn{{plain}, {{Bucket: b, Amount: -1}}}, false, 0, 10},
		{"another operation ends a hold", []store.Txn{{plain}, {{Bucket: b, Hold: -1, Mode: store.Always}}}, false, 0, 10},
		{"a question beside it changes nothing", []store.Txn{{plain}, {{Bucket: b, Amount: -1, Mode: store.Ask}}}, true, 3, 10},
	} {
		a := newAsked(c.txns)
		if need := a.needs[0]; need.Valid != c.refuses || c.refuses && need.Float64 != c.need || a.capacities[0] != c.capacity {
			t.Errorf("%s: needs %+v of %v; want %v of %v, refused: %v", c.why, need, a.capacities[0], c.need, c.capacity, c.refuses)
		}
	}
}

// TestFastArgs: a value that all keys have in common goes out once, and each other value once for
// each key. The level before is asked for where a key has several callers.
func TestFastArgs(t *testing.T) {
	s, err := New(pgtest.Pool(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	f := &filler{s: s}
	of := func(capacity, rate float64, amounts ...float64) (g group) {
		b := store.Limit{Capacity: capacity, LeakRate: rate}.For("k")
		for _, n := range amounts {
			g.reqs = append(g.reqs, &fillRequest{In: store.Op{Bucket: b, Amount: n}})
		}
		return g
	}
	first := of(9, 5, 3)
	for _, c := range []struct {
		why    string
		second group
		want   string // the sums, the capacities, the rates, and whether the level before is needed
	}{
		{"all alike", of(9, 5, 3), "[3 <nil> 9 <nil> 5 <nil> false]"},
		{"two amounts", of(9, 5, 4), "[<nil> [3 4] 9 <nil> 5 <nil> false]"},
		{"two capacities", of(8, 5, 3), "[3 <nil> <nil> [9 8] 5 <nil> false]"},
		{"two rates", of(9, 6, 3), "[3 <nil> 9 <nil> <nil> [5 6] false]"},
		{"two callers with the same sum", of(9, 5, 1, 2), "[3 <nil> 9 <nil> 5 <nil> true]"},
	} {
		if got := fmt.Sprint(f.fastArgs([]group{first, c.second})[1:8]); got != c.want {
			t.Errorf("%s: %s; want %s", c.why, got, c.want)
		}
		if st := f.tryFast([]group{first, c.second}); !st.ordered {
			t.Errorf("%s: the statement need not go by the index, so it can lock rows in any order", c.why)
		}
	}
}

// onLane calls flush with the filler of a lane that has a connection, over a table of its own.
func onLane(t *testing.T, o Options, flush func(context.Context, *filler)) {
	t.Helper()
	pool := pgtest.Pool(t)
	o.Schema = pgtest.Schema(t)
	if err := migrations.Up(t.Context(), pool, &migrations.Options{Schema: o.Schema}); err != nil {
		t.Fatal(err)
	}
	s, err := New(pool, &o)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	c, err := pgrun.NewCombiner(s.run, pgrun.Batching{Lanes: 1},
		pgrun.Rows[store.Op]{Names: opKey, Probe: s.sql.Load().probe},
		func(l *pgrun.Lane) pgrun.Flush[store.Op, store.State] {
			return func(ctx context.Context, _ []*fillRequest) []*fillRequest {
				flush(ctx, newFiller(s, l))
				return nil
			}
		})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Do(t.Context(), 0, store.Op{}); err != nil {
		t.Fatal(err)
	}
}

// TestOneBadOfTwo decides two requests together, one of which the server refuses. The other one goes
// in.
func TestOneBadOfTwo(t *testing.T) {
	limit := store.Limit{Capacity: 10}
	type decide = func(*filler, context.Context, []*fillRequest) []*fillRequest
	for name, decide := range map[string]decide{"by statements": (*filler).decide, "by locks": (*filler).decideLocked} {
		onLane(t, Options{}, func(ctx context.Context, f *filler) {
			bad := &fillRequest{In: store.Op{Bucket: limit.For("no UTF-8: \xff"), Amount: 1}}
			good := &fillRequest{In: store.Op{Bucket: limit.For("good"), Amount: 1}}
			if stalled := decide(f, ctx, []*fillRequest{bad, good}); len(stalled) != 0 {
				t.Errorf("%s: %d requests stalled", name, len(stalled))
			}
			if !errors.Is(bad.Err, store.ErrUnavailable) || good.Err != nil || !good.Out.Accepted {
				t.Errorf("%s: the bad one gets %v, the good one %+v, %v", name, bad.Err, good.Out, good.Err)
			}
		})
	}
}
