package caller

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/brimgo/brim"
	"github.com/brimgo/brim/local"
	"github.com/brimgo/brim/memory"
	"github.com/brimgo/brim/store"
)

// maxLocal is the largest number of buckets that a middleware keeps in memory for outages: some 7 MB.
const maxLocal = 100_000

// FailOpen returns a Limiter that decides in the memory of this process, by a share of each limit, while
// the store of l is out of reach. Patience judges the store, or local.DefaultPatience if it is 0.
func FailOpen(l *brim.Limiter, patience time.Duration, share float64, log *slog.Logger) (*brim.Limiter, error) {
	return l.Wrap(func(s store.Store) (store.Store, error) {
		return local.Fallback(s, memory.New(&memory.Options{MaxBuckets: maxLocal}), &local.FallbackOptions{
			Share: share, Patience: patience,
			Switched: func(err error) {
				if err != nil {
					log.Warn("brim: the store of limits is out of reach; they are decided in the memory of this process", "error", err)
				} else {
					log.Info("brim: the store of limits answers again")
				}
			},
		})
	})
}

// Away reports whether err says that the limit cannot be decided now, and may be decided later: the
// store is out of reach, has not answered in time, or has no place for another bucket. After every
// other error somebody must mend something.
func Away(err error) bool {
	return OutOfReach(err) || errors.Is(err, store.ErrFull)
}

// OutOfReach reports whether err says that the store is out of reach, or has not answered in time.
func OutOfReach(err error) bool {
	return errors.Is(err, store.ErrUnavailable) || errors.Is(err, store.ErrUnknownOutcome) ||
		errors.Is(err, context.DeadlineExceeded)
}

// Log logs errors, at most one in a minute. The zero value is ready for use.
type Log struct {
	logged atomic.Pointer[time.Time] // when the last error was logged
}

// Error logs err, unless another one was logged less than a minute ago.
func (l *Log) Error(log *slog.Logger, message string, err error) {
	now, last := time.Now(), l.logged.Load()
	if last != nil && now.Sub(*last) < time.Minute || !l.logged.CompareAndSwap(last, &now) {
		return
	}
	log.Error(message, "error", err)
}
