package soak

import (
	"context"
	"database/sql"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	_ "modernc.org/sqlite"

	"github.com/brimgo/brim/bolt"
	"github.com/brimgo/brim/internal/redistest"
	"github.com/brimgo/brim/lab/internal/pgstore"
	"github.com/brimgo/brim/local"
	"github.com/brimgo/brim/memory"
	"github.com/brimgo/brim/postgres"
	"github.com/brimgo/brim/redisstore"
	"github.com/brimgo/brim/sqlite"
	"github.com/brimgo/brim/store"
)

// subject is a store under test, or something over a store.
type subject struct {
	store store.Store
	duty  duty                   // nil: calls on the buckets of the store
	disk  func(testing.TB) int64 // bytes: of files, or of the memory of a server that keeps all there
	step  int64                  // bytes by which disk may grow at once
	// tidy does the operator's periodic work besides pruning. It may be nil.
	tidy func() error
	// drain waits for the work that the store does in the background, so that a sample does not
	// depend on when it was taken. It may be nil.
	drain func(context.Context) error
	// leases is set if the store must accept some calls from memory, and refuses if it must refuse
	// some from memory.
	leases, refuses bool
	// expired returns the number of buckets that the server has removed by itself. It may be nil.
	expired func(testing.TB) int64
	// connections returns the number of connections to a server. It may be nil.
	connections func() int
	// recent is set if the subject keeps all calls of the last seconds. A machine that has more
	// time for it then has it keep more.
	recent bool
}

// faster returns how many times as much a subject must keep in the last third of a run as in the
// second, because it had more calls in a round.
func (s *subject) faster(second, last sample) float64 {
	if !s.recent || last.Calls <= second.Calls {
		return 1
	}
	return float64(last.Calls) / float64(second.Calls)
}

type opener func(t *testing.T, w *work) *subject

func noDisk(testing.TB) int64 { return 0 }

// maxSkew is so short that an empty bucket expires within the minute.
const maxSkew = time.Second

func inMemory(*testing.T, *work) *subject {
	return &subject{store: memory.New(&memory.Options{MaxSkew: maxSkew}), disk: noDisk}
}

// wrapped puts both wrappers that remember buckets in front of a store in memory. Each has room
// for fewer buckets than are in use.
func wrapped(t *testing.T, w *work) *subject {
	return &subject{store: refusalsOver(t, leasesOver(t, w)), disk: noDisk, leases: true, refuses: true}
}

func leased(t *testing.T, w *work) *subject {
	return &subject{store: leasesOver(t, w), disk: noDisk, leases: true}
}

func refusing(t *testing.T, w *work) *subject {
	return &subject{store: refusalsOver(t, inMemory(t, w).store), disk: noDisk, refuses: true}
}

func leasesOver(t *testing.T, w *work) store.Store {
	l, err := local.Leases(inMemory(t, w).store, &local.LeasesOptions{Ahead: time.Second, MaxBuckets: 256})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func refusalsOver(t *testing.T, below store.Store) store.Store {
	s, err := local.Refusals(below, &local.RefusalsOptions{MaxBuckets: 1024})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// fileStep is the number of bytes by which package bolt grows a file beyond its first mebibyte.
const fileStep = 1 << 20

func inFile(t *testing.T, _ *work) *subject { return fileOf(t, &bolt.Options{MaxSkew: maxSkew}) }

// lazily syncs the journal at an interval.
func lazily(t *testing.T, _ *work) *subject {
	return fileOf(t, &bolt.Options{MaxSkew: maxSkew, SyncEvery: 100 * time.Millisecond})
}

func fileOf(t *testing.T, o *bolt.Options) *subject {
	path := filepath.Join(t.TempDir(), "limits.db")
	s, err := bolt.Open(path, o)
	if err != nil {
		t.Fatal(err)
	}
	// A checkpoint holds the pages that it writes.
	drain := func(ctx context.Context) error {
		return s.Visit(ctx, "", func(store.Entry) bool { return false })
	}
	return &subject{store: s, disk: sizeOf(path), step: fileStep, drain: drain}
}

func sizeOf(path string) func(testing.TB) int64 {
	return func(t testing.TB) int64 {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		return info.Size()
	}
}

// inSQLite opens a database as docs/sqlite.md has it. Its size is that of the log, too, which
// SQLite writes again from its beginning after a checkpoint.
func inSQLite(t *testing.T, _ *work) *subject {
	path := filepath.Join(t.TempDir(), "app.db")
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=journal_mode(WAL)&_pragma=busy_timeout(5000)&_pragma=synchronous(FULL)")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	s, err := sqlite.New(t.Context(), db, &sqlite.Options{MaxSkew: maxSkew})
	if err != nil {
		t.Fatal(err)
	}
	file, log := sizeOf(path), sizeOf(path+"-wal")
	return &subject{
		store:       s,
		step:        fileStep,
		connections: func() int { return db.Stats().OpenConnections },
		disk:        func(t testing.TB) int64 { return file(t) + log(t) },
	}
}

func inPostgres(t *testing.T, _ *work) *subject {
	pool, s := pgstore.New(t, postgres.Options{MaxSkew: maxSkew})
	tables := tablesOf(t, pool)
	return &subject{
		store:       s,
		step:        1 << 18,
		connections: func() int { return int(pool.Stat().TotalConns()) },
		disk:        func(t testing.TB) int64 { return sizeOfTables(t, pool) },
		// By default, the server itself vacuums once a minute, and the test takes a minute.
		tidy: func() error {
			_, err := pool.Exec(t.Context(), `VACUUM `+tables)
			return err
		},
	}
}

// memoryStep is the number of bytes by which the buffers of a Redis's connections may grow.
const memoryStep = 1 << 20

func inRedis(t *testing.T, _ *work) *subject {
	client := redistest.NewServer(t).Client(t)
	s, err := redisstore.New(client, &redisstore.Options{MaxSkew: maxSkew})
	if err != nil {
		t.Fatal(err)
	}
	info := func(t testing.TB, section, name string) int64 {
		all, err := client.InfoMap(t.Context(), section).Result()
		if err != nil {
			t.Fatal(err)
		}
		n, err := strconv.ParseInt(all[section][name], 10, 64)
		if err != nil {
			t.Fatalf("%s of the server: %v", name, err)
		}
		return n
	}
	return &subject{
		store:       s,
		step:        memoryStep,
		connections: func() int { return int(client.PoolStats().TotalConns) },
		disk:        func(t testing.TB) int64 { return info(t, "Memory", "used_memory") },
		expired:     func(t testing.TB) int64 { return info(t, "Stats", "expired_keys") },
	}
}

// tablesOf returns the tables of the pool's schema, separated by commas.
func tablesOf(t *testing.T, pool *pgxpool.Pool) (list string) {
	t.Helper()
	const query = `SELECT string_agg(quote_ident(tablename), ', ') FROM pg_tables WHERE schemaname = current_schema()`
	if err := pool.QueryRow(t.Context(), query).Scan(&list); err != nil {
		t.Fatal(err)
	}
	return list
}

// sizeOfTables returns the bytes of these tables, with their indexes. It does not use the
// pool's QueryRow: each row that this method returned keeps its block of 128 connections of pgxpool
// alive, so the heap would grow with the samples.
func sizeOfTables(t testing.TB, pool *pgxpool.Pool) (n int64) {
	t.Helper()
	const query = `SELECT sum(pg_total_relation_size(quote_ident(tablename)::regclass))::bigint
FROM pg_tables WHERE schemaname = current_schema()`
	err := pool.AcquireFunc(t.Context(), func(c *pgxpool.Conn) error {
		return c.QueryRow(t.Context(), query).Scan(&n)
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}
