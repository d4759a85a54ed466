package postgres_test

import (
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/brimgo/brim/internal/pgtest"
	"github.com/brimgo/brim/internal/seed"
	"github.com/brimgo/brim/postgres"
	"github.com/brimgo/brim/store"
	"github.com/brimgo/brim/store/storetest"
)

// harness opens stores for the conformance suite. The stores of all tests share a pool, and peers
// another, because a connection costs a server more than most tests do.
type harness struct {
	settings string // of the connection string
	parts    int    // the table is partitioned into so many, if not 0
	sql      bool   // calls go through the functions in SQL that there is one for
	mu       sync.Mutex
	schemas  map[store.Store]string
}

func (h *harness) over(t testing.TB, pool *pgxpool.Pool, schema string, clock func() time.Time) (s store.Store) {
	t.Helper()
	s = over(t, pool, postgres.Options{Schema: schema, Clock: clock})
	if h.sql {
		s = &functions{Store: s, pool: pool, schema: schema, clock: clock}
	}
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

func (h *harness) run(t *testing.T, o storetest.Options) {
	h.schemas = make(map[store.Store]string)
	url := pgtest.With(t, "pool_max_conns=16&"+h.settings)
	pool, peers := pgtest.PoolAt(t, url), pgtest.PoolAt(t, url)
	openAt := func(t *testing.T, clock func() time.Time) store.Store {
		schema := migrated(t)
		if h.parts > 0 {
			partition(t, pool, schema, h.parts)
		}
		return h.over(t, pool, schema, clock)
	}
	o.OpenAt = openAt
	o.Reopen = func(t *testing.T, s store.Store, clock func() time.Time) store.Store {
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		return h.over(t, pool, h.schema(s), clock)
	}
	o.Peer = func(t *testing.T, s store.Store) store.Store { return h.over(t, peers, h.schema(s), nil) }
	storetest.Run(t, func(t *testing.T) store.Store { return openAt(t, nil) }, &o)
}

// quick leaves out the wait for the disk, on which no answer depends.
const quick = "synchronous_commit=off"

func TestConformance(t *testing.T) {
	t.Parallel()
	some := storetest.Options{Operations: seed.Attempts(300, 20_000), Keys: 200}
	hostile := pgtest.Hostile(t)
	for _, c := range []struct {
		name, settings string
		o              storetest.Options
		parts          int
		sql            bool
	}{
		{name: "defaults", settings: quick, o: storetest.Options{Operations: seed.Attempts(1_000, 1_000_000), Keys: seed.Attempts(1_000, 1_000_000)}},
		// With another default isolation of the session, a decision must not come from an old
		// snapshot, and must not fail. Whatever the isolation, the statements are the same, so
		// operators and functions of others stand in their way here as well.
		{
			name:     "serializable, hostile search_path",
			settings: "default_transaction_isolation=serializable&search_path=" + hostile + "&" + quick, o: some,
		},
		// The mode exec is for a pooler without prepared statements.
		{
			name:     "repeatable read, exec mode, partitioned",
			settings: "default_transaction_isolation=repeatable%20read&default_query_exec_mode=exec&" + quick, o: some, parts: 3,
		},
		// A session in any language. Calls for which there is no function go to the Go store, on
		// the same rows.
		{
			name: "functions, hostile search_path", settings: "search_path=" + hostile + "&" + quick, sql: true,
			o: storetest.Options{Operations: seed.Attempts(5_000, 1_000_000), Keys: 200},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			(&harness{settings: c.settings, parts: c.parts, sql: c.sql}).run(t, c.o)
		})
	}
}
