package migrations

import (
	"reflect"
	"testing"

	"github.com/brimgo/brim/internal/pgtest"
)

// TestHostileSearchPath has a schema on the search_path whose operators and functions fail.
func TestHostileSearchPath(t *testing.T) {
	noLeaks(t)
	pool := pgtest.PoolAt(t, pgtest.With(t, "search_path="+pgtest.Hostile(t)))
	o := &Options{Schema: pgtest.Schema(t)}
	status := func(want Status) {
		t.Helper()
		if got, err := CurrentStatus(t.Context(), pool, o); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("status is %+v, %v, want %+v", got, err, want)
		}
	}
	for range 2 { // Down must leave nothing behind that breaks Up
		status(Status{Latest: latest(t)})
		if err := Up(t.Context(), pool, o); err != nil {
			t.Fatal(err)
		}
		status(Status{Version: latest(t), Latest: latest(t)})
		if err := Down(t.Context(), pool, o); err != nil {
			t.Fatal(err)
		}
	}
	script, err := SQL(o)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := pool.Exec(t.Context(), script); err != nil {
			t.Fatal(err)
		}
	}
	status(Status{Version: latest(t), Latest: latest(t)})
	if n := scalar[int](t, pgtest.Pool(t), o, `SELECT count(*) FROM pg_attribute AS a JOIN pg_class AS c ON c.oid = attrelid
		JOIN pg_type AS t ON t.oid = atttypid
		WHERE c.relnamespace = {{'schema'}}::regnamespace AND t.typnamespace <> 'pg_catalog'::regnamespace`); n != 0 {
		t.Errorf("%d columns have types of another schema than pg_catalog", n)
	}
	idle(t, pool)
}
