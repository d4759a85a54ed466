package itest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/brimgo/brim/migrations"
	"github.com/brimgo/brim/postgres"
	"github.com/brimgo/brim/store"
	"github.com/brimgo/brim/store/storetest"
)

func TestMigrations(t *testing.T) {
	forEachVersion(t, func(t *testing.T, s *server) {
		pool, o := s.pool(t), &migrations.Options{Schema: `Odd "name"`, Table: "of a table"}
		for range 2 {
			for range 2 {
				if err := migrations.Up(t.Context(), pool, o); err != nil {
					t.Fatal(err)
				}
			}
			got, err := migrations.Version(t.Context(), pool, o)
			if err != nil || got.Version != got.Latest || got.Dirty {
				t.Fatalf("after up: %+v, %v", got, err)
			}
			if err := migrations.Down(t.Context(), pool, o); err != nil {
				t.Fatal(err)
			}
		}
		script, err := migrations.SQL(o)
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if _, err := pool.Exec(t.Context(), script); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := migrations.Version(t.Context(), pool, o); err != nil || got.Version != got.Latest {
			t.Errorf("after the script: %+v, %v", got, err)
		}
	})
}

func TestConformance(t *testing.T) {
	forEachVersion(t, func(t *testing.T, s *server) {
		pool, schemas := s.pool(t), atomic.Int64{}
		storetest.Run(t, func(t *testing.T) store.Store {
			return newStore(t, pool, fmt.Sprintf("brim_%d", schemas.Add(1)))
		}, nil)
	})
}

// newStore returns a store in a schema of its own.
func newStore(t *testing.T, pool *pgxpool.Pool, schema string) store.Store {
	t.Helper()
	if err := migrations.Up(t.Context(), pool, &migrations.Options{Schema: schema}); err != nil {
		t.Fatal(err)
	}
	db, err := postgres.New(pool, &postgres.Options{Schema: schema})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

// What was acknowledged is durable, and what was not went in at most where the outcome was said to be unknown.
func TestCrashUnderLoad(t *testing.T) {
	forEachVersion(t, func(t *testing.T, s *server) {
		db := newStore(t, s.pool(t), "brim")
		op := store.Op{Bucket: store.Limit{Capacity: store.MaxAmount}.For("loaded"), Amount: 1}

		var acknowledged, unknown atomic.Int64
		ctx, stop := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for range 16 {
			wg.Go(func() {
				for ctx.Err() == nil {
					// Not under ctx: stopping must not add to what is unknown.
					call, cancel := context.WithTimeout(t.Context(), 5*time.Second)
					st, err := db.Fill(call, op)
					cancel()
					switch {
					case errors.Is(err, store.ErrUnknownOutcome):
						unknown.Add(1)
					case err == nil && st.Accepted:
						acknowledged.Add(1)
					case err == nil:
						t.Errorf("refused by a bucket that cannot be full: %+v", st)
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
					t.Fatalf("only %d of %d fills were acknowledged", acknowledged.Load(), goal)
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
			t.Errorf("stored %d, acknowledged %d, unknown %d: want acknowledged <= stored <= acknowledged + unknown",
				stored, least, unknown.Load())
		}
	})
}
