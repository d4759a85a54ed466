package pgledger_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/brimgo/brim/internal/pgtest"
	"github.com/brimgo/brim/postgres"
	"github.com/brimgo/brim/spend"
	"github.com/brimgo/brim/store"
)

// TestTransactionsWaitForEachOther has two callers of one ledger spend from two accounts in
// opposite orders: from the first within a transaction of their own, from the second by a call
// outside of it, while their transactions are open. The server sees no deadlock, because the waits
// are in the client. The calls outside must fail by StatementTimeout, with nothing applied.
func TestTransactionsWaitForEachOther(t *testing.T) {
	const timeout = time.Second
	for _, c := range []struct {
		name  string
		conns int32
		rows  bool // the accounts have rows before
	}{
		{"accounts with rows", 8, true},
		{"new accounts", 8, false},
		{"no connection is left", 2, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			schema := migrated(t)
			cfg := pgtest.Pool(t).Config()
			cfg.MaxConns = c.conns
			pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
			if err != nil {
				t.Fatal(err)
			}
			defer pool.Close()
			l := over(t, pool, &postgres.Options{Schema: schema, StatementTimeout: timeout})
			charge := func(b *spend.Budgets, id, account string) error {
				_, err := b.Charge(t.Context(), spend.Request{ID: id, Account: account, Amount: euros(1)})
				return err
			}
			used := 0
			if c.rows {
				used = 1
				patient := over(t, pgtest.Pool(t), &postgres.Options{Schema: schema})
				for _, account := range []string{"a", "b"} {
					if err := charge(budgets(t, patient), "before "+account, account); err != nil {
						t.Fatal(err)
					}
				}
			}
			accounts := []string{"a", "b"}
			var txs [2]pgx.Tx
			for i, account := range accounts {
				tx, err := pool.Begin(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				defer func() { _ = tx.Rollback(context.Background()) }()
				txs[i] = tx
				if err := charge(budgets(t, l.With(tx)), "inside "+account, account); err != nil {
					t.Fatal(err)
				}
			}
			start := time.Now()
			errs := make(chan error, 2)
			for i := range txs {
				go func() { errs <- charge(budgets(t, l), fmt.Sprint("outside ", i), accounts[1-i]) }()
			}
			for range txs {
				wantError(t, <-errs, store.ErrUnavailable)
			}
			if took := time.Since(start); took > 8*timeout { // a slow machine takes some of it
				t.Errorf("the calls failed after %v; want at most StatementTimeout, which is %v", took, timeout)
			}
			for i, account := range accounts {
				if err := txs[i].Commit(t.Context()); err != nil {
					t.Fatal(err)
				}
				rules, err := budgets(t, l).Remaining(t.Context(), account)
				if err != nil || rules[0].Used != euros(int64(used+1)) {
					t.Errorf("%s: %+v, %v; want %d used", account, rules, err, used+1)
				}
			}
		})
	}
}
