package postgres_test

import (
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/brimgo/brim/internal/pgtest"
	"github.com/brimgo/brim/postgres"
	"github.com/brimgo/brim/store"
)

// TestCountingRowsRaces lets 16 callers at once count the rows of a table before any of them
// inserts its row, as the callers of two statements may. All of them see room under a limit of 10.
// The bucket admits 10 of the same callers. docs/algorithms.md names both numbers.
func TestCountingRowsRaces(t *testing.T) {
	const callers, limit = 16, 10
	pool := poolAt(t, tune(pgtest.URL(t), "pool_max_conns=16"))
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

	s, err := postgres.New(pool, &postgres.Options{Schema: schema})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	accepted := make(chan bool, callers)
	for range callers {
		all.Go(func() {
			st, err := s.Fill(t.Context(), op(store.Limit{Capacity: limit}.For("k"), 1, store.IfFits))
			if err != nil {
				t.Error(err)
			}
			accepted <- st.Accepted
		})
	}
	all.Wait()
	close(accepted)
	admitted := 0
	for ok := range accepted {
		if ok {
			admitted++
		}
	}
	if admitted != limit {
		t.Errorf("the bucket admits %d; want %d", admitted, limit)
	}
}
