package postgres

import (
	"context"
	"errors"
	"testing"

	"github.com/brimgo/brim/internal/pgrun"
	"github.com/brimgo/brim/internal/pgtest"
	"github.com/brimgo/brim/migrations"
	"github.com/brimgo/brim/store"
)

// TestReach: the SELECT goes out with the UPDATE while refusals and new buckets are frequent, and the
// INSERT while new buckets are.
func TestReach(t *testing.T) {
	for _, c := range []struct {
		why                   string
		before                filler
		made, refused, groups int // of the next flush
		again                 bool
		want                  reach
		after                 filler
	}{
		{"a new lane knows nothing", filler{}, 0, 0, 0, false, whole, filler{}},
		{"one accepted amount", filler{}, 0, 0, 1, false, alone, filler{answers: 1}},
		{"one refusal among 64 is frequent", filler{}, 0, 1, 64, false, asking, filler{answers: 64, others: 1}},
		{"one refusal among more is rare", filler{}, 0, 1, 65, false, alone, filler{answers: 65, others: 1}},
		{"one new bucket among 64 is frequent", filler{}, 1, 0, 64, false, whole, filler{answers: 64, others: 1, made: 1}},
		{"a bucket made by a second round trip counts once", filler{answers: 64, others: 1}, 1, 0, 1, true, whole, filler{answers: 64, others: 1, made: 1}},
		{"accepted amounts end the caution", filler{answers: 1, others: 1}, 0, 0, 64, false, alone, filler{answers: 65, others: 1}},
		{"the last 1024 answers count in full", filler{answers: 1000, others: 16}, 0, 0, 24, false, asking, filler{answers: 1024, others: 16}},
		{"older ones count for half", filler{answers: 1000, others: 16, made: 4}, 0, 0, 26, false, alone, filler{answers: 513, others: 8, made: 2}},
	} {
		f := &c.before
		rows := make([]row, c.groups)
		for i := range rows {
			rows[i] = row{updated: i >= c.made+c.refused, written: i < c.made || i >= c.made+c.refused}
		}
		f.count(rows, c.again)
		if f.reach() != c.want || f.others != c.after.others || f.answers != c.after.answers || f.made != c.after.made {
			t.Errorf("%s: reach %d, %d others and %d made of %d answers; want %d, %d, %d and %d", c.why,
				f.reach(), f.others, f.made, f.answers, c.want, c.after.others, c.after.made, c.after.answers)
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
	c, err := pgrun.NewCombiner(s.run, pgrun.Batching{Lanes: 1}, opKey,
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
