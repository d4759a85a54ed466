package postgres_test

import (
	"os"
	"testing"

	"github.com/brimgo/brim/internal/pgtest"
	"github.com/brimgo/brim/postgres"
	"github.com/brimgo/brim/store"
)

// TestTransactionPooler makes all calls through a pooler in transaction mode. Each statement
// may reach another session of the server, so no statement may need a setting of the one
// before.
func TestTransactionPooler(t *testing.T) {
	if os.Getenv("BRIM_TORTURE") != "1" {
		return // pgbouncer is not installed on every machine
	}
	for _, c := range []struct {
		name     string
		prepared int
		settings []string
	}{
		{"with prepared statements", 200, nil},
		{"without prepared statements", 0, []string{"default_query_exec_mode=exec"}},
		{"without prepared statements, describing each", 0, []string{"default_query_exec_mode=cache_describe"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			pool := pgtest.PoolAt(t, tune(pgtest.Pooler(t, "transaction", c.prepared), append(c.settings, "pool_max_conns=16", "application_name=pooled")...))
			schema := migrated(t)
			everything(t, over(t, pool, postgres.Options{Schema: schema, Lanes: 4}))
			everythingElse := over(t, pool, postgres.Options{Schema: schema})
			if err := everythingElse.Delete(t.Context(), "hot", "held", "one", "two", "key 3"); err != nil {
				t.Error(err)
			}
			clean(t, pool)
			if n := scalar[int](t, pgtest.Pool(t), "SELECT count(*) FROM pg_stat_activity WHERE state LIKE 'idle in transaction%' AND application_name = 'pooled'"); n != 0 {
				t.Errorf("%d sessions were left in a transaction", n)
			}
		})
	}
}

// TestStatementPooler calls through a pooler in statement mode, which ends a connection as soon as
// a transaction stays open. Nothing is applied, and the error names the setting.
func TestStatementPooler(t *testing.T) {
	if os.Getenv("BRIM_TORTURE") != "1" {
		return // pgbouncer is not installed on every machine
	}
	schema := migrated(t)
	s := over(t, pgtest.PoolAt(t, tune(pgtest.Pooler(t, "statement", 0), "default_query_exec_mode=exec")), postgres.Options{Schema: schema})
	b := steady.For("k")
	for _, call := range []string{"hold", "apply", "block"} {
		wantError(t, calls(s, b)[call](t.Context()), store.ErrMisconfigured, "set pool_mode to transaction")
	}
	err := s.Update(t.Context(), func(in store.Store) error { _, err := in.Fill(t.Context(), op(b, 1, store.Clamp)); return err })
	wantError(t, s.Ping(t.Context()), store.ErrMisconfigured, "set pool_mode to transaction")
	wantError(t, err, store.ErrMisconfigured, "set pool_mode to transaction")
	direct := over(t, pgtest.Pool(t), postgres.Options{Schema: schema})
	if st := stateOf(t, direct, b.Key); st.Level != 0 || st.Held != 0 {
		t.Errorf("refused calls have left %+v", st)
	}
}
