package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"go.etcd.io/bbolt"
)

// rowSize is the size in bytes of a reference's row in bbolt. It has room for a level, a time and
// a limit, like a bucket.
const rowSize = 48

// references returns the cheapest durable change that each backend can make for a decision. They
// accept every call. The last subject counts rows instead, as many programs do.
func references() []*subject {
	return []*subject{
		{name: boltUpdate, group: reference, against: boltUpdate, open: openUpdates},
		{name: updateName, group: reference, against: updateName, server: postgresServer, open: openUpdate},
		{name: "row per request", group: naive, against: updateName, server: postgresServer, table: "requests", open: openRows},
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
	return &target{close: db.Close, roomy: func(_ context.Context, key string) (bool, error) {
		err := db.Update(func(tx *bbolt.Tx) error {
			rows, row := tx.Bucket(name), make([]byte, rowSize)
			copy(row, rows.Get([]byte(key)))
			binary.LittleEndian.PutUint64(row, binary.LittleEndian.Uint64(row)+1)
			binary.LittleEndian.PutUint64(row[8:], uint64(time.Now().UnixMicro()))
			return rows.Put([]byte(key), row)
		})
		return err == nil, err
	}}, nil
}

func openUpdate(ctx context.Context, e *env) (*target, error) {
	// The columns and the fill factor are those of brim's table.
	if err := execute(ctx, e.pool, `CREATE TABLE reference (
			level float8 NOT NULL, atime timestamptz NOT NULL, pre float8 NOT NULL, held float8 NOT NULL,
			capacity float8 NOT NULL, leak_rate float8 NOT NULL, blocked_until timestamptz,
			key text COLLATE "C" PRIMARY KEY) WITH (fillfactor = 85)`,
		fmt.Sprintf(`INSERT INTO reference
			SELECT 0, now(), 0, 0, 1e9, 1, NULL, 'tenant:' || i FROM generate_series(0, %d) i ORDER BY random()`, keyCount-1),
		`VACUUM ANALYZE reference`,
	); err != nil {
		return nil, err
	}
	return e.logs(&target{roomy: func(ctx context.Context, key string) (bool, error) {
		tag, err := e.pool.Exec(ctx, `UPDATE reference SET level = level + $2 WHERE key = $1`, key, 1.0)
		if err == nil && tag.RowsAffected() != 1 {
			err = fmt.Errorf("%d rows updated, want 1", tag.RowsAffected())
		}
		return err == nil, err
	}}, nil)
}

// openRows opens a limiter that inserts a row for each accepted request, and accepts a request if
// fewer rows than the limit lie in the window. The count and the insert are two statements, as in
// most programs. Other callers count between the two, so the limiter admits too many.
func openRows(ctx context.Context, e *env) (*target, error) {
	const count = `SELECT count(*) FROM requests WHERE key = $1 AND at > now() - interval '1 hour'`
	try := func(limit int64) ask {
		return func(ctx context.Context, key string) (bool, error) {
			var n int64
			err := e.pool.QueryRow(ctx, count, key).Scan(&n)
			if err != nil || n >= limit {
				return false, err
			}
			_, err = e.pool.Exec(ctx, `INSERT INTO requests (key) VALUES ($1)`, key)
			return err == nil, err
		}
	}
	return e.logs(&target{roomy: try(roomy), full: try(1), rush: try(rushCapacity)}, execute(ctx, e.pool,
		`CREATE TABLE requests (key text COLLATE "C" NOT NULL, at timestamptz NOT NULL DEFAULT now())`,
		`CREATE INDEX ON requests (key, at)`))
}
