package caller

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/brimgo/brim/store"
)

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
