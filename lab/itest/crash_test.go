package itest

import (
	"context"
	"sync"
	"testing"

	"github.com/brimgo/brim/postgres"
	"github.com/brimgo/brim/store"
)

// A crash loses no acknowledged fill, and a fill whose error is another than ErrUnknownOutcome is
// not stored.
func TestCrashUnderLoad(t *testing.T) {
	forEachVersion(t, postgreSQL, func(t *testing.T, v version) {
		s := newServer(t, v.image)
		pool := s.pool(t)
		migrate(t, pool, "brim")
		db := newStore(t, pool, postgres.Options{})
		// Its server is cut off again and again.
		b := &filled{bucket: store.Limit{Capacity: store.MaxAmount}.For("loaded"), cut: true}
		ctx, stop := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for range 16 {
			wg.Go(func() {
				for ctx.Err() == nil && !t.Failed() {
					b.fill(t, db)
				}
			})
		}
		defer wg.Wait()
		defer stop()
		for range 3 {
			reach(t, []*filled{b}, everyone, (*filled).accepted, 2000)
			s.crash(t)
		}
		reach(t, []*filled{b}, everyone, (*filled).accepted, 2000)
		stop()
		wg.Wait()
		b.check(t, db)
	})
}
