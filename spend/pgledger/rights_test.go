package pgledger_test

import (
	"errors"
	"io/fs"
	"regexp"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/brimgo/brim/internal/pgtest"
	"github.com/brimgo/brim/internal/seed"
	"github.com/brimgo/brim/migrations"
	"github.com/brimgo/brim/postgres"
	"github.com/brimgo/brim/spend/spendtest"
	"github.com/brimgo/brim/store"
)

// TestRights gives a role the rights that the comments of the migrations list, and no others. The
// role must be able to do everything but to change the ledger's past.
func TestRights(t *testing.T) {
	t.Parallel()
	owner := pgtest.Pool(t)
	schema := migrated(t)
	role := schema + "_app"
	run(t, owner, "CREATE ROLE "+role)
	defer run(t, owner, "DROP OWNED BY "+role+"; DROP ROLE "+role)
	files, err := migrations.Files(&migrations.Options{Schema: schema})
	if err != nil {
		t.Fatal(err)
	}
	lines := 0
	for _, name := range []string{"0001_buckets.up.sql", "0002_ledger.up.sql"} {
		text, err := fs.ReadFile(files, name)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`(?m)^--   ((?:REVOKE|GRANT) .*) app;$`).FindAllStringSubmatch(string(text), -1) {
			run(t, owner, m[1]+" "+role)
			lines++
		}
	}
	if lines != 11 {
		t.Fatalf("found %d lines of rights in the migrations; want 11", lines)
	}

	pool := pgtest.PoolAt(t, pgtest.With(t, "role="+role))
	if err := migrations.Up(t.Context(), pool, &migrations.Options{Schema: schema}); err != nil {
		t.Errorf("a program calls Up when it starts: %v", err)
	}
	s, err := postgres.New(pool, &postgres.Options{Schema: schema})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	bucket := store.Limit{Capacity: 10, LeakRate: 1}.For("k")
	if st, err := s.Fill(t.Context(), store.Op{Bucket: bucket, Amount: 1}); err != nil || !st.Accepted {
		t.Errorf("fill: %+v, %v", st, err)
	}
	results, err := s.Apply(t.Context(), store.Txn{{Bucket: bucket, Hold: 1}})
	if err != nil || !results[0].Accepted {
		t.Errorf("apply: %+v, %v", results, err)
	}
	n := 0
	if err := s.Visit(t.Context(), "", func(store.Entry) bool { n++; return true }); err != nil || n != 1 {
		t.Errorf("visit: %d buckets, %v", n, err)
	}
	if _, err := s.Prune(t.Context()); err != nil {
		t.Errorf("prune: %v", err)
	}
	if err := s.Delete(t.Context(), "k"); err != nil {
		t.Errorf("delete: %v", err)
	}
	run(t, owner, "GRANT INSERT ON "+schema+".buckets_rules TO "+role) // the suite brings rules
	spendtest.Random(t, harnessOver(pool, schema), seed.Attempts(25, 300))
	run(t, owner, "REVOKE INSERT ON "+schema+".buckets_rules FROM "+role)

	for _, sql := range []string{
		"UPDATE @entries SET amount = 0", "UPDATE @requests SET answer = ''", "UPDATE @holds SET expires = now()",
		"UPDATE @rules SET rules = ''", "DELETE FROM @rules", `INSERT INTO @rules VALUES ('cards', 1, 1, now(), false, '', '', '', '')`,
		"TRUNCATE @entries", "DROP TABLE @requests", "CREATE TABLE @more ()", "DELETE FROM @migrations",
	} {
		sql = strings.ReplaceAll(sql, "@", pgx.Identifier{schema}.Sanitize()+".buckets_")
		if _, err := pool.Exec(t.Context(), sql); err == nil || !strings.Contains(err.Error(), "42501") {
			t.Errorf("%s: %v; want 42501, which is a missing right", sql, err)
		}
	}
}

// TestPing has each table and each right of the ledger missing show before the first decision.
func TestPing(t *testing.T) {
	owner := pgtest.Pool(t)
	schema := migrated(t)
	role := schema + "_app"
	run(t, owner, "CREATE ROLE "+role)
	defer run(t, owner, "DROP OWNED BY "+role+"; DROP ROLE "+role)
	names := strings.NewReplacer("@", schema+".buckets_", "#", role)
	rights := []string{
		"SELECT ON @accounts", "INSERT ON @accounts", "UPDATE ON @accounts", "DELETE ON @accounts", "SELECT ON @entries", "INSERT ON @entries",
		"SELECT ON @requests", "INSERT ON @requests", "UPDATE (spend) ON @requests", "SELECT ON @spends", "INSERT ON @spends",
		"UPDATE ON @spends", "SELECT ON @holds", "INSERT ON @holds", "DELETE ON @holds", "SELECT ON @rules",
	}
	run(t, owner, "GRANT USAGE ON SCHEMA "+schema+" TO "+role)
	for _, right := range rights {
		run(t, owner, names.Replace("GRANT "+right+" TO #"))
	}
	l := over(t, pgtest.PoolAt(t, pgtest.With(t, "role="+role)), &postgres.Options{Schema: schema})
	if err := l.Ping(t.Context()); err != nil {
		t.Fatal(err)
	}
	lacks := func(fault, mend, code string) {
		t.Helper()
		run(t, owner, names.Replace(fault))
		if err := l.Ping(t.Context()); !errors.Is(err, store.ErrMisconfigured) || !strings.Contains(err.Error(), code) {
			t.Errorf("%s: %v; want ErrMisconfigured with %s", fault, err, code)
		}
		run(t, owner, names.Replace(mend))
	}
	for _, right := range rights {
		lacks("REVOKE "+right+" FROM #", "GRANT "+right+" TO #", "42501")
	}
	for _, table := range []string{"accounts", "entries", "requests", "spends", "holds", "rules"} {
		lacks("ALTER TABLE @"+table+" RENAME TO other", "ALTER TABLE "+schema+".other RENAME TO buckets_"+table, "42P01")
		if table == "rules" { // hidden ones look like none, and the first New then has no right to set some
			continue
		}
		lacks("ALTER TABLE @"+table+" ENABLE ROW LEVEL SECURITY", "ALTER TABLE @"+table+" DISABLE ROW LEVEL SECURITY", "42501")
	}
	if err := l.Ping(t.Context()); err != nil {
		t.Errorf("after all mends: %v", err)
	}
}
