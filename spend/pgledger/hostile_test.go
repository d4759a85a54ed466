package pgledger_test

import (
	"testing"

	"github.com/brimgo/brim/internal/pgtest"
	"github.com/brimgo/brim/internal/seed"
	"github.com/brimgo/brim/spend/spendtest"
)

// TestHostileSearchPath has a schema on the search_path whose operators and functions fail,
// and runs random calls, so that every statement is used.
func TestHostileSearchPath(t *testing.T) {
	t.Parallel()
	schema := migrated(t)
	pool := pgtest.PoolAt(t, pgtest.With(t, "search_path="+pgtest.Hostile(t)))
	spendtest.Random(t, harnessOver(pool, schema), seed.Attempts(25, 1000))
}
