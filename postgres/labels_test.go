package postgres_test

import (
	"regexp"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/brimgo/brim/internal/pgtest"
	"github.com/brimgo/brim/postgres"
)

// TestStatementsAreLabelled looks at a server as an operator does. Each statement on the table of
// buckets must tell its name.
func TestStatementsAreLabelled(t *testing.T) {
	t.Parallel()
	server := pgtest.NewServer(t, "shared_preload_libraries=pg_stat_statements")
	pool := server.Pool(t)
	execute(t, pool, "CREATE EXTENSION pg_stat_statements SCHEMA public")
	schema := migrateOn(t, pool)
	execute(t, pool, "SELECT public.pg_stat_statements_reset()")
	everything(t, over(t, pool, postgres.Options{Schema: schema}))
	rows, err := pool.Query(t.Context(), "SELECT query FROM public.pg_stat_statements WHERE query LIKE '%\"buckets\"%'")
	if err != nil {
		t.Fatal(err)
	}
	queries, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	label := regexp.MustCompile(`^[A-Z]+ /\* brim:buckets\.([a-z_]+) \*/\s`)
	var names []string
	for _, q := range queries {
		m := label.FindStringSubmatch(q)
		if m == nil {
			t.Errorf("this statement does not tell its name:\n%s", q)
			continue
		}
		names = append(names, m[1])
	}
	for _, want := range []string{"update_one", "update_many", "insert", "lock", "read", "page", "delete", "prune"} {
		if !slices.Contains(names, want) {
			t.Errorf("the server knows the statements %q; want %s among them", names, want)
		}
	}
}
