package postgres_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/brimgo/brim/internal/pgtest"
	"github.com/brimgo/brim/postgres"
	"github.com/brimgo/brim/store"
)

// TestTransactionsWaitForEachOther has two callers of one store fill two buckets in opposite
// orders: the first within a transaction of their own, the second by a call outside of it, while
// their transactions are open. The server sees no deadlock, because one of the waits, or both,
// is in the client. The calls outside must fail by StatementTimeout, with nothing applied, and
// the transactions must be usable afterwards.
func TestTransactionsWaitForEachOther(t *testing.T) {
	leakFree(t)
	const timeout = 3 * time.Second // a busy machine takes some of it
	for _, c := range []struct {
		name  string
		conns int
		rows  bool // the buckets have rows before
		both  bool // both callers make their second call outside, else only the second caller
	}{
		{"both outside", 8, true, true},
		{"one outside", 8, true, false},
		{"both outside, new rows", 8, false, true},
		{"one outside, new rows", 8, false, false},
		{"no connection is left", 2, true, true},
	} {
		for name, call := range map[string]func(context.Context, store.Store, store.Bucket) error{
			"try": func(ctx context.Context, s store.Store, b store.Bucket) error {
				_, err := s.Fill(ctx, op(b, 1, store.IfFits))
				return err
			},
			"apply": func(ctx context.Context, s store.Store, b store.Bucket) error {
				_, err := s.Apply(ctx, store.Txn{op(b, 1, store.IfFits)}, store.Txn{op(steady.For("other"), 1, store.IfFits)})
				return err
			},
		} {
			t.Run(c.name+", "+name, func(t *testing.T) {
				t.Parallel() // each waits
				admin := pgtest.Pool(t)
				schema := migrated(t)
				pool := pgtest.PoolAt(t, tune(pgtest.URL(t), fmt.Sprint("pool_max_conns=", c.conns)))
				s := over(t, pool, postgres.Options{Schema: schema, StatementTimeout: timeout})
				// The transactions outlast the calls outside, also where these begin later.
				lasting := over(t, pool, postgres.Options{Schema: schema, StatementTimeout: 10 * timeout})
				a, b := steady.For("a"), steady.For("b")
				if c.rows {
					patient := over(t, admin, postgres.Options{Schema: schema})
					fill(t, patient, op(a, 1, store.IfFits))
					fill(t, patient, op(b, 1, store.IfFits))
				}
				var txs [2]pgx.Tx
				for i, first := range []store.Bucket{a, b} {
					tx, err := pool.Begin(t.Context())
					if err != nil {
						t.Fatal(err)
					}
					defer func() { _ = tx.Rollback(context.Background()) }()
					txs[i] = tx
					fill(t, lasting.With(tx), op(first, 1, store.IfFits))
				}
				// The second caller gives up when its call fails, which frees the first.
				inside, outside := make(chan error, 1), make(chan error, 2)
				if c.both {
					go func() { outside <- call(t.Context(), s, b) }()
				} else {
					go func() { inside <- call(t.Context(), lasting.With(txs[0]), b) }()
				}
				start := time.Now()
				outside <- call(t.Context(), s, a)
				if took := time.Since(start); took > 3*timeout { // a slow machine takes some of it
					t.Errorf("the call failed after %v; want at most StatementTimeout, which is %v", took, timeout)
				}
				wantError(t, <-outside, store.ErrUnavailable)
				if c.both {
					wantError(t, <-outside, store.ErrUnavailable)
				}
				if err := txs[1].Rollback(t.Context()); err != nil {
					t.Fatal(err)
				}
				if !c.both {
					if err := <-inside; err != nil {
						t.Errorf("the first caller: %v", err)
					}
				}
				if err := txs[0].Commit(t.Context()); err != nil {
					t.Fatal(err)
				}
				before, second := 0.0, 1.0
				if c.rows {
					before = 1
				}
				if c.both {
					second = 0
				}
				levelIs(t, s, "a", before+1)
				levelIs(t, s, "b", before+second)
				clean(t, pool)
			})
		}
	}
}
