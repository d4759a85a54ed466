package itest

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/brimgo/brim/migrations"
	"github.com/brimgo/brim/postgres"
	"github.com/brimgo/brim/store"
	"github.com/brimgo/brim/store/storetest"
)

func TestConformance(t *testing.T) {
	forEachVersion(t, func(t *testing.T, s *server) {
		h := &harness{pool: s.pool(t), schemas: make(map[store.Store]string)}
		storetest.Run(t, func(t *testing.T) store.Store { return h.openAt(t, nil) }, &storetest.Options{
			OpenAt: h.openAt,
			Reopen: h.reopen,
			Peer:   func(t *testing.T, s store.Store) store.Store { return h.open(t, h.schema(s), nil) },
			// The tests of package postgres run the whole numbers on one version.
			Operations: 5_000,
			Keys:       1_000,
		})
	})
}

// harness opens the stores of the conformance suite, each new one in a schema of its own.
type harness struct {
	pool    *pgxpool.Pool
	mu      sync.Mutex
	schemas map[store.Store]string
}

func (h *harness) openAt(t *testing.T, clock func() time.Time) store.Store {
	t.Helper()
	h.mu.Lock()
	schema := fmt.Sprintf("brim_%d", len(h.schemas))
	h.mu.Unlock()
	migrate(t, h.pool, schema)
	return h.open(t, schema, clock)
}

func (h *harness) reopen(t *testing.T, s store.Store, clock func() time.Time) store.Store {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return h.open(t, h.schema(s), clock)
}

func (h *harness) open(t *testing.T, schema string, clock func() time.Time) store.Store {
	t.Helper()
	s := newStore(t, h.pool, postgres.Options{Schema: schema, Clock: clock})
	h.mu.Lock()
	defer h.mu.Unlock()
	h.schemas[s] = schema
	return s
}

func (h *harness) schema(s store.Store) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.schemas[s]
}

func migrate(t *testing.T, pool *pgxpool.Pool, schema string) {
	t.Helper()
	if err := migrations.Up(t.Context(), pool, &migrations.Options{Schema: schema}); err != nil {
		t.Fatal(err)
	}
}

// newStore returns a store that ends with t.
func newStore(t *testing.T, pool *pgxpool.Pool, o postgres.Options) store.Store {
	t.Helper()
	s, err := postgres.New(pool, &o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}
