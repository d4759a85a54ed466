package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"go.etcd.io/bbolt"

	"github.com/brimgo/brim/internal/durable"
)

// rowSize is the size in bytes of a reference's row in bbolt. It has room for a level, a time and
// a limit, like a bucket.
const rowSize = 48

// references returns the cheapest durable change that each backend can make for a decision, and
// operations that do even less. References accept every call.
func references() []*subject {
	return []*subject{
		{
			name:    "db.Update",
			group:   reference,
			keeps:   "bbolt file, one transaction per decision",
			against: "db.Update",
			open:    openUpdates,
		},
		{
			name:    "bare UPDATE",
			group:   reference,
			keeps:   "PostgreSQL, one row per decision",
			against: "bare UPDATE",
			server:  postgresServer,
			open:    openUpdate,
		},
		{
			name: "SELECT 1", group: reference, keeps: "PostgreSQL, nothing: a round trip",
			against: "bare UPDATE", server: postgresServer,
			open: func(_ context.Context, e *env) (*target, error) {
				return &target{
					decide: func(ctx context.Context, _ int, _ bool) (bool, error) {
						var one int
						err := e.pool.QueryRow(ctx, "SELECT 1").Scan(&one)
						return err == nil, err
					},
					cannotRefuse: true, written: e.logged, close: func() error { return nil },
				}, nil
			},
		},
		{
			name:    "fdatasync",
			group:   reference,
			keeps:   "file, 64 bytes overwritten and synced per decision",
			against: "db.Update",
			open:    openFdatasync,
		},
	}
}

func openUpdates(ctx context.Context, e *env) (*target, error) {
	db, err := bbolt.Open(filepath.Join(e.dir, "updates.db"), 0o600, &bbolt.Options{Timeout: time.Second})
	if err != nil {
		return nil, err
	}
	name := []byte("rows")
	// bbolt splits pages when it commits. In one transaction all rows would go to one page, and an
	// insert there takes time in proportion to the number of rows.
	for keys := range slices.Chunk(e.keys, 10_000) {
		err := ctx.Err()
		if err == nil {
			err = db.Update(func(tx *bbolt.Tx) error {
				rows, err := tx.CreateBucketIfNotExists(name)
				for i := 0; i < len(keys) && err == nil; i++ {
					err = rows.Put([]byte(keys[i]), make([]byte, rowSize))
				}
				return err
			})
		}
		if err != nil {
			return nil, errors.Join(err, db.Close())
		}
	}
	return &target{
		decide: func(_ context.Context, key int, _ bool) (bool, error) {
			err := db.Update(func(tx *bbolt.Tx) error {
				rows, key, row := tx.Bucket(name), []byte(e.keys[key]), make([]byte, rowSize)
				copy(row, rows.Get(key))
				binary.LittleEndian.PutUint64(row, binary.LittleEndian.Uint64(row)+1)
				binary.LittleEndian.PutUint64(row[8:], uint64(time.Now().UnixMicro()))
				return rows.Put(key, row)
			})
			return err == nil, err
		},
		cannotRefuse: true, close: db.Close,
	}, nil
}

func openUpdate(ctx context.Context, e *env) (*target, error) {
	// The columns and the fill factor are those of brim's table.
	for _, sql := range []string{
		`CREATE TABLE reference (
			level float8 NOT NULL, atime timestamptz NOT NULL, pre float8 NOT NULL, held float8 NOT NULL,
			capacity float8 NOT NULL, leak_rate float8 NOT NULL, blocked_until timestamptz,
			key text COLLATE "C" PRIMARY KEY) WITH (fillfactor = 85)`,
		fmt.Sprintf(`INSERT INTO reference
			SELECT 0, now(), 0, 0, 1e9, 1, NULL, 'tenant:' || i FROM generate_series(0, %d) i ORDER BY random()`, keyCount-1),
		`VACUUM ANALYZE reference`,
	} {
		if _, err := e.pool.Exec(ctx, sql); err != nil {
			return nil, err
		}
	}
	return &target{
		decide: func(ctx context.Context, key int, _ bool) (bool, error) {
			tag, err := e.pool.Exec(ctx, `UPDATE reference SET level = level + $2 WHERE key = $1`, e.keys[key], 1.0)
			if err == nil && tag.RowsAffected() != 1 {
				err = fmt.Errorf("%d rows updated, want 1", tag.RowsAffected())
			}
			return err == nil, err
		},
		cannotRefuse: true, written: e.logged, close: func() error { return nil },
	}, nil
}

// openFdatasync opens the least that makes a decision durable: the write of 64 bytes to a place
// that was written before, and one fdatasync. On other systems than Linux it is an fsync.
func openFdatasync(_ context.Context, e *env) (*target, error) {
	f, err := os.Create(filepath.Join(e.dir, "fdatasync"))
	if err != nil {
		return nil, err
	}
	var mu sync.Mutex
	row := make([]byte, 64)
	write := func() error {
		mu.Lock()
		defer mu.Unlock()
		if _, err := f.WriteAt(row, 0); err != nil {
			return err
		}
		return durable.Data(f)
	}
	if err := write(); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &target{
		decide: func(context.Context, int, bool) (bool, error) {
			err := write()
			return err == nil, err
		},
		cannotRefuse: true, close: f.Close,
	}, nil
}
