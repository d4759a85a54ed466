package pgledger_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/brimgo/brim/internal/pgtest"
	"github.com/brimgo/brim/postgres"
	"github.com/brimgo/brim/spend"
	"github.com/brimgo/brim/spend/ledger"
	"github.com/brimgo/brim/store"
)

func budgets(t *testing.T, l ledger.Ledger) *spend.Budgets {
	t.Helper()
	return budgetOf(t, l, "cards", spend.Lifetime("ever", euros(100)))
}

func euros(n int64) spend.Money { return spend.Money{Minor: n * 100, Currency: "EUR"} }

// TestWith spends in transactions of the caller, which commit or roll back. Inside, every call
// of the ledger sees the spend; outside, only after the commit.
func TestWith(t *testing.T) {
	pool := pgtest.Pool(t)
	l := over(t, pool, &postgres.Options{Schema: migrated(t)})
	budgets(t, l) // their rules are stored
	sees := func(t *testing.T, l ledger.Ledger, want int) {
		t.Helper()
		accounts, _, err := l.Accounts(t.Context(), "cards/", "", 0, 10)
		if err != nil || len(accounts) != want {
			t.Errorf("%d accounts, %v; want %d", len(accounts), err, want)
		}
		entries, err := l.History(t.Context(), "cards/7", ledger.Position{}, 10)
		if err != nil || len(entries) != want {
			t.Errorf("%d entries, %v; want %d", len(entries), err, want)
		}
		rules, err := budgets(t, l).Remaining(t.Context(), "7")
		if err != nil || rules[0].Used != euros(int64(60*want)) {
			t.Errorf("%+v, %v; want %v used", rules, err, euros(int64(60*want)))
		}
	}
	for _, c := range []struct {
		name string
		end  func(pgx.Tx) error
		want int
	}{
		{"rolled back", func(tx pgx.Tx) error { return tx.Rollback(context.Background()) }, 0},
		{"committed", func(tx pgx.Tx) error { return tx.Commit(context.Background()) }, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			tx, err := pool.Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = tx.Rollback(context.Background()) }()
			in := l.With(tx)
			d, err := budgets(t, in).Charge(t.Context(), spend.Request{ID: "one", Account: "7", Amount: euros(60)})
			if err != nil || !d.Approved {
				t.Fatalf("%+v, %v", d, err)
			}
			other := spend.Request{ID: "one", Account: "7", Amount: euros(61)}
			if _, err := budgets(t, in).Charge(t.Context(), other); !errors.Is(err, spend.ErrIDReused) {
				t.Errorf("another request with the same ID: %v", err)
			}
			sees(t, in, 1)
			sees(t, l, 0)
			if n, err := in.PruneRequests(t.Context(), "nobody/", 1<<60); n != 0 || err != nil {
				t.Errorf("pruned %d requests, %v", n, err)
			}
			if err := in.Close(); err != nil {
				t.Error(err)
			}
			if err := c.end(tx); err != nil {
				t.Fatal(err)
			}
			sees(t, l, c.want)
			for name, call := range calls(in) {
				if err := call(t.Context()); err == nil {
					t.Errorf("%s works in a transaction that has ended", name)
				}
			}
		})
	}
	for name, call := range calls(l.With(nil)) {
		t.Run("no transaction, "+name, func(t *testing.T) { wantError(t, call(t.Context()), store.ErrClosed) })
	}
}

// answer is a job that stores an answer to an ID, unless the ID has one.
func answer(id, account string) *ledger.Job {
	return &ledger.Job{
		Accounts: []string{account},
		Run: func(snap ledger.Snapshot) (*ledger.Changes, error) {
			if r, err := snap.Request(id); err != nil || r != nil {
				return nil, err
			}
			now := snap.Now()
			return &ledger.Changes{
				Accounts: []ledger.Account{{Key: account, State: []byte(id)}},
				Requests: []ledger.Request{{
					ID: id, At: now, Accounts: []string{account}, Content: []byte{}, Answer: []byte{},
				}},
			}, nil
		},
	}
}

// TestDuplicateID has a decision use an ID that another transaction uses at the same time, for
// another account. The decision is repeated, and finds the answer.
func TestDuplicateID(t *testing.T) {
	pool := pgtest.Pool(t)
	schema := migrated(t)
	l, other := over(t, pool, &postgres.Options{Schema: schema}), over(t, pool, &postgres.Options{Schema: schema})
	steal := func(id string) func() {
		return func() {
			if err := other.Decide(context.Background(), answer(id, "thief")); err != nil {
				t.Error(err)
			}
		}
	}
	t.Run("in a transaction of the ledger", func(t *testing.T) {
		runs := 0
		job := answer("one", "account")
		run := job.Run
		job.Run = func(snap ledger.Snapshot) (*ledger.Changes, error) {
			runs++
			changes, err := run(snap) // does not find an answer the first time
			steal("one")()
			return changes, err
		}
		if err := l.Decide(t.Context(), job); err != nil || runs != 2 {
			t.Errorf("%v after %d runs, want a decision after 2", err, runs)
		}
	})
	t.Run("again and again", func(t *testing.T) {
		runs := 0
		job := answer("", "account")
		job.Run = func(snap ledger.Snapshot) (*ledger.Changes, error) {
			id := strings.Repeat("x", runs+1)
			runs++
			changes, err := answer(id, "account").Run(snap)
			steal(id)()
			return changes, err
		}
		if err := l.Decide(t.Context(), job); err == nil || runs != 4 {
			t.Errorf("%v after %d runs, want an error after 4", err, runs)
		} else {
			wantError(t, err, store.ErrUnavailable)
		}
	})
	t.Run("in a transaction of the caller", func(t *testing.T) {
		tx, err := pool.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = tx.Rollback(context.Background()) }()
		job := answer("two", "account")
		run := job.Run
		job.Run = func(snap ledger.Snapshot) (*ledger.Changes, error) {
			changes, err := run(snap)
			steal("two")()
			return changes, err
		}
		err = l.With(tx).Decide(t.Context(), job)
		wantError(t, err, store.ErrUnavailable)
		if err == nil || !strings.Contains(err.Error(), "roll back and decide again") {
			t.Errorf("error %v does not tell the way out", err)
		}
	})
	t.Run("accounts that nobody stored are gone", func(t *testing.T) {
		list, _, err := l.Accounts(t.Context(), "", "", 0, 10)
		if err != nil || len(list) != 1 || list[0] != "thief" {
			t.Errorf("%+v, %v; want the account of the other transaction alone", list, err)
		}
	})
}
