package postgres_test

import (
	"testing"

	"github.com/brimgo/brim/internal/pgtest"
	"github.com/brimgo/brim/postgres"
	"github.com/brimgo/brim/store"
)

// TestAlternatingRates refuses calls of two processes with two rates, as in a deployment that is half
// done. Each change of the rate is written once, and nothing leaks twice. A refusal at the rate last
// written writes nothing to the write-ahead log.
func TestAlternatingRates(t *testing.T) {
	const calls = 100
	server := pgtest.NewServer(t, "autovacuum=off")
	pool := server.Pool(t)
	schema := migrateOn(t, pool)
	clock := newHandClock()
	stores := [2]*postgres.Store{}
	for i := range stores {
		stores[i] = over(t, pool, postgres.Options{Schema: schema, Clock: clock.now})
	}
	limits := [2]store.Limit{{Capacity: 100, LeakRate: 1. / 1024}, {Capacity: 100, LeakRate: 1. / 512}}
	fill(t, stores[0], op(limits[0].For("k"), 100, store.IfFits))
	wal := func(each func(i int)) int {
		execute(t, pool, "CHECKPOINT")
		each(0) // its page goes into the log wholly, the first time after a checkpoint
		each(1)
		start := scalar[string](t, pool, "SELECT pg_current_wal_insert_lsn()::text")
		for i := range calls {
			each(i)
		}
		return scalar[int](t, pool, "SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), $1::text::pg_lsn)::int", start)
	}
	refuse := func(i int) {
		t.Helper()
		if st := fill(t, stores[i%2], op(limits[i%2].For("k"), 50, store.IfFits)); st.Accepted {
			t.Fatalf("%+v; the bucket is full", st)
		}
	}
	alternating := wal(refuse)
	same := wal(func(int) { refuse(0) })
	t.Logf("a refusal writes %d bytes to the log where two rates alternate, and %d where one stays", alternating/calls, same/calls)
	if alternating/calls < 50 || alternating/calls > 1000 || same/calls > 10 {
		t.Errorf("a refusal writes %d bytes where two rates alternate, and %d where one stays; want some hundred and none",
			alternating/calls, same/calls)
	}
}
