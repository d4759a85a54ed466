package pgrun

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/brimgo/brim/internal/pgtest"
)

// TestSmallerLockTimeoutCounts has an operator bound the waits of all sessions. The lock_timeout
// of a statement is at most that bound. A lone statement otherwise waits for three quarters of the
// time after which its call is cut off.
func TestSmallerLockTimeoutCounts(t *testing.T) {
	for _, c := range []struct{ setting, lane, lone string }{
		{"0", "50", "1500"},
		{"7ms", "7", "7"},
		{"1s", "50", "1000"},
		{"1min", "50", "1500"},
		{"2d", "50", "1500"},
	} {
		t.Run(c.setting, func(t *testing.T) {
			pool := pgtest.PoolAt(t, pgtest.With(t, "lock_timeout="+c.setting))
			r, err := New(pool, "test", Options{Timeout: 2 * time.Second})
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			l := &Lane{r: r, wait: 50 * time.Millisecond}
			if err := l.acquire(); err != nil {
				t.Fatal(err)
			}
			defer l.release()
			if got := *l.LockTimeout(); got != c.lane {
				t.Errorf("lock_timeout of a flush is %s ms, want %s", got, c.lane)
			}
			err = r.Look(t.Context(), "test", func(_ context.Context, conn *pgxpool.Conn) error {
				if got := *r.LockTimeout(conn); got != c.lone {
					t.Errorf("lock_timeout of a lone statement is %s ms, want %s", got, c.lone)
				}
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
}
