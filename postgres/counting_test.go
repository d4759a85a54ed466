package postgres_test

import (
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/brimgo/brim/internal/pgtest"
)

// TestCountingRowsRaces lets 16 callers at once count the rows of a table before any of them
// inserts its row, as the callers of two statements may. All of them see room under a limit of 10.
// docs/algorithms.md names both numbers; the conformance suite has a bucket admit exactly its
// capacity.
func TestCountingRowsRaces(t *testing.T) {
	const callers, limit = 16, 10
	pool := pgtest.PoolAt(t, pgtest.With(t, "pool_max_conns=16"))
	schema := migrateOn(t, pool)
	requests := pgx.Identifier{schema, "requests"}.Sanitize()
	execute(t, pool, `CREATE TABLE `+requests+` (at timestamptz NOT NULL DEFAULT now())`)
	var counted, all sync.WaitGroup
	counted.Add(callers)
	for range callers {
		all.Go(func() {
			var n int
			err := pool.QueryRow(t.Context(), `SELECT count(*) FROM `+requests).Scan(&n)
			counted.Done()
			counted.Wait()
			if err == nil && n < limit {
				_, err = pool.Exec(t.Context(), `INSERT INTO `+requests+` DEFAULT VALUES`)
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if n := scalar[int](t, pool, `SELECT count(*) FROM `+requests); n != callers {
		t.Errorf("counting rows admits %d; want all %d, because nobody sees another's row", n, callers)
	}
}
