package postgres_test

import (
	"fmt"
	"testing"

	"github.com/brimgo/brim/internal/docpage"
	"github.com/brimgo/brim/postgres"
	"github.com/brimgo/brim/store"
)

// TestWALOfStatements measures the WAL of calls of one caller, and compares it with the table in
// docs/internals/postgres.md. A column that is added to the table of buckets shows here.
func TestWALOfStatements(t *testing.T) {
	t.Parallel()
	// told returns the nth number in the last cell of a statement's row.
	told := func(statement string, nth int) float64 {
		figures, err := docpage.Figures("../docs/internals/postgres.md", "`"+statement+"`", 4)
		if err != nil || len(figures) <= nth {
			t.Fatalf("the row of %s has the figures %v, %v; want %d", statement, figures, err, nth+1)
		}
		return figures[nth]
	}
	pool := quiet(t, "full_page_writes=off").Pool(t)
	s := over(t, pool, postgres.Options{Schema: migrateOn(t, pool)})
	key := func(kind string, i int) store.Bucket {
		return steady.For(fmt.Sprintf("%s %0*d", kind, 15-len(kind), i))
	}
	for _, c := range []struct {
		name string
		want float64
		op   func(i int) store.Op
	}{
		{"a new bucket", told("insert", 0), func(i int) store.Op { return op(key("a", i), 1, store.IfFits) }},
		{"a bucket that is there", told("update_one", 0), func(i int) store.Op { return op(key("a", i), 1, store.IfFits) }},
		{"a hold in a new bucket", told("lock", 1), func(i int) store.Op { return store.Op{Bucket: key("b", i), Hold: 1} }},
		{"a hold in a bucket that is there", told("lock", 0), func(i int) store.Op { return store.Op{Bucket: key("b", i), Hold: 1} }},
	} {
		least := 1e9 // some calls also clean a page, and the server itself writes now and then
		for i := range 50 {
			start := scalar[string](t, pool, "SELECT pg_current_wal_insert_lsn()::text")
			if st := fill(t, s, c.op(i)); !st.Accepted {
				t.Fatalf("%s: %v", c.name, st)
			}
			least = min(least, scalar[float64](t, pool, "SELECT (pg_current_wal_insert_lsn() - $1::text::pg_lsn)::float8", start))
		}
		t.Logf("%s: %.0f bytes of WAL", c.name, least)
		if least < 0.95*c.want || least > 1.05*c.want {
			t.Errorf("%s writes %.0f bytes of WAL a call; docs/internals/postgres.md tells %.0f", c.name, least, c.want)
		}
	}
}
