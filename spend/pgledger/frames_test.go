package pgledger_test

import (
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/brimgo/brim/internal/pgtest"
	"github.com/brimgo/brim/postgres"
	"github.com/brimgo/brim/spend"
)

// TestWayToTheServer: a reader follows a charge through at most 14 functions to the statement.
func TestWayToTheServer(t *testing.T) {
	var frames pgtest.Frames
	pool := pgtest.PoolAt(t, pgtest.URL(t), func(c *pgxpool.Config) { c.ConnConfig.Tracer = &frames })
	b := cardsAndTeams(t, over(t, pool, &postgres.Options{Schema: migrated(t)}))
	for _, id := range []string{"first", "second"} {
		mustCharge(t, b, spend.Request{ID: id, Account: "card", Amount: euros(1)})
		if n := frames.Most(); n < 3 || n > 14 {
			t.Errorf("the %s charge: %d functions of brim up to the driver, want 3 to 14", id, n)
		}
	}
}
