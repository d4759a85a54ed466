package itest

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"

	"github.com/brimgo/brim/internal/redistest"
	"github.com/brimgo/brim/migrations"
	"github.com/brimgo/brim/postgres"
	"github.com/brimgo/brim/redisstore"
	"github.com/brimgo/brim/store"
	"github.com/brimgo/brim/store/storetest"
)

// usual is the size of a run. The tests of packages postgres and redisstore run the whole
// numbers, on one version.
var usual = storetest.Options{Operations: 5_000, Keys: 1_000}

func TestConformance(t *testing.T) {
	forEachVersion(t, postgreSQL, func(t *testing.T, v version) {
		overPostgres(newServer(t, v.image).pool(t)).run(t, usual)
	})
}

// overPostgres returns a harness that opens each new store in a schema of its own.
func overPostgres(pool *pgxpool.Pool) *harness {
	schemas := 0
	return &harness{
		name: func(t *testing.T) string {
			schemas++
			schema := fmt.Sprintf("brim_%d", schemas)
			migrate(t, pool, schema)
			return schema
		},
		open: func(t *testing.T, schema string, clock func() time.Time) store.Store {
			return newStore(t, pool, postgres.Options{Schema: schema, Clock: clock})
		},
	}
}

// The buckets of a store are in one hash slot, so that any of them can be in one transaction.
func TestClusterConformance(t *testing.T) {
	forEachVersion(t, redisCluster, func(t *testing.T, v version) {
		client := newCluster(t, v).client(t)
		h := &harness{
			name: func(t *testing.T) string { return "{limits}" + redistest.Prefix(t, client) },
			open: func(t *testing.T, prefix string, clock func() time.Time) store.Store {
				return newRedisStore(t, client, redisstore.Options{Prefix: prefix, Clock: clock})
			},
		}
		h.run(t, usual)
	})
}

// harness opens the stores of the conformance suite, each new one under a name of its own.
type harness struct {
	name func(t *testing.T) string
	open func(t *testing.T, name string, clock func() time.Time) store.Store

	mu    sync.Mutex
	names map[store.Store]string
}

// run runs the suite. o has its numbers.
func (h *harness) run(t *testing.T, o storetest.Options) {
	h.names = make(map[store.Store]string)
	o.OpenAt, o.Reopen = h.openAt, h.reopen
	o.Peer = func(t *testing.T, s store.Store) store.Store { return h.over(t, h.nameOf(s), nil) }
	storetest.Run(t, func(t *testing.T) store.Store { return h.openAt(t, nil) }, &o)
}

func (h *harness) openAt(t *testing.T, clock func() time.Time) store.Store {
	t.Helper()
	return h.over(t, h.name(t), clock)
}

func (h *harness) reopen(t *testing.T, s store.Store, clock func() time.Time) store.Store {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return h.over(t, h.nameOf(s), clock)
}

func (h *harness) over(t *testing.T, name string, clock func() time.Time) store.Store {
	t.Helper()
	s := h.open(t, name, clock)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.names[s] = name
	return s
}

func (h *harness) nameOf(s store.Store) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.names[s]
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
	return closing(t, s)
}

func newRedisStore(t *testing.T, client *redis.ClusterClient, o redisstore.Options) store.Store {
	t.Helper()
	s, err := redisstore.New(client, &o)
	if err != nil {
		t.Fatal(err)
	}
	return closing(t, s)
}

// closing closes the store at the end of t.
func closing(t *testing.T, s store.Store) store.Store {
	t.Helper()
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}
