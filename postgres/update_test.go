package postgres_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/brimgo/brim/internal/pgtest"
	"github.com/brimgo/brim/postgres"
	"github.com/brimgo/brim/store"
)

// TestUpdateThatStops has the function of Update stop while it holds a row. The server frees the
// row after StatementTimeout, and nothing of the transaction is applied.
func TestUpdateThatStops(t *testing.T) {
	leakFree(t)
	mine := errors.New("mine")
	for _, c := range []struct {
		name  string
		stops int                     // attempts that stop
		last  func(store.Store) error // after the stop
		// want is the error of Update; nil means that the attempt after the stops commits.
		want error
	}{
		{"and returns", 1, func(store.Store) error { return nil }, nil},
		{"and fills again", 1, func(in store.Store) error {
			_, err := in.Fill(t.Context(), op(steady.For("b"), 1, store.IfFits))
			return err
		}, nil},
		{"and fails", 1, func(store.Store) error { return mine }, mine},
		{"and goes on after an error", 1, func(in store.Store) error {
			_, err := in.Fill(t.Context(), op(steady.For("b"), 1, store.IfFits))
			wantError(t, err, store.ErrUnavailable, "25P03", "StatementTimeout")
			return nil
		}, store.ErrUnavailable},
		{"each time", 10, func(store.Store) error { return nil }, store.ErrUnavailable},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel() // each waits
			admin := pgtest.Pool(t)
			schema := migrated(t)
			application := "stops_" + schema
			pool := pgtest.PoolAt(t, pgtest.With(t, "pool_max_conns=1&application_name="+application))
			// The time is longer than the pause between two looks at the size of the table, which
			// find the end of the transaction first.
			s := over(t, pool, postgres.Options{Schema: schema, StatementTimeout: 1200 * time.Millisecond})
			attempts := 0
			err := s.Update(t.Context(), func(in store.Store) error {
				attempts++
				if _, err := in.Fill(t.Context(), op(steady.For("a"), 1, store.IfFits)); err != nil {
					return err
				}
				if attempts > c.stops {
					return nil
				}
				until(t, "the server to end the transaction", func() bool {
					return scalar[int](t, admin, "SELECT count(*) FROM pg_stat_activity WHERE application_name = $1", application) == 0
				})
				return c.last(in)
			})
			level := 0.0
			switch {
			case c.want == nil:
				level = 1
				if err != nil || attempts != c.stops+1 {
					t.Errorf("%v after %d attempts, want success in the attempt after the stop", err, attempts)
				}
			case !errors.Is(err, c.want) || errors.Is(err, store.ErrUnknownOutcome):
				t.Errorf("%v, want %v", err, c.want)
			case c.stops > 1 && !strings.Contains(err.Error(), "25P03"):
				t.Errorf("%v, want the reason 25P03", err)
			}
			levelIs(t, s, "a", level)
			levelIs(t, s, "b", 0)
			clean(t, pool)
		})
	}
}

// TestWithKeepsTheIdleTimeout looks at the settings of a transaction of the application.
func TestWithKeepsTheIdleTimeout(t *testing.T) {
	for name, way := range ways {
		t.Run(name, func(t *testing.T) {
			c := newCharges(t, postgres.Options{StatementTimeout: 7 * time.Second})
			in := way(t, c, pgx.ReadCommitted)
			for _, o := range []store.Op{op(steady.For("a"), 1, store.IfFits), {Bucket: steady.For("a"), Hold: 1}} {
				fill(t, in, o)
			}
			if err := in.exec("DO $$ BEGIN ASSERT current_setting('idle_in_transaction_session_timeout') = '0'; END $$"); err != nil {
				t.Error(err)
			}
			in.end(t, true)
		})
	}
}
