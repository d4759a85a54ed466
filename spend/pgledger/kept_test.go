package pgledger_test

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/brimgo/brim/brimtest"
	"github.com/brimgo/brim/internal/kept"
	"github.com/brimgo/brim/internal/pgtest"
	"github.com/brimgo/brim/migrations"
	"github.com/brimgo/brim/postgres"
)

var update = flag.Bool("update", false, "write testdata/spends3.sql anew")

// TestSpendsOfEarlierVersions reads the spends that the first version has stored in the tables of
// migration 3, after migrations have brought these up to date, and goes on with them.
func TestSpendsOfEarlierVersions(t *testing.T) {
	t.Parallel()
	const (
		tables = "../../postgres/testdata/schema3.sql"
		rows   = "testdata/spends3.sql"
		named  = "brim_format" // the schema in both
	)
	pool, schema, clock := pgtest.Pool(t), pgtest.Schema(t), brimtest.NewClock(time.Now())
	o := &postgres.Options{Schema: schema, Clock: clock.Now}
	execute := func(file string) {
		script, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		run(t, pool, strings.ReplaceAll(string(script), named, schema))
	}
	if execute(tables); *update {
		if err := kept.Spend(t.Context(), over(t, pool, o), clock); err != nil {
			t.Fatal(err)
		}
		script := strings.ReplaceAll(inserts(t, pool, schema), schema, named)
		if err := os.WriteFile(rows, []byte(script), 0o644); err != nil {
			t.Fatal(err)
		}
		run(t, pool, "DROP SCHEMA "+schema+" CASCADE")
		execute(tables)
	}
	execute(rows)
	if err := migrations.Up(t.Context(), pool, &migrations.Options{Schema: schema}); err != nil {
		t.Fatal(err)
	}
	kept.Compare(t, over(t, pool, o), clock)
}

// inserts returns a script that inserts the rows of a ledger.
func inserts(t *testing.T, pool *pgxpool.Pool, schema string) string {
	t.Helper()
	var script strings.Builder
	for _, table := range []string{"accounts", "entries", "requests", "spends", "holds", "rules"} {
		script.WriteString(query[string](t, pool, fmt.Sprintf(`SELECT string_agg('INSERT INTO %[1]s.buckets_%[2]s OVERRIDING SYSTEM VALUE '
			'SELECT * FROM jsonb_populate_record(NULL::%[1]s.buckets_%[2]s, ' || quote_literal(row) || E');\n', '' ORDER BY row)
			FROM (SELECT jsonb_strip_nulls(to_jsonb(t)) AS row FROM %[1]s.buckets_%[2]s AS t) AS t`, schema, table)))
	}
	fmt.Fprintf(&script, "SELECT setval(pg_get_serial_sequence('%[1]s.buckets_accounts', 'id'), max(id)) FROM %[1]s.buckets_accounts;\n", schema)
	return script.String()
}
