package postgres_test

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/brimgo/brim/internal/pgtest"
	"github.com/brimgo/brim/postgres"
	"github.com/brimgo/brim/store"
)

// TestCitusIsFound opens a store on a server that pretends to be a coordinator of Citus. The store
// must send portable statements alone. A table that is not distributed gets the usual ones.
func TestCitusIsFound(t *testing.T) {
	server := pgtest.NewServer(t, "shared_preload_libraries=pg_stat_statements", "allow_system_table_mods=on")
	pool := server.Pool(t)
	execute(t, pool, "CREATE EXTENSION pg_stat_statements SCHEMA public")
	label := regexp.MustCompile(`/\* brim:buckets\.([a-z_]+) \*/`)
	for _, c := range []struct {
		schema                string
		distributed, portable bool
	}{
		{"plain", false, false},
		{"distributed", true, true},
	} {
		t.Run(c.schema, func(t *testing.T) {
			migrateTo(t, pool, c.schema)
			pgtest.PretendCitus(t, pool)
			if c.distributed {
				pgtest.PretendCitus(t, pool, c.schema+".buckets")
			}
			execute(t, pool, "SELECT public.pg_stat_statements_reset()")
			s := over(t, pool, postgres.Options{Schema: c.schema})
			everything(t, s)
			if err := s.Update(t.Context(), func(in store.Store) error {
				fill(t, in, op(steady.For("k"), 1, store.IfFits))
				levelIs(t, in, "k", 1)
				return in.Delete(t.Context(), "k")
			}); err != nil {
				t.Fatal(err)
			}
			rows, err := pool.Query(t.Context(), "SELECT query FROM public.pg_stat_statements WHERE query LIKE '%brim:buckets.%'")
			if err != nil {
				t.Fatal(err)
			}
			queries, err := pgx.CollectRows(rows, pgx.RowTo[string])
			if err != nil {
				t.Fatal(err)
			}
			if len(queries) < 4 {
				t.Errorf("the server knows only the statements %q", queries)
			}
			for _, q := range queries {
				name := label.FindStringSubmatch(q)[1]
				if name == "size" || name == "bytes" {
					continue // about the table, and not its rows
				}
				if portable := strings.HasPrefix(name, "portable_"); portable != c.portable {
					t.Errorf("the store sent the statement %s", name)
				}
			}
		})
	}
}

// TestPortableRefusals refuses many calls over a bucket whose row a stranger holds. Once refusals
// are frequent, portable statements look before they lock, so a refusal waits for nobody.
func TestPortableRefusals(t *testing.T) {
	pool := pgtest.Pool(t)
	schema := migrated(t, pool)
	s := over(t, pool, postgres.Options{Schema: schema, Portable: true, StatementTimeout: 20 * time.Second})
	b := store.Limit{Capacity: 1}.For("k")
	fill(t, s, op(b, 1, store.IfFits))
	if st := fill(t, s, op(b, 1, store.IfFits)); st.Accepted {
		t.Fatal("a full bucket accepted")
	}
	release := lockRow(t, pool, schema, "k")
	defer release()
	start := time.Now()
	for range 10 {
		if st := fill(t, s, op(b, 1, store.IfFits)); st.Accepted {
			t.Error("a full bucket accepted")
		}
	}
	if took := time.Since(start); took > 10*time.Second {
		t.Errorf("10 refusals took %v while a stranger held the row", took)
	}
}
