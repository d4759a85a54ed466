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

func TestConformance(t *testing.T) {
	forEachVersion(t, postgreSQL, func(t *testing.T, v version) {
		pool, schemas := newServer(t, v.image).pool(t), 0
		conform(t, func(t *testing.T) string {
			schemas++
			schema := fmt.Sprintf("brim_%d", schemas)
			migrate(t, pool, schema)
			return schema
		}, func(t *testing.T, schema string, clock func() time.Time) store.Store {
			return newStore(t, pool, postgres.Options{Schema: schema, Clock: clock})
		})
	})
}

// The buckets of a store are in one hash slot, so that any of them can be in one transaction.
func TestClusterConformance(t *testing.T) {
	forEachVersion(t, redisCluster, func(t *testing.T, v version) {
		client := newCluster(t, v).client(t)
		conform(t, func(t *testing.T) string { return "{limits}" + redistest.Prefix(t, client) },
			func(t *testing.T, prefix string, clock func() time.Time) store.Store {
				return newRedisStore(t, client, redisstore.Options{Prefix: prefix, Clock: clock})
			})
	})
}

// conform runs the suite over stores, each new one under a name of its own. The tests of packages
// postgres and redisstore run the whole numbers, on one version.
func conform(t *testing.T, name func(*testing.T) string,
	open func(t *testing.T, name string, clock func() time.Time) store.Store,
) {
	var names sync.Map // by store
	over := func(t *testing.T, name any, clock func() time.Time) store.Store {
		s := open(t, name.(string), clock)
		names.Store(s, name)
		return s
	}
	again := func(t *testing.T, s store.Store, clock func() time.Time) store.Store {
		name, _ := names.Load(s)
		return over(t, name, clock)
	}
	openAt := func(t *testing.T, clock func() time.Time) store.Store { return over(t, name(t), clock) }
	storetest.Run(t, func(t *testing.T) store.Store { return openAt(t, nil) }, &storetest.Options{
		Operations: 5_000, Keys: 1_000, OpenAt: openAt,
		Reopen: func(t *testing.T, s store.Store, clock func() time.Time) store.Store {
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			return again(t, s, clock)
		},
		Peer: func(t *testing.T, s store.Store) store.Store { return again(t, s, nil) },
	})
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
