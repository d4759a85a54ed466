package lin

import (
	"testing"
	"time"

	"github.com/brimgo/brim/internal/pgtest"
	"github.com/brimgo/brim/internal/redistest"
	"github.com/brimgo/brim/lab/internal/attack"
	"github.com/brimgo/brim/migrations"
)

func TestMain(m *testing.M) {
	ServeAsChild()
	pgtest.Main(redistest.With(m))
}

// newPlace returns a migrated schema of t's own.
func newPlace(t *testing.T) *place {
	t.Helper()
	at := &place{url: pgtest.URL(t), schema: pgtest.Schema(t), direct: pgtest.Pool(t)}
	if err := migrations.Up(t.Context(), at.direct, &migrations.Options{Schema: at.schema}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(at.close)
	return at
}

// newKeyspace returns a Redis of t's own, which may forget its scripts.
func newKeyspace(t *testing.T) *keyspace {
	t.Helper()
	return &keyspace{direct: redistest.NewServer(t).Client(t)}
}

// subjects returns every backend of package store and package spend, and the wrappers.
func subjects(t *testing.T) []subject {
	at, in := newPlace(t), newKeyspace(t)
	return []subject{
		{name: "memory", open: inMemory},
		{name: "bolt", open: inBolt("", region)},
		{name: "bolt without a journal", open: inBolt("", 0)},
		{name: "relaxed", open: inRelaxed("")},
		{name: "postgres", open: inPostgres(at, nil), abreast: abreast},
		{name: "redis", open: inRedis(in, nil), abreast: abreast},
		{name: "refusals-memory", open: refusalsInMemory},
		{name: "refusals-postgres", open: inPostgres(at, refusalsOnServer), abreast: abreast},
		{name: "refusals-redis", open: inRedis(in, refusalsOnServer), abreast: abreast},
		{name: "lease", open: leaseInMemory},
		{name: "memledger", open: inMemledger},
		{name: "boltledger", open: inBoltledger},
		{name: "pgledger", open: inPgledger(at), abreast: abreast},
	}
}

// TestLin checks histories of every backend.
func TestLin(t *testing.T) {
	seed, err := attack.NewSeed()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range subjects(t) {
		t.Run(s.name, func(t *testing.T) { testLin(t, seed, s) })
	}
}

func testLin(t *testing.T, seed attack.Seed, s subject) {
	row := attack.Begin(t, "lin", s.name, seed)
	r := s.run(seed, attack.Pick(
		attack.Budget{Count: 1000, Time: 800 * time.Millisecond},
		attack.Budget{Count: 1000, Time: time.Hour},
	).Start())
	if r.err != nil {
		t.Fatalf("%v\nrepeat: %s", r.err, repeat(r.part, s.name))
	}
	row.Often = r.n.String()
	if r.f != nil {
		row.Found = "not linearizable"
		short := shrinkPlan(s, r.part, r.f, 30*time.Second).shrink()
		t.Errorf("%s\nrepeat: %s", short.describe(), repeat(r.part, s.name))
	}
	t.Logf("%v in %v, found: %s; seed %d", r.n, r.meter.Took(), row.Found, seed)
	if r.n.undecided*50 > r.n.histories {
		t.Errorf("%d of %d histories are undecided, want under 2 %%\nrepeat: %s", r.n.undecided, r.n.histories, repeat(seed, s.name))
	}
}

func repeat(seed attack.Seed, name string) string { return seed.Repeat("lin", "TestLin/^"+name+"$") }
