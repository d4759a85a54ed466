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

// subject is a store that is soaked.
type subject struct {
	store store.Store
	disk  func(testing.TB) int64 // bytes
	step  int64                  // by how much at once disk may grow
	// tidy is what an operator does now and then besides pruning; nil is nothing.
	tidy func() error
	// remembers says that some calls, of the accepted and of the refused, have to be answered from memory.
	remembers bool
}

// opener opens a store by the clock of w.
type opener func(t *testing.T, w *work) *subject

func noDisk(testing.TB) int64 { return 0 }

// maxSkew is so short in real time that a bucket that is empty expires within the minute.
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

// wrapped has all wrappers that remember something, with less room than there are buckets.
func wrapped(t *testing.T, w *work) *subject {
	// As long as an injected clock lets a caller wait: it goes on by some milliseconds with each call.
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

// fileStep is by how much package bolt has a file grow beyond its first mebibyte.
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
	s, err := bolt.OpenRelaxed(path, &bolt.Options{Clock: w.clock(), MaxSkew: maxSkew(w)}, nil)
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
			if err := pool.QueryRow(t.Context(), `SELECT pg_total_relation_size('`+schema+`.buckets')`).Scan(&n); err != nil {
				t.Fatal(err)
			}
			return n
		},
		// The server's own vacuum comes once a minute, which is as long as all of this takes.
		tidy: func() error {
			_, err := pool.Exec(t.Context(), `VACUUM `+schema+`.buckets`)
			return err
		},
	}
}
