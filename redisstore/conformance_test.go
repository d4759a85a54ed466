package redisstore

import (
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/brimgo/brim/internal/redistest"
	"github.com/brimgo/brim/internal/seed"
	"github.com/brimgo/brim/store"
	"github.com/brimgo/brim/store/storetest"
)

// harness opens stores for the conformance suite.
type harness struct {
	client  func(testing.TB) redis.UniversalClient
	braces  bool // around the prefix: all buckets of a store are in one slot
	change  func(*Options)
	mu      sync.Mutex
	options map[store.Store]Options
	clients map[store.Store]redis.UniversalClient
}

func (h *harness) over(t testing.TB, client redis.UniversalClient, o Options) store.Store {
	t.Helper()
	s, err := New(client, &o)
	must(t, err)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.options[s], h.clients[s] = o, client
	return s
}

func (h *harness) of(s store.Store) (redis.UniversalClient, Options) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.clients[s], h.options[s]
}

func (h *harness) run(t *testing.T, o storetest.Options) {
	h.options, h.clients = make(map[store.Store]Options), make(map[store.Store]redis.UniversalClient)
	client := h.client(t)
	openAt := func(t *testing.T, clock func() time.Time) store.Store {
		o := Options{Prefix: redistest.Prefix(t, client), Clock: clock}
		if h.braces {
			o.Prefix = "{limits}" + o.Prefix
		}
		if h.change != nil {
			h.change(&o)
		}
		return h.over(t, client, o)
	}
	o.OpenAt = openAt
	o.Reopen = func(t *testing.T, s store.Store, clock func() time.Time) store.Store {
		must(t, s.Close())
		client, o := h.of(s)
		o.Clock = clock
		return h.over(t, client, o)
	}
	o.Peer = func(t *testing.T, s store.Store) store.Store {
		client, o := h.of(s)
		return h.over(t, client, o)
	}
	storetest.Run(t, func(t *testing.T) store.Store { return openAt(t, nil) }, &o)
}

func overSingle(t testing.TB) redis.UniversalClient  { return redistest.Client(t) }
func overCluster(t testing.TB) redis.UniversalClient { return redistest.ClusterClient(t) }

// usually returns the numbers of operations and keys for a run that is not for hours.
func usually(operations, keys int) storetest.Options {
	return storetest.Options{Operations: seed.Attempts(operations, 100*operations), Keys: seed.Attempts(keys, 100*keys)}
}

func TestConformance(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		h    *harness
		o    storetest.Options
	}{
		{name: "defaults", h: &harness{client: overSingle}, o: usually(6_000, 1_000)},
		{
			name: "small batches", h: &harness{client: overSingle, change: func(o *Options) { o.BatchSize, o.Lanes = 2, 3 }},
			o: usually(300, 200),
		},
		{
			name: "RESP2",
			h: &harness{client: func(t testing.TB) redis.UniversalClient {
				return redistest.Client(t, func(o *redis.Options) { o.Protocol = 2 })
			}},
			o: usually(300, 200),
		},
		{name: "cluster", h: &harness{client: overCluster, braces: true}, o: usually(500, 300)},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.h.run(t, c.o)
		})
	}
}
