package pgledger_test

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/brimgo/brim/internal/pgtest"
	"github.com/brimgo/brim/internal/seed"
	"github.com/brimgo/brim/postgres"
	"github.com/brimgo/brim/spend/ledger"
	"github.com/brimgo/brim/spend/spendtest"
)

// TestHostileSearchPath has a schema on the search_path whose operators and functions fail,
// and runs random calls, so that every statement is used.
func TestHostileSearchPath(t *testing.T) {
	config := pgtest.Pool(t).Config()
	schema := migrated(t)
	config.ConnConfig.RuntimeParams["search_path"] = pgtest.Hostile(t)
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	h := harness(t, "")
	h.New = func(t testing.TB, clock func() time.Time) ledger.Ledger {
		return over(t, pool, &postgres.Options{Schema: schema, Clock: clock})
	}
	spendtest.Random(t, h, seed.Attempts(25, 1000))
}
