package pgledger_test

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
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
		{"no primary key", "ALTER TABLE %[1]s.buckets_spends DROP CONSTRAINT buckets_spends_pkey", "broken key"},
		{"names of accounts that are not unique", "ALTER TABLE %[1]s.buckets_accounts DROP CONSTRAINT buckets_accounts_key_key", "broken key"},
		{"a trigger that drops changes", `CREATE FUNCTION %[1]s.drops() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
			CREATE TRIGGER drops BEFORE UPDATE ON %[1]s.buckets_accounts FOR EACH ROW EXECUTE FUNCTION %[1]s.drops()`, "broken triggers"},
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
	var undone bool // the grants of the remedies must not allow to change the past
	err := admin.QueryRow(t.Context(), fmt.Sprintf(`SELECT has_any_column_privilege('%[2]s', '%[1]s.buckets_entries', 'UPDATE')
		OR has_table_privilege('%[2]s', '%[1]s.buckets_entries', 'DELETE') OR has_table_privilege('%[2]s', '%[1]s.buckets_rules', 'INSERT, UPDATE, DELETE')`,
		schema, role)).Scan(&undone)
	if err != nil || undone {
		t.Errorf("the remedies let the user change entries or rules: %v, %v", undone, err)
	}
	// As after a move by logical replication, which copies no sequence. The second one finds a free
	// id.
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
	err = admin.QueryRow(t.Context(), fmt.Sprintf(`SELECT (SELECT count(*) FROM %[1]s.buckets_accounts) + (SELECT count(*) FROM %[1]s.buckets_entries)
		+ (SELECT count(*) FROM %[1]s.buckets_requests) + (SELECT count(*) FROM %[1]s.buckets_spends)
		+ (SELECT count(*) FROM %[1]s.buckets_holds) + (SELECT count(*) FROM %[1]s.buckets_rules)`, schema)).Scan(&rows)
	if err != nil || rows != 0 {
		t.Errorf("the checks have left %d rows, %v", rows, err)
	}
}

// TestCheckOfOpenTransactions finds a stranger who holds a row of the ledger, and runs the remedy.
// A transaction that touches no table of the ledger is for postgres.Check to find.
func TestCheckOfOpenTransactions(t *testing.T) {
	server := pgtest.NewServer(t)
	admin := server.Pool(t)
	if err := migrations.Up(t.Context(), admin, nil); err != nil {
		t.Fatal(err)
	}
	charge(t, budgetOf(t, over(t, admin, nil), "cards", spend.Lifetime("ever", eur(10))), "7", "first")
	type checking func(context.Context, *pgxpool.Pool, *postgres.Options) ([]store.Finding, error)
	for _, c := range []struct {
		sql    string
		check  checking
		finds  string
		ledger bool // pgledger.Check finds it, too
	}{
		{"SELECT FROM brim.buckets_accounts FOR UPDATE", pgledger.Check, "held rows", true},
		{"INSERT INTO brim.buckets_holds (account, expires, spend) VALUES (1, now(), '')", pgledger.Check, "held rows", true},
		{"SELECT pg_current_xact_id()", postgres.Check, "old transaction", false},
	} {
		conn, err := pgx.Connect(t.Context(), server.URL())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close(context.Background())
		for _, sql := range []string{"BEGIN", c.sql} {
			if _, err := conn.Exec(t.Context(), sql); err != nil {
				t.Fatal(err)
			}
		}
		var found []store.Finding
		for end := time.Now().Add(time.Minute); len(found) == 0 && time.Now().Before(end); {
			if found, err = c.check(t.Context(), admin, nil); err != nil {
				t.Fatal(err)
			}
		}
		pid := fmt.Sprintf("the session with the pid %d,", conn.PgConn().PID())
		if len(found) != 1 || found[0].Subject != c.finds || !strings.Contains(found[0].Problem, pid) {
			t.Fatalf("%s: found %+v; want %s", c.sql, found, c.finds)
		}
		if list, err := pgledger.Check(t.Context(), admin, nil); err != nil || (len(list) > 0) != c.ledger {
			t.Errorf("%s: pgledger.Check finds %+v, %v", c.sql, list, err)
		}
		pgtest.Mend(t, admin, found[0].Remedy, nil)
		if list, err := c.check(t.Context(), admin, nil); err != nil || len(list) > 0 {
			t.Errorf("%s: after the remedy: %+v, %v", c.sql, list, err)
		}
	}
}

// TestCheckOfLostTable drops a table of a ledger that has rows, and brings it back from a dump.
func TestCheckOfLostTable(t *testing.T) {
	dump, err := exec.LookPath("pg_dump")
	if err != nil {
		t.Skipf("NOT TESTED: %v", err)
	}
	admin := pgtest.Pool(t)
	schema := migrated(t)
	b := budgetOf(t, over(t, admin, &postgres.Options{Schema: schema}), "cards", spend.Lifetime("ever", eur(10)))
	charge(t, b, "7", "first")
	for _, table := range []string{"accounts", "entries", "requests", "rules"} {
		name := schema + ".buckets_" + table
		script, err := exec.Command(dump, "--inserts", "--table="+name, pgtest.URL(t)).Output()
		if err != nil {
			t.Fatal(err)
		}
		run(t, admin, "DROP TABLE "+name+" CASCADE")
		list, err := pgledger.Check(t.Context(), admin, &postgres.Options{Schema: schema})
		if err != nil || len(list) != 1 || !strings.Contains(list[0].Remedy, "pg_dump") || strings.Contains(list[0].Remedy, "`") {
			t.Errorf("without %s: %+v, %v; want the dump as the remedy", table, list, err)
		}
		err = migrations.Up(t.Context(), admin, &migrations.Options{Schema: schema})
		if !errors.Is(err, store.ErrMisconfigured) || !strings.Contains(err.Error(), "pg_dump") {
			t.Errorf("migrations.Up without %s: %v; want a refusal that names the dump", table, err)
		}
		conn, err := pgx.Connect(t.Context(), pgtest.URL(t)) // the dump changes the settings of its session
		if err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Exec(t.Context(), string(metacommands.ReplaceAll(script, nil))); err != nil {
			t.Fatal(err)
		}
		if err := conn.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if err := b.Verify(t.Context(), "7"); err != nil {
		t.Error(err)
	}
	if d, err := b.Charge(t.Context(), spend.Request{ID: "first", Account: "7", Amount: eur(1)}); err != nil || !d.Replayed {
		t.Errorf("a charge from before: %+v, %v; want its first answer", d, err)
	}
}

// metacommands matches the commands of psql in a dump.
var metacommands = regexp.MustCompile(`(?m)^\\.*$`)
