package postgres_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/brimgo/brim/internal/pgtest"
	"github.com/brimgo/brim/postgres"
	"github.com/brimgo/brim/store"
)

// TestRowHeldForTooLong fills a row that a stranger holds locked. Whose timeout passes first
// makes no difference: nothing was applied, and the error says so.
func TestRowHeldForTooLong(t *testing.T) {
	leakFree(t)
	for _, c := range []struct {
		name, settings string
	}{
		{"StatementTimeout", ""},
		{"lock_timeout", "lock_timeout=5"},
		{"statement_timeout", "statement_timeout=500"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel() // most of it waits
			admin := pgtest.Pool(t)
			schema := migrated(t)
			url := pgtest.URL(t)
			if c.settings != "" {
				url = tune(url, c.settings)
			}
			pool := pgtest.PoolAt(t, url)
			log := &records{}
			s := over(t, pool, postgres.Options{
				Schema: schema, Logger: log.logger(), StatementTimeout: 2 * time.Second,
			})
			b := steady.For(secret)
			fill(t, over(t, admin, postgres.Options{Schema: schema}), op(b, 1, store.IfFits))
			release := lockRow(t, admin, schema, secret)
			all := calls(s, b)
			var wg sync.WaitGroup
			for _, name := range []string{"try", "fillup", "drain", "hold", "apply"} {
				wg.Go(func() {
					wantError(t, all[name](t.Context()), store.ErrUnavailable, "another transaction has held the row for 2s")
				})
			}
			wg.Go(func() { wantError(t, all["delete"](t.Context()), store.ErrUnavailable) })
			wg.Wait()
			for _, name := range append(slices.Clone(looks), "prune") { // these calls wait for no row
				if err := all[name](t.Context()); err != nil {
					t.Errorf("%s: %v", name, err)
				}
			}
			// Nothing is applied afterwards: the store cancels the statements that it gives up.
			until(t, "the abandoned statements to end", func() bool { return waiting(t, admin, schema) == 0 })
			release()
			if st := fill(t, s, op(b, 1, store.IfFits)); st.Level != 2 || st.Held != 0 {
				t.Errorf("level %v and %v held, want 2 and 0", st.Level, st.Held)
			}
			clean(t, pool)
			if log.count(secret) != 0 {
				t.Error("a log line has the key")
			}
		})
	}
}

// TestOneBadCallFailsAlone sends one bad call in a statement with good ones: a row that is
// locked for too long, or a key that the validator would have refused. Only the bad call fails.
func TestOneBadCallFailsAlone(t *testing.T) {
	leakFree(t)
	for _, c := range []struct {
		name, key string
		op        func(store.Bucket) store.Op
		class     error
		word      string
	}{
		{"locked, try", "locked", func(b store.Bucket) store.Op { return op(b, 1, store.IfFits) }, store.ErrUnavailable, "held the row"},
		{"locked, hold", "locked", func(b store.Bucket) store.Op { return store.Op{Bucket: b, Hold: 1} }, store.ErrUnavailable, "held the row"},
		{"NUL", secret + "\x00", func(b store.Bucket) store.Op { return op(b, 1, store.IfFits) }, store.ErrInvalidKey, "22021"},
		{"not UTF-8", secret + "\xff", func(b store.Bucket) store.Op { return op(b, 1, store.IfFits) }, store.ErrInvalidKey, "22021"},
		{"not UTF-8, hold", secret + "\xff", func(b store.Bucket) store.Op { return store.Op{Bucket: b, Hold: 1} }, store.ErrInvalidKey, "22021"},
		{"not UTF-8, question", secret + "\xff", func(b store.Bucket) store.Op { return op(b, 1, store.Ask) }, store.ErrInvalidKey, "22021"},
		{"too long for the index", incompressible(6000), func(b store.Bucket) store.Op { return op(b, 1, store.IfFits) }, store.ErrMisconfigured, "54000"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel() // most of it waits
			const good = 63
			admin := pgtest.Pool(t)
			schema := migrated(t)
			pool := pgtest.PoolAt(t, pgtest.With(t, "pool_max_conns=1"))
			timeout := time.Minute // only the row that stays locked needs a short one
			if c.key == "locked" {
				timeout = 3 * time.Second
			}
			s := over(t, pool, postgres.Options{Schema: schema, Lanes: 1, StatementTimeout: timeout})
			peer := over(t, admin, postgres.Options{Schema: schema})
			if c.key == "locked" {
				fill(t, peer, op(steady.For(c.key), 1, store.IfFits))
				lockRow(t, admin, schema, c.key)
			}
			// While the only connection is taken, all of them queue for the same statement.
			taken, err := pool.Acquire(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			var wg, started sync.WaitGroup
			started.Add(good)
			var bad error
			for i := range good {
				if i == good/2 { // neither the first nor the last to queue, which may be sent alone
					wg.Go(func() { _, bad = s.Fill(t.Context(), c.op(steady.For(c.key))) })
				}
				wg.Go(func() {
					started.Done()
					if st, err := s.Fill(t.Context(), c.op(steady.For(fmt.Sprint("good", i/2)))); err != nil || !st.Accepted {
						t.Errorf("a neighbour: %+v, %v", st, err)
					}
				})
			}
			started.Wait()
			taken.Release()
			wg.Wait()
			wantError(t, bad, c.class, c.word)
			want, total := float64(good), 0.0
			if c.op(steady.For("good")).Mode == store.Ask {
				want = 0 // a question puts nothing into a bucket
			}
			for i := range good/2 + 1 {
				st := stateOf(t, peer, fmt.Sprint("good", i))
				total += st.Level + st.Held
			}
			if total != want {
				t.Errorf("the neighbours' buckets hold %v, want %v", total, want)
			}
			clean(t, pool)
		})
	}
}

// incompressible returns a key of n bytes that the server cannot compress.
func incompressible(n int) string {
	var b strings.Builder
	x := uint32(1)
	for range n {
		x = x*1664525 + 1013904223
		b.WriteByte('!' + byte(x>>24)%90)
	}
	return b.String()
}
