package postgres_test

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/brimgo/brim/internal/pgtest"
	"github.com/brimgo/brim/postgres"
	"github.com/brimgo/brim/store"
)

// TestPruneOfOtherTables replaces the table by one whose rows are not all in its own pages. Prune
// reads the pages of partitions. Of the others it must say that it cannot; there the statement of
// docs/postgres.md works.
func TestPruneOfOtherTables(t *testing.T) {
	const like = "(LIKE @.migrated INCLUDING DEFAULTS"
	for _, c := range []struct {
		name, words string
		ddl         string // @ is the schema
		works       bool   // the table can be filled
	}{
		{"plain", "", "CREATE TABLE @.buckets " + like + ", PRIMARY KEY (key))", true},
		{
			"partitioned", "",
			"CREATE TABLE @.buckets " + like + ", PRIMARY KEY (key)) PARTITION BY HASH (key); " +
				"CREATE TABLE @.buckets_0 PARTITION OF @.buckets FOR VALUES WITH (MODULUS 2, REMAINDER 0); " +
				"CREATE TABLE @.buckets_1 PARTITION OF @.buckets FOR VALUES WITH (MODULUS 2, REMAINDER 1)", true,
		},
		{
			"with children", "has tables that inherit from it",
			"CREATE TABLE @.buckets " + like + ", PRIMARY KEY (key)); CREATE TABLE @.buckets_child (PRIMARY KEY (key)) INHERITS (@.buckets)", true,
		},
		{"view", "is a view", "CREATE TABLE @.buckets_base " + like + ", PRIMARY KEY (key)); CREATE VIEW @.buckets AS SELECT * FROM @.buckets_base", true},
		{
			"materialized view", "is of kind m",
			"CREATE TABLE @.buckets_base " + like + "); CREATE MATERIALIZED VIEW @.buckets AS SELECT * FROM @.buckets_base", false,
		},
		{
			"foreign", "is a foreign table",
			"CREATE EXTENSION IF NOT EXISTS file_fdw; CREATE SERVER IF NOT EXISTS files FOREIGN DATA WRAPPER file_fdw; " +
				"CREATE FOREIGN TABLE @.buckets () SERVER files OPTIONS (filename '/dev/null')", false,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			pool := pgtest.Pool(t)
			schema := migrated(t)
			execute(t, pool, "ALTER TABLE "+schema+".buckets RENAME TO migrated")
			execute(t, pool, strings.ReplaceAll(c.ddl, "@", schema))
			t.Cleanup(func() { execute(t, pool, "DROP EXTENSION IF EXISTS file_fdw CASCADE") })
			s := over(t, pool, postgres.Options{Schema: schema})
			setUp := func() {
				execute(t, pool, "DELETE FROM "+schema+".buckets")
				// The first bucket has leaked empty long ago.
				fill(t, s, op(store.Limit{Capacity: 5, LeakRate: 1}.For("gone"), 1, store.Always))
				execute(t, pool, "UPDATE "+schema+".buckets SET atime = atime - interval '1 hour'")
				fill(t, s, op(store.Limit{Capacity: 5, LeakRate: 1}.For("fresh"), 1, store.Always))
				fill(t, s, op(steady.For("kept"), 1, store.Always))
				fill(t, s, store.Op{Bucket: store.Limit{Capacity: 5, LeakRate: 1}.For("blocked"), Amount: 6, BlockFor: time.Minute})
			}
			if c.works {
				setUp()
			}
			n, err := s.Prune(t.Context())
			if c.words == "" {
				if n != 1 || err != nil {
					t.Errorf("pruned %d, %v; want 1", n, err)
				}
				return
			}
			wantError(t, err, errors.ErrUnsupported, "postgres: prune: ", c.words)
			if n != 0 {
				t.Errorf("pruned %d; want 0", n)
			}
			if !c.works {
				return
			}
			page, err := os.ReadFile("../docs/postgres.md")
			if err != nil {
				t.Fatal(err)
			}
			_, sql, _ := strings.Cut(string(page), "```sql\nDELETE FROM brim.buckets")
			sql, _, found := strings.Cut(sql, "```")
			if !found {
				t.Fatal("docs/postgres.md has no statement that removes empty buckets")
			}
			execute(t, pool, "DELETE FROM "+schema+".buckets"+sql)
			if keys := scalar[string](t, pool, "SELECT string_agg(key, ' ' ORDER BY key) FROM "+schema+".buckets"); keys != "blocked fresh kept" {
				t.Errorf("the statement leaves %s; want the buckets that are in use", keys)
			}
		})
	}
}
