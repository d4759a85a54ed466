package pgledger_test

import (
	"context"
	"testing"

	"github.com/brimgo/brim/internal/pgtest"
	"github.com/brimgo/brim/postgres"
	"github.com/brimgo/brim/spend/ledger"
	"github.com/brimgo/brim/store"
)

// TestConnectionLostInAJob ends the session of a decision while its job runs. The reads of the
// job fail. The decision fails even if the job ignores that, and nothing of it is stored.
func TestConnectionLostInAJob(t *testing.T) {
	direct := pgtest.Pool(t)
	schema := migrated(t)
	pool := pgtest.PoolAt(t, pgtest.With(t, "application_name=lost_"+schema))
	l := over(t, pool, &postgres.Options{Schema: schema})
	lose := func() {
		const sql = "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE application_name = $1"
		if _, err := direct.Exec(context.Background(), sql, "lost_"+schema); err != nil {
			t.Error(err)
		}
	}
	for name, read := range map[string]func(ledger.Snapshot) error{
		"request": func(s ledger.Snapshot) error { _, err := s.Request("x"); return err },
		"entries": func(s ledger.Snapshot) error { _, _, err := s.Entries("account", ledger.Place{}, 1, 1); return err },
		"since":   func(s ledger.Snapshot) error { _, err := s.Since("account", ledger.Position{}, 1); return err },
		"holds":   func(s ledger.Snapshot) error { _, _, err := s.Holds("account", ledger.Hold{}, 1, 1); return err },
	} {
		t.Run(name, func(t *testing.T) {
			for op, decide := range map[string]func(context.Context, *ledger.Job) error{"decide": l.Decide, "view": l.View} {
				runs := 0
				job := answer("one", "account")
				run := job.Run
				job.Run = func(s ledger.Snapshot) (*ledger.Changes, error) {
					runs++
					changes, err := run(s)
					lose()
					if read(s) == nil {
						t.Errorf("%s: the read works without a connection", op)
					}
					return changes, err
				}
				if err := decide(t.Context(), job); err == nil || runs != 1 {
					t.Errorf("%s: %v after %d runs, want an error after 1", op, err, runs)
				}
			}
		})
	}
	list, _, err := l.Accounts(t.Context(), "", "", 0, 10)
	if err != nil || len(list) != 0 {
		t.Errorf("%+v, %v; want no account", list, err)
	}
}

// TestNoTables sees that every call names the way out where the tables are missing.
func TestNoTables(t *testing.T) {
	pool := pgtest.Pool(t)
	l := over(t, pool, &postgres.Options{Schema: pgtest.Schema(t)})
	for name, call := range calls(l) {
		t.Run(name, func(t *testing.T) { wantError(t, call(t.Context()), store.ErrMisconfigured) })
	}
}
