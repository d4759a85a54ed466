package postgres_test

import (
	"strings"
	"testing"
	"time"

	"github.com/brimgo/brim/internal/pgtest"
	"github.com/brimgo/brim/postgres"
	"github.com/brimgo/brim/store"
)

// TestPing has each mistake in the setup show before the first decision, and writes nothing.
func TestPing(t *testing.T) {
	admin := pgtest.Pool(t)
	schema := migrated(t)
	role := schema + "_role"
	execute(t, admin, "CREATE ROLE "+role+" LOGIN")
	t.Cleanup(func() { execute(t, admin, "DROP OWNED BY "+role+"; DROP ROLE "+role) })
	as := func(name string) *postgres.Store {
		url := strings.Replace(pgtest.URL(t), "postgres@", role+"@", 1)
		return over(t, pgtest.PoolAt(t, tune(url, "application_name="+name)), postgres.Options{Schema: schema})
	}
	ping := func(name string) error { return as(name).Ping(t.Context()) }
	buckets := schema + ".buckets"
	execute(t, admin, "GRANT USAGE ON SCHEMA "+schema+" TO "+role+"; GRANT SELECT, INSERT, UPDATE, DELETE ON "+buckets+" TO "+role)
	if err := ping("fit"); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ fault, mend, says string }{
		{"REVOKE SELECT ON @ FROM #", "GRANT SELECT ON @ TO #", "42501"},
		{"REVOKE INSERT ON @ FROM #", "GRANT INSERT ON @ TO #", "42501"},
		{"REVOKE UPDATE ON @ FROM #", "GRANT UPDATE ON @ TO #", "42501"},
		{"REVOKE DELETE ON @ FROM #", "GRANT DELETE ON @ TO #", "42501"},
		{"ALTER ROLE # SET default_transaction_read_only = on", "ALTER ROLE # RESET default_transaction_read_only", "25006"},
		{"ALTER ROLE # SET client_encoding = LATIN1", "ALTER ROLE # RESET client_encoding", "client_encoding"},
		{"ALTER ROLE # SET search_path = public, pg_catalog", "ALTER ROLE # RESET search_path", "search_path"},
		{"ALTER TABLE @ RENAME blocked_until TO until", "ALTER TABLE @ RENAME until TO blocked_until", "42703"},
		{"ALTER TABLE @ RENAME pre TO before", "ALTER TABLE @ RENAME before TO pre", "42703"},
		{"ALTER TABLE @ ENABLE ROW LEVEL SECURITY", "ALTER TABLE @ DISABLE ROW LEVEL SECURITY", "42501"},
		{
			"ALTER TABLE @ ENABLE ROW LEVEL SECURITY; CREATE POLICY all_rows ON @ USING (true); CREATE POLICY no_update ON @ AS RESTRICTIVE FOR UPDATE USING (false)",
			"DROP POLICY all_rows ON @; DROP POLICY no_update ON @; ALTER TABLE @ DISABLE ROW LEVEL SECURITY", "row security",
		},
		{"ALTER TABLE @ RENAME TO others", "ALTER TABLE " + schema + ".others RENAME TO buckets", "42P01"},
	} {
		named := strings.NewReplacer("@", buckets, "#", role)
		execute(t, admin, named.Replace(c.fault))
		wantError(t, ping("unfit"), store.ErrMisconfigured, c.says)
		if c.says == "row security" {
			s := as("hidden")
			if _, err := s.Fill(t.Context(), op(steady.For("k"), 1, store.IfFits)); err != nil { // it makes the row
				t.Fatal(err)
			}
			_, err := s.Fill(t.Context(), op(steady.For("k"), 1, store.IfFits))
			wantError(t, err, store.ErrMisconfigured, c.says)
			execute(t, admin, "DELETE FROM "+buckets)
		}
		execute(t, admin, named.Replace(c.mend))
	}
	execute(t, admin, "ALTER TABLE "+buckets+" ENABLE ROW LEVEL SECURITY; CREATE POLICY fit ON "+buckets+" USING (true)")
	if err := ping("secured"); err != nil {
		t.Error(err)
	}
	s := over(t, admin, postgres.Options{Schema: schema})
	began := time.Now()
	for range 20 {
		if err := s.Ping(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%v each", time.Since(began)/20)
	if n := scalar[int](t, admin, "SELECT count(*) FROM "+buckets); n != 0 {
		t.Errorf("%d rows", n)
	}
	clean(t, admin)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := s.Ping(t.Context()); err == nil || !strings.Contains(err.Error(), "closed") {
		t.Errorf("after Close: %v", err)
	}
}
