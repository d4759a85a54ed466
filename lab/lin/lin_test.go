package lin

import (
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/brimgo/brim/internal/pgtest"
	"github.com/brimgo/brim/internal/redistest"
	"github.com/brimgo/brim/lab/internal/child"
	"github.com/brimgo/brim/lab/internal/harness"
	"github.com/brimgo/brim/migrations"
)

func TestMain(m *testing.M) {
	child.Serve(works())
	pgtest.Main(redistest.With(m))
}

// lazily returns a function that opens a server when it is first needed. A failed test leaves it
// closed.
func lazily[T any](open func() *T) func() *T {
	var mu sync.Mutex
	var opened *T
	return func() *T {
		mu.Lock()
		defer mu.Unlock()
		if opened == nil {
			opened = open()
		}
		return opened
	}
}

// newPlace returns a migrated schema of t's own, which is made when it is first needed.
func newPlace(t *testing.T, clocked bool) func() *place {
	return lazily(func() *place {
		at := &place{url: pgtest.URL(t), schema: pgtest.Schema(t), direct: pgtest.Pool(t), clocked: clocked}
		return at.migrated(t)
	})
}

// newServerPlace returns a migrated schema on a server of t's own, for faults of the server.
func newServerPlace(t *testing.T, settings string, timeout time.Duration, faults []fault) func() *place {
	return lazily(func() *place {
		// A server that has crashed syncs its whole directory before it recovers: in one call,
		// which takes a tenth of the time of one for each file.
		s := pgtest.NewServer(t, "recovery_init_sync_method=syncfs")
		at := &place{url: s.URL(), direct: s.Pool(t), schema: "brim", server: s, settings: settings, timeout: timeout, faults: faults}
		return at.migrated(t)
	})
}

func (p *place) migrated(t *testing.T) *place {
	t.Helper()
	p.free = make(map[kind][]*line)
	if err := migrations.Up(t.Context(), p.direct, &migrations.Options{Schema: p.schema}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.close)
	return p
}

// newKeyspace returns a Redis of t's own, which may forget its scripts.
func newKeyspace(t *testing.T) func() *keyspace {
	return lazily(func() *keyspace {
		s := redistest.NewServer(t)
		c := s.Client(t)
		return &keyspace{
			url: s.URL(), servers: []*redis.Client{c}, direct: c, patient: time.Minute, faults: cutsOfRedis, strikes: cuts,
		}
	})
}

// subjects returns every backend of package store and package spend, and the wrappers.
func subjects(t *testing.T) []subject {
	at, clocked, in := newPlace(t, false), newPlace(t, true), newKeyspace(t)
	crashed, stopped := newServerPlace(t, "", 0, crashes), newServerPlace(t, "", hasty, stops)
	var crashing, stopping sync.Mutex
	return []subject{
		{name: "memory", open: inMemory},
		{name: "bolt", open: inFile(Setting{Segment: segment})},
		{name: "bolt without a journal", open: inFile(Setting{})},
		{name: "bolt with SyncEvery", open: inFile(Setting{Segment: segment, SyncEvery: time.Millisecond})},
		{name: "sqlite", open: inFile(Setting{SQLite: true})},
		{name: "postgres", open: inPostgres(at, nil), abreast: abreast},
		{name: "postgres, clocked", open: inPostgres(clocked, nil), abreast: abreast},
		{name: "redis", open: inRedis(in, nil), abreast: abreast},
		{name: "refusals-memory", open: refusalsInMemory},
		{name: "refusals-postgres", open: inPostgres(at, refusalsOnServer), abreast: abreast},
		{name: "refusals-redis", open: inRedis(in, refusalsOnServer), abreast: abreast},
		{name: "memledger", open: inMemledger},
		{name: "boltledger", open: ledgerInFile(Setting{Segment: segment})},
		{name: "sqliteledger", open: ledgerInFile(Setting{SQLite: true})},
		{name: "pgledger", open: inPgledger(at, nil), abreast: abreast},
		{name: "redis, kills", open: inRedis(newLone(t, always...), nil)},
		{name: "redis, fail-overs", open: inRedis(newPair(t, 1, failOver), nil)},
		{name: "redis, stopped primaries", open: inRedis(newPair(t, 1, stopPrimary), nil)},
		{name: "redis cluster", open: inRedis(newCluster(t, reshard, reshard, handOver, killPrimary), nil)},
		{name: "postgres, crashes", open: inPostgres(crashed, nil), alone: &crashing},
		{name: "pgledger, crashes", open: inPgledger(crashed, nil), alone: &crashing},
		{name: "postgres, stops", open: inPostgres(stopped, nil), alone: &stopping},
		{name: "pgledger, stops", open: inPgledger(stopped, nil), alone: &stopping},
	}
}

// TestLin checks histories of every backend.
func TestLin(t *testing.T) {
	seed, err := harness.NewSeed()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range subjects(t) {
		t.Run(s.name, func(t *testing.T) {
			parallelByDay(t)
			testLin(t, seed, s)
		})
	}
}

// parallelByDay runs t beside other tests, which wait for their servers as it does. At night,
// servers under faults have the machine for themselves.
func parallelByDay(t *testing.T) {
	if !harness.Night() {
		t.Parallel()
	}
}

func testLin(t *testing.T, seed harness.Seed, s subject) {
	meter := harness.Pick(t, harness.Budget{Count: 1000, Time: 800 * time.Millisecond}).Start()
	r := s.run(seed, meter)
	if r.err != nil {
		t.Fatalf("%v\nrepeat: %s", r.err, repeat(r.part, s.name))
	}
	if r.f != nil {
		short := shrinkPlan(s, r.part, r.f, 30*time.Second).shrink()
		t.Errorf("%s\nrepeat: %s", short.describe(), repeat(r.part, s.name))
	}
	t.Logf("seed %d: %d histories, %d undecided", seed, meter.Done, r.undecided)
	if r.undecided > max(1, meter.Done/50) {
		t.Errorf("%d of %d histories are undecided, want one at most, or 2 %%\nrepeat: %s", r.undecided, meter.Done, repeat(seed, s.name))
	}
}

func repeat(seed harness.Seed, name string) string { return seed.Repeat("lin", "TestLin/^"+name+"$") }
