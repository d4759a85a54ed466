package soak

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/brimgo/brim/bolt"
	"github.com/brimgo/brim/internal/pgtest"
	"github.com/brimgo/brim/lease"
	"github.com/brimgo/brim/memory"
	"github.com/brimgo/brim/migrations"
	"github.com/brimgo/brim/postgres"
	"github.com/brimgo/brim/refusals"
	"github.com/brimgo/brim/store"
)

// subject is a store under test.
type subject struct {
	store store.Store
	disk  func(testing.TB) int64 // bytes
	step  int64                  // bytes by which disk may grow at once
	// tidy does the operator's periodic work besides pruning. It may be nil.
	tidy func() error
	// remembers is set if the store must answer some calls from memory: accepted ones and refused
	// ones.
	remembers bool
}

// opener opens a store that uses the clock of w.
type opener func(t *testing.T, w *work) *subject

func noDisk(testing.TB) int64 { return 0 }

// maxSkew is short in real time, so that an empty bucket expires within the minute.
func maxSkew(w *work) time.Duration {
	if w.real {
		return time.Second
	}
	return store.DefaultMaxSkew
}

func inMemory(t *testing.T, w *work) *subject {
	s, err := memory.New(&memory.Options{Clock: w.clock(), MaxSkew: maxSkew(w)})
	if err != nil {
		t.Fatal(err)
	}
	return &subject{store: s, disk: noDisk}
}

// wrapped puts both wrappers that remember buckets in front of a store in memory. Each has room
// for fewer buckets than are in use.
func wrapped(t *testing.T, w *work) *subject {
	// An injected clock advances by 10 ms with each call, so an allotment must last longer than
	// by default.
	l, err := lease.New(inMemory(t, w).store, &lease.Options{Clock: w.clock(), Ahead: time.Second, MaxBuckets: 256})
	if err != nil {
		t.Fatal(err)
	}
	s, err := refusals.New(l, &refusals.Options{Clock: w.clock(), MaxBuckets: 1024})
	if err != nil {
		t.Fatal(err)
	}
	return &subject{store: s, disk: noDisk, remembers: true}
}

// fileStep is the number of bytes by which package bolt grows a file beyond its first mebibyte.
const fileStep = 1 << 20

func inFile(t *testing.T, w *work) *subject {
	path := filepath.Join(t.TempDir(), "limits.db")
	s, err := bolt.Open(path, &bolt.Options{Clock: w.clock(), MaxSkew: maxSkew(w)})
	if err != nil {
		t.Fatal(err)
	}
	return &subject{store: s, disk: sizeOf(path), step: fileStep}
}

func inRelaxedFile(t *testing.T, w *work) *subject {
	path := filepath.Join(t.TempDir(), "limits.db")
	s, err := bolt.OpenRelaxed(path, &bolt.Options{Clock: w.clock(), MaxSkew: maxSkew(w)})
	if err != nil {
		t.Fatal(err)
	}
	return &subject{store: s, disk: sizeOf(path), step: fileStep}
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

func inPostgres(t *testing.T, w *work) *subject {
	pool := pgtest.Pool(t)
	schema := pgtest.Schema(t)
	if err := migrations.Up(t.Context(), pool, &migrations.Options{Schema: schema}); err != nil {
		t.Fatal(err)
	}
	s, err := postgres.New(pool, &postgres.Options{Schema: schema, Clock: w.clock(), MaxSkew: maxSkew(w)})
	if err != nil {
		t.Fatal(err)
	}
	return &subject{
		store: s,
		step:  1 << 18,
		disk: func(t testing.TB) (n int64) {
			const query = `SELECT pg_total_relation_size($1::regclass)`
			if err := pool.QueryRow(t.Context(), query, schema+".buckets").Scan(&n); err != nil {
				t.Fatal(err)
			}
			return n
		},
		// By default, the server itself vacuums once a minute, and the test takes a minute.
		tidy: func() error {
			_, err := pool.Exec(t.Context(), `VACUUM `+schema+`.buckets`)
			return err
		},
	}
}
