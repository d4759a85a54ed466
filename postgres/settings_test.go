package postgres_test

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/brimgo/brim/internal/differ"
	"github.com/brimgo/brim/internal/pgtest"
	"github.com/brimgo/brim/internal/seed"
	"github.com/brimgo/brim/postgres"
	"github.com/brimgo/brim/store"
)

// TestSettingsChangeNoAnswer makes the same calls over connections with the usual settings, and
// over connections whose settings change the text of times, doubles and bytes, in all modes of the
// driver. All answers must be equal, to the last bit: those of calls, of calls in transactions of
// pgx and of database/sql, and of calls that share a statement.
func TestSettingsChangeNoAnswer(t *testing.T) {
	t.Parallel()
	for _, mode := range pgtest.Modes {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			clock := newHandClock()
			over := func(url string) *charges {
				pool := pgtest.PoolAt(t, url)
				schema := migrated(t)
				return &charges{pool: pool, schema: schema, s: over(t, pool, postgres.Options{Schema: schema, Clock: clock.now})}
			}
			usual := over(pgtest.URL(t))
			hostile := over(pgtest.With(t, pgtest.Distorted+"&default_query_exec_mode="+mode))
			if mode == "exec" {
				partition(t, hostile.pool, hostile.schema, 2)
			}
			rng := rand.New(rand.NewPCG(5, 6))
			compare := func(way string, usual, hostile store.Store, calls int) {
				t.Helper()
				for i := range calls {
					clock.advance(time.Duration(rng.IntN(1_000_000)) * time.Microsecond)
					describe, call := randomCall(rng)
					want, err := call(t.Context(), usual)
					got, errGot := call(t.Context(), hostile)
					if d := differ.Fields(got, want); d != "" || fmt.Sprint(err) != fmt.Sprint(errGot) {
						t.Fatalf("%s, call %d, %s: %v, want %v\n%s", way, i, describe, errGot, err, d)
					}
				}
			}
			compare("alone", usual.s, hostile.s, 150)
			for _, way := range []string{"With", "WithSQL"} {
				in, inHostile := ways["With"](t, usual, pgx.ReadCommitted), ways[way](t, hostile, pgx.ReadCommitted)
				compare(way, in, inHostile, seed.Attempts(60, 10_000))
				in.end(t, true)
				inHostile.end(t, true)
			}

			// Calls of many callers at once: TryFillups of a new bucket, and, as nobody is refused,
			// of one that exists.
			for round := range 3 {
				clock.advance(time.Second / 3)
				var states [2][64]store.State
				for i, c := range []*charges{usual, hostile} {
					var callers sync.WaitGroup
					for n := range len(states[i]) {
						callers.Go(func() {
							b := store.Limit{Capacity: 1e9, LeakRate: 1. / 3}.For(fmt.Sprint("many ", n))
							st, err := c.s.Fill(t.Context(), op(b, 1e7/3+float64(n)/7, store.IfFits))
							if err != nil {
								t.Error(err)
							}
							states[i][n] = st
						})
					}
					callers.Wait()
				}
				if d := differ.Fields(states[1], states[0]); d != "" {
					t.Fatalf("round %d:\n%s", round, d)
				}
			}

			want := list(t, usual.s, "")
			if d := differ.Fields(list(t, hostile.s, ""), want); len(want) < 64 || d != "" {
				t.Errorf("of %d buckets:\n%s", len(want), d)
			}
			if want, got := found(t, usual.pool, usual.schema), found(t, hostile.pool, hostile.schema); got != want {
				t.Errorf("Check finds %q; want %q", got, want)
			}
			clock.advance(24 * 365 * time.Hour)
			n, err := usual.s.Prune(t.Context())
			if pruned, errGot := hostile.s.Prune(t.Context()); pruned != n || err != nil || errGot != nil {
				t.Errorf("pruned %d, %v; want %d, %v", pruned, errGot, n, err)
			}
		})
	}
}
