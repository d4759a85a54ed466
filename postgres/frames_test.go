package postgres_test

import (
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/brimgo/brim/internal/pgtest"
	"github.com/brimgo/brim/postgres"
	"github.com/brimgo/brim/store"
)

// TestWayToTheServer: a reader follows a call through few functions to the statement. Callbacks
// that come back from the packages below made them 18 for a fill.
func TestWayToTheServer(t *testing.T) {
	var frames pgtest.Frames
	pool := pgtest.PoolAt(t, pgtest.URL(t), func(c *pgxpool.Config) { c.ConnConfig.Tracer = &frames })
	s := over(t, pool, postgres.Options{Schema: migrated(t)})
	for _, c := range []struct {
		name string
		op   store.Op
		most int
	}{
		{"the first fill", op(steady.For("k"), 1, store.IfFits), 11},
		{"a fill", op(steady.For("k"), 1, store.IfFits), 11},
		{"a hold", store.Op{Bucket: steady.For("k"), Hold: 1}, 11},
		{"a question", op(steady.For("k"), 1, store.Ask), 13},
	} {
		fill(t, s, c.op)
		if n := frames.Most(); n < 3 || n > c.most {
			t.Errorf("%s: %d functions of brim up to the driver, want 3 to %d", c.name, n, c.most)
		}
	}
}
