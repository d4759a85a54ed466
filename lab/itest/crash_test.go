package itest

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

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
		op := store.Op{Bucket: store.Limit{Capacity: store.MaxAmount}.For("loaded"), Amount: 1}

		var acknowledged, unknown atomic.Int64
		ctx, stop := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for range 16 {
			wg.Go(func() {
				for ctx.Err() == nil {
					// Ending ctx ends the loop but not this call; its outcome must not become
					// unknown.
					call, cancel := context.WithTimeout(t.Context(), 5*time.Second)
					st, err := db.Fill(call, op)
					cancel()
					switch {
					case errors.Is(err, store.ErrUnknownOutcome):
						unknown.Add(1)
					case err == nil && st.Accepted:
						acknowledged.Add(1)
					case err == nil:
						t.Errorf("a bucket that cannot be full refused the fill: %+v", st)
						return
					}
				}
			})
		}
		defer wg.Wait()
		defer stop()
		reach := func(more int64) {
			t.Helper()
			goal, deadline := acknowledged.Load()+more, time.Now().Add(time.Minute)
			for acknowledged.Load() < goal {
				if time.Now().After(deadline) {
					t.Fatalf("the server acknowledged %d of %d fills in a minute", acknowledged.Load(), goal)
				}
				time.Sleep(time.Millisecond)
			}
		}
		for range 3 {
			reach(2000)
			s.crash(t)
		}
		reach(2000)
		stop()
		wg.Wait()

		states, err := db.Read(t.Context(), op.Bucket)
		if err != nil {
			t.Fatal(err)
		}
		least, most := acknowledged.Load(), acknowledged.Load()+unknown.Load()
		if stored := int64(states[0].Level); stored < least || stored > most {
			t.Errorf("the bucket holds %d, want %d (acknowledged) to %d (with unknown outcomes)", stored, least, most)
		}
	})
}
