// Package failopen is the choice FailOpen of packages httplimit and grpclimit.
package failopen

import (
	"log/slog"
	"time"

	"github.com/brimgo/brim"
	"github.com/brimgo/brim/local"
	"github.com/brimgo/brim/memory"
	"github.com/brimgo/brim/store"
)

// maxLocal is the largest number of buckets that a middleware keeps in memory for outages: some 7
// MB.
const maxLocal = 100_000

// Limiter returns a Limiter that decides in the memory of this process, by a share of each limit,
// while the store of l is out of reach. Patience judges the store, or local.DefaultPatience if it
// is 0.
func Limiter(l *brim.Limiter, patience time.Duration, share float64, log *slog.Logger) (*brim.Limiter, error) {
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
