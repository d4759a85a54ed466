package from

import (
	"context"
	"errors"
	"math"
	"testing"
	"time"

	"github.com/brimgo/brim"
	"github.com/brimgo/brim/internal/pgtest"
	"github.com/brimgo/brim/internal/redistest"
	"github.com/brimgo/brim/memory"
)

func TestMain(m *testing.M) { pgtest.Main(redistest.With(m)) }

var errRefused = errors.New("refused")

// ours sends an e-mail if the limit permits it: the call that stands beside each of the others.
func ours(ctx context.Context, limiter *brim.Limiter) error {
	emails := brim.Over(5, time.Minute) // five at once, then one more every 12 seconds
	st, err := limiter.TryFillup(ctx, emails.For("user:42"), 1)
	switch {
	case err != nil: // the store failed, and nothing was decided
		return err
	case !st.Accepted: // it fits after st.RetryAfter, or never if that is brim.Never
		return errRefused
	}
	return nil
}

// inMemory returns a limiter over a store of its own, whose clock stands still.
func inMemory(t *testing.T) *brim.Limiter {
	t.Helper()
	now := time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
	s := memory.New(&memory.Options{Clock: func() time.Time { return now }})
	return brim.New(s, nil)
}

// admitsFive checks that five calls are admitted, and no sixth one.
func admitsFive(t *testing.T, call func() error) {
	t.Helper()
	for i := range 6 {
		if err := call(); (err == nil) != (i < 5) {
			t.Errorf("call %d: %v", i, err)
		}
	}
}

// level checks that a bucket has a level, give or take the leak of the seconds that the test may
// have taken.
func level(t *testing.T, limiter *brim.Limiter, b brim.Bucket, want, slack float64) {
	t.Helper()
	st, err := limiter.State(t.Context(), b)
	if err != nil {
		t.Fatal(err)
	}
	if math.Abs(st.Level-want) > slack {
		t.Errorf("the level of %s is %v; want %v", b.Key, st.Level, want)
	}
}

func TestOurs(t *testing.T) {
	limiter := inMemory(t)
	admitsFive(t, func() error { return ours(t.Context(), limiter) })
}
