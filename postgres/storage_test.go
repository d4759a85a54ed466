package postgres_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/brimgo/brim/internal/pgtest"
	"github.com/brimgo/brim/internal/seed"
	"github.com/brimgo/brim/postgres"
	"github.com/brimgo/brim/store"
)

// concurrently calls f n times, from 64 goroutines.
func concurrently(t *testing.T, n int64, f func(i int64) error) {
	t.Helper()
	var next atomic.Int64
	var wg sync.WaitGroup
	for range 64 {
		wg.Go(func() {
			for i := next.Add(1); i <= n; i = next.Add(1) {
				if err := f(i); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
}

// updates are the server's counts of updated rows, and of those that kept their index entries.
func updates(t *testing.T, pool *pgxpool.Pool) (all, hot int64) {
	t.Helper()
	err := pool.QueryRow(t.Context(), "SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables WHERE relname = 'buckets'").Scan(&all, &hot)
	if err != nil {
		t.Fatal(err)
	}
	return all, hot
}

// TestUpdatesAreHeapOnly fills one hot key and many keys. Updates are heap-only, and a hot key
// does not make the table grow. An index on a column that every fill changes would break both.
func TestUpdatesAreHeapOnly(t *testing.T) {
	t.Parallel()
	const keys = 10_000
	server := pgtest.NewServer(t)
	pool := server.Pool(t)
	s := over(t, pool, postgres.Options{Schema: migrateOn(t, pool)})
	strides := []int64{1, 7919} // prime to keys
	for _, c := range []struct {
		name  string
		keys  int64
		fills int64
	}{
		// The first fills insert, by TryFillup. The others visit every key once, in another order,
		// in each mode.
		{name: "10,000 keys", keys: keys, fills: 2 * keys},
		{name: "hot key", keys: 1, fills: 6_000},
	} {
		t.Run(c.name, func(t *testing.T) {
			watch := server.Pool(t)
			beforeAll, beforeHot := updates(t, watch)
			size := scalar[int64](t, watch, "SELECT pg_relation_size('brim.buckets')")
			// This pool is closed afterwards, so that it reports its statistics.
			pool := pgtest.PoolAt(t, tune(server.URL(), "application_name=measured"))
			s := over(t, pool, postgres.Options{})
			concurrently(t, c.fills, func(i int64) error {
				st, err := s.Fill(t.Context(), op(steady.For(fmt.Sprint("key/", i*strides[i/keys%int64(len(strides))]%c.keys)), 1, store.Mode(min(i/keys, 1)*i%3)))
				if err == nil && !st.Accepted {
					err = fmt.Errorf("refused: %+v", st)
				}
				return err
			})
			if err := s.Close(); err != nil {
				t.Error(err)
			}
			pool.Close()
			pgtest.Reported(t, watch, "measured")
			all, hot := updates(t, watch)
			all, hot = all-beforeAll, hot-beforeHot
			grown := scalar[int64](t, watch, "SELECT pg_relation_size('brim.buckets')") - size
			t.Logf("%d fills: %d rows updated, %d of them heap-only; the table grew by %d bytes", c.fills, all, hot, grown)
			if all < 50 || float64(hot) < 0.98*float64(all) {
				t.Errorf("%d of %d updates were heap-only; want 0.98 of many", hot, all)
			}
			if c.keys == 1 && float64(grown) > 0.02*float64(size) {
				t.Errorf("the table of %d bytes grew by %d under a hot key", size, grown)
			}
		})
	}
	if got := stateOf(t, s, "key/0").Level; got != 6_002 {
		t.Errorf("the hot key holds %v, want 6002", got)
	}
}

// quiet returns a server on which nothing writes unless the test asks for it.
func quiet(t *testing.T, settings ...string) *pgtest.Server {
	t.Helper()
	return pgtest.NewServer(t, append(settings, "autovacuum=off", "wal_level=minimal", "max_wal_senders=0", "checkpoint_timeout=1d")...)
}

// TestRefusalsWriteNothing makes calls that change nothing. They write no WAL and take no
// transaction id. Refusals at two rates by turns, as of two processes in a deployment that is half
// done, write each change of the rate.
func TestRefusalsWriteNothing(t *testing.T) {
	t.Parallel()
	pool := quiet(t).Pool(t)
	s := over(t, pool, postgres.Options{Schema: migrateOn(t, pool)})
	full := func(i int64) store.Bucket {
		return store.Limit{Capacity: 100, LeakRate: 1e-6}.For(fmt.Sprint("full/", i%200))
	}
	for i := range int64(200) {
		if st := fill(t, s, op(full(i), 100, store.IfFits)); !st.Full {
			t.Fatalf("%+v", st)
		}
	}
	refused := func(op store.Op) error {
		st, err := s.Fill(t.Context(), op)
		if err == nil && (st.Accepted || st.RetryAfter <= 0) {
			err = fmt.Errorf("not refused: %+v", st)
		}
		return err
	}
	able := func(op store.Op) error {
		st, err := s.Fill(t.Context(), op)
		if err == nil && !st.Accepted {
			err = fmt.Errorf("not accepted: %+v", st)
		}
		return err
	}
	alone := func(t *testing.T, n int64, f func(i int64) error) {
		for i := range n {
			if err := f(i); err != nil {
				t.Fatal(err)
			}
		}
	}
	blocked := func(i int64) store.Bucket {
		return store.Limit{Capacity: 100, LeakRate: 1e-6}.For(fmt.Sprint("blocked/", i%10))
	}
	for i := range int64(10) {
		fill(t, s, op(blocked(i), 100, store.IfFits))
		fill(t, s, store.Op{Bucket: store.Bucket{Key: blocked(i).Key}, BlockFor: time.Hour, Mode: store.Block})
	}
	faster := func(b store.Bucket) store.Bucket { b.LeakRate *= 2; return b }
	for _, c := range []struct {
		name  string
		calls func(t *testing.T, n int64, f func(i int64) error)
		call  func(i int64) error
	}{
		{"one caller refused", alone, func(i int64) error { return refused(op(full(i), 1, store.IfFits)) }},
		{"one caller refused for ever", alone, func(i int64) error { return refused(op(full(i), 101, store.IfFits)) }},
		{"one caller refused for ever by an absent bucket", alone, func(int64) error { return refused(op(full(0).Limit.For("absent"), 101, store.IfFits)) }},
		{"64 callers refused by one bucket", concurrently, func(int64) error { return refused(op(full(0), 1, store.IfFits)) }},
		{"64 callers refused by many buckets", concurrently, func(i int64) error { return refused(op(full(i), 1, store.IfFits)) }},
		{"a hold refused", alone, func(i int64) error { return refused(store.Op{Bucket: full(i), Hold: 1}) }},
		{"a hold refused by an absent bucket", alone, func(int64) error {
			return refused(store.Op{Bucket: full(0).Limit.For("absent"), Hold: 101})
		}},
		{"64 holds refused", concurrently, func(i int64) error { return refused(store.Op{Bucket: full(i), Hold: 1}) }},
		{"a ceiling", alone, func(i int64) error {
			return refused(store.Op{Bucket: full(i).Limit.For("absent"), Amount: 6, Ceiling: 5})
		}},
		{"several buckets, one of them full", concurrently, func(i int64) error {
			results, err := s.Apply(t.Context(), store.Txn{
				op(steady.For(fmt.Sprint("roomy/", i%10)), 1, store.IfFits), op(full(i), 1, store.IfFits),
			})
			if err == nil && (results[0].Err != nil || results[0].States[1].Accepted) {
				err = fmt.Errorf("not refused: %+v", results[0])
			}
			return err
		}},
		{"64 penalties of a blocked bucket", concurrently, func(int64) error {
			return refused(store.Op{Bucket: blocked(0), Amount: 1, BlockFor: time.Minute})
		}},
		{"penalties of blocked buckets, refused for ever", concurrently, func(i int64) error {
			return refused(store.Op{Bucket: blocked(i), Amount: 101, BlockFor: time.Minute})
		}},
		{"holds with a penalty, at another rate", concurrently, func(i int64) error {
			return refused(store.Op{Bucket: faster(blocked(i)), Hold: 1, BlockFor: store.UntilEmpty})
		}},
		{"another rate of a blocked bucket", concurrently, func(i int64) error {
			return refused(op(faster(blocked(i)), 1, store.IfFits))
		}},
		{"questions refused", alone, func(i int64) error { return refused(op(full(i), 1, store.Ask)) }},
		{"64 questions refused", concurrently, func(i int64) error { return refused(op(full(i), 1, store.Ask)) }},
		{"64 questions accepted", concurrently, func(i int64) error {
			return able(op(steady.For(fmt.Sprint("absent/", i%10)), 1, store.Ask))
		}},
		{"64 questions about holds", concurrently, func(i int64) error {
			return able(store.Op{Bucket: steady.For("absent"), Hold: 1, Ceiling: 5, Mode: store.Ask})
		}},
		{"transactions of questions", concurrently, func(i int64) error {
			results, err := s.Apply(t.Context(),
				store.Txn{op(steady.For("absent"), 1, store.Ask), op(full(i), 1, store.Ask)},
				store.Txn{op(steady.For("absent"), 1, store.Ask)})
			if err == nil && (results[0].Accepted || !results[1].Accepted) {
				err = fmt.Errorf("%+v", results)
			}
			return err
		}},
		{"ends of no block", concurrently, func(i int64) error {
			for _, key := range []string{full(i).Key, "absent"} {
				if err := able(store.Op{Bucket: store.Bucket{Key: key}, Mode: store.Unblock}); err != nil {
					return err
				}
			}
			return nil
		}},
		{"pings", alone, func(int64) error { return s.Ping(t.Context()) }},
		{"visits", alone, func(int64) error {
			n := 0
			err := s.Visit(t.Context(), "full/", func(store.Entry) bool { n++; return true })
			if err == nil && n != 200 {
				err = fmt.Errorf("visited %d buckets", n)
			}
			return err
		}},
		{"reads", concurrently, func(i int64) error { _, err := s.Read(t.Context(), full(i), full(0).Limit.For("absent")); return err }},
		{"fills of nothing", alone, func(i int64) error { _, err := s.Fill(t.Context(), op(full(i), 0, store.IfFits)); return err }},
		{"drains of an empty bucket", concurrently, func(int64) error {
			_, err := s.Fill(t.Context(), op(full(0).Limit.For("absent"), -1, store.Always))
			return err
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := seed.Attempts(300, 1000)
			c.calls(t, 100, c.call) // the first reader of a page may clean it, and so write
			lsn := scalar[string](t, pool, "SELECT pg_current_wal_insert_lsn()::text")
			xid := scalar[string](t, pool, "SELECT pg_snapshot_xmax(pg_current_snapshot())::text")
			c.calls(t, int64(n), c.call)
			wal := scalar[int64](t, pool, "SELECT (pg_current_wal_insert_lsn() - $1::text::pg_lsn)::int8", lsn)
			if after := scalar[string](t, pool, "SELECT pg_snapshot_xmax(pg_current_snapshot())::text"); wal != 0 || after != xid {
				t.Errorf("%d calls wrote %d bytes of WAL, and moved the next transaction id from %s to %s", n, wal, xid, after)
			}
		})
	}
	if n := scalar[int](t, pool, "SELECT count(*) FROM brim.buckets"); n != 210 {
		t.Errorf("%d rows, want the 210 that were filled", n)
	}
	rates := [2]store.Bucket{full(0), full(0)}
	rates[1].LeakRate *= 2
	const changes = 100
	start := ""
	for i := range changes + 2 {
		if i == 2 { // the page has gone into the log wholly, as after each checkpoint
			start = scalar[string](t, pool, "SELECT pg_current_wal_insert_lsn()::text")
		}
		if err := refused(op(rates[i%2], 50, store.IfFits)); err != nil {
			t.Fatal(err)
		}
	}
	wal := scalar[int](t, pool, "SELECT (pg_current_wal_insert_lsn() - $1::text::pg_lsn)::int", start) / changes
	t.Logf("a refusal writes %d bytes to the log where two rates alternate", wal)
	if wal < 50 || wal > 1000 {
		t.Errorf("a refusal writes %d bytes where two rates alternate; want some hundred", wal)
	}
}
