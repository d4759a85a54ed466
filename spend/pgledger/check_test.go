package pgledger_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/brimgo/brim/internal/pgtest"
	"github.com/brimgo/brim/migrations"
	"github.com/brimgo/brim/postgres"
	"github.com/brimgo/brim/spend"
	"github.com/brimgo/brim/spend/pgledger"
	"github.com/brimgo/brim/store"
)

// TestCheckFindsAndMends makes each fault of the ledger's tables, and runs the commands of the
// remedies.
func TestCheckFindsAndMends(t *testing.T) {
	admin := pgtest.Pool(t)
	schema := migrated(t)
	role := schema + "_app"
	run(t, admin, "CREATE ROLE "+role)
	defer run(t, admin, "DROP OWNED BY "+role+"; DROP ROLE "+role)
	app := pgtest.PoolAt(t, pgtest.With(t, "role="+role))
	findings := func(pool *pgxpool.Pool) (list []store.Finding, names string) {
		t.Helper()
		list, err := pgledger.Check(t.Context(), pool, &postgres.Options{Schema: schema})
		if err != nil {
			t.Fatal(err)
		}
		list = slices.DeleteFunc(list, func(f store.Finding) bool { return f.Subject == "old transaction" }) // of another test
		var all []string
		for _, f := range list {
			if f.Problem == "" || f.Remedy == "" {
				t.Errorf("a text is missing in %+v", f)
			}
			all = append(all, fmt.Sprint(f.Severity, " ", f.Subject))
		}
		return list, strings.Join(slices.Compact(all), ", ")
	}
	mend := func(pool *pgxpool.Pool) {
		t.Helper()
		list, _ := findings(pool)
		for _, f := range list {
			pgtest.Mend(t, admin, f.Remedy, func() error {
				return migrations.Up(t.Context(), admin, &migrations.Options{Schema: schema})
			})
		}
		if _, got := findings(pool); got != "" {
			t.Errorf("after the remedies: %s", got)
		}
	}

	run(t, admin, "INSERT INTO "+schema+".buckets_accounts (key) VALUES ('cards/1')")
	if _, got := findings(app); got != "unchecked ledger" {
		t.Errorf("a program that does not spend, beside one that does: %s", got)
	}
	run(t, admin, "GRANT SELECT ON "+schema+".buckets_entries TO "+role)
	if _, got := findings(app); got != "broken rights" {
		t.Errorf("one right of many: %s", got)
	}
	mend(app) // the least rights, for the cases below, too
	for _, c := range []struct{ name, sql, want string }{
		{"nothing", "SELECT", ""},
		{"a right on a column", "REVOKE UPDATE (spend) ON %[1]s.buckets_requests FROM %[2]s", "broken rights"},
		{"a right", "REVOKE DELETE ON %[1]s.buckets_holds FROM %[2]s", "broken rights"},
		{"the right to read rules", "REVOKE SELECT ON %[1]s.buckets_rules FROM %[2]s", "broken rights"},
		{"all rights on one table", "REVOKE ALL ON %[1]s.buckets_entries FROM %[2]s", "broken rights"},
		{"unlogged", "ALTER TABLE %[1]s.buckets_entries SET UNLOGGED", "broken table"},
		{"row security", "ALTER TABLE %[1]s.buckets_holds ENABLE ROW LEVEL SECURITY", "broken row security"},
		{
			"row security that hides rows", "ALTER TABLE %[1]s.buckets_requests ENABLE ROW LEVEL SECURITY; " +
				"CREATE POLICY mine ON %[1]s.buckets_requests USING (spend IS NULL) WITH CHECK (true)", "broken row security",
		},
	} {
		if c.sql != "SELECT" {
			run(t, admin, fmt.Sprintf(c.sql, schema, role))
		}
		if _, got := findings(app); got != c.want {
			t.Errorf("%s: %s; want %s", c.name, got, c.want)
		}
		mend(app)
	}
	// As after a move by logical replication, which copies no sequence. The second one finds a free id.
	for _, c := range []struct{ name, id string }{{"the next id is taken", "1"}, {"a later id is taken", "1000"}} {
		run(t, admin, fmt.Sprintf(`DELETE FROM %[1]s.buckets_accounts; INSERT INTO %[1]s.buckets_accounts (id, key) OVERRIDING SYSTEM VALUE VALUES (%[2]s, 'cards/1');
			ALTER TABLE %[1]s.buckets_accounts ALTER id RESTART WITH 1`, schema, c.id))
		if _, got := findings(app); got != "broken identity" {
			t.Errorf("%s: %s", c.name, got)
		}
		mend(app)
	}
	run(t, admin, "DELETE FROM "+schema+".buckets_accounts")
	one := spend.Money{Minor: 1, Currency: "EUR"}
	by := func(clock func() time.Time) *spend.Budgets {
		t.Helper()
		l := over(t, admin, &postgres.Options{Schema: schema, Clock: clock})
		return budgetOf(t, l, "cards", spend.Rolling("day", one, time.Hour))
	}
	ahead := spend.Request{ID: "c", Account: "7", Amount: one, Also: []spend.Account{{Budget: "cards", Name: "8"}}}
	if _, err := by(func() time.Time { return time.Now().AddDate(1, 0, 0) }).Charge(t.Context(), ahead); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ account, problem string }{{"7", "2 accounts"}, {"8", "1 accounts"}} {
		if list, got := findings(app); got != "broken accounts" || !strings.Contains(list[0].Problem, c.problem) {
			t.Errorf("%s are ahead: %+v", c.problem, list)
		}
		if _, err := by(nil).Mend(t.Context(), spend.FreezeRequest{ID: "m" + c.account, Account: c.account, Reason: "r"}); err != nil {
			t.Fatal(err)
		}
	}
	if _, got := findings(app); got != "" {
		t.Errorf("both are mended: %s", got)
	}
	for _, table := range []string{"accounts", "entries", "requests", "spends", "holds", "rules"} {
		run(t, admin, "DELETE FROM "+schema+".buckets_"+table)
	}
	for _, table := range []string{"accounts", "entries", "requests", "spends", "holds", "rules"} {
		run(t, admin, "DROP TABLE "+schema+".buckets_"+table+" CASCADE") // the view of the entries, too
		if _, got := findings(admin); got != "broken table" {
			t.Errorf("without %s: %s", table, got)
		}
		mend(admin)
	}
	var rows int
	err := admin.QueryRow(t.Context(), fmt.Sprintf(`SELECT (SELECT count(*) FROM %[1]s.buckets_accounts) + (SELECT count(*) FROM %[1]s.buckets_entries)
		+ (SELECT count(*) FROM %[1]s.buckets_requests) + (SELECT count(*) FROM %[1]s.buckets_spends)
		+ (SELECT count(*) FROM %[1]s.buckets_holds) + (SELECT count(*) FROM %[1]s.buckets_rules)`, schema)).Scan(&rows)
	if err != nil || rows != 0 {
		t.Errorf("the checks have left %d rows, %v", rows, err)
	}
}
