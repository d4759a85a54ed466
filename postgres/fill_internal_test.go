package postgres

import (
	"context"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/brimgo/brim/internal/pgrun"
	"github.com/brimgo/brim/internal/pgtest"
	"github.com/brimgo/brim/migrations"
	"github.com/brimgo/brim/store"
)

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

// ownTable returns a store over a table of its own on the shared server.
func ownTable(t *testing.T, o Options) (s *Store, pool *pgxpool.Pool, schema string) {
	t.Helper()
	pool, schema = pgtest.Pool(t), pgtest.Schema(t)
	if err := migrations.Up(t.Context(), pool, &migrations.Options{Schema: schema}); err != nil {
		t.Fatal(err)
	}
	o.Schema = schema
	s, err := New(pool, &o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s, pool, schema
}

// onLane calls flush with the filler of a lane that has a connection, over a table of its own.
func onLane(t *testing.T, o Options, flush func(context.Context, *filler)) {
	t.Helper()
	s, _, _ := ownTable(t, o)
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
