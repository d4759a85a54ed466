package bench

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"time"

	"go.etcd.io/bbolt"

	"github.com/brimgo/brim/store"
)

// rowSize is the size in bytes of a row of the reference. It has room for a level, a time and a
// limit, like a bucket.
const rowSize = 48

// BoltReference returns a reference that makes one bbolt transaction per decision, as a program
// without brim would. It creates a new file in dir with one row per key. Close removes the file.
func BoltReference(ctx context.Context, dir string, keys int) (_ *Reference, err error) {
	f, err := os.CreateTemp(dir, "brim-bench-*.db")
	if err != nil {
		return nil, err
	}
	path := f.Name()
	remove := func() error { return os.Remove(path) }
	if err := f.Close(); err != nil {
		return nil, errors.Join(err, remove())
	}
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{Timeout: time.Second})
	if err != nil {
		return nil, errors.Join(err, remove())
	}
	end := func() error { return errors.Join(db.Close(), remove()) }
	name := []byte("rows")
	for first := 0; first < keys && err == nil; first += batch {
		if err = ctx.Err(); err != nil {
			break
		}
		err = db.Update(func(tx *bbolt.Tx) error {
			rows, err := tx.CreateBucketIfNotExists(name)
			for key := first; key < min(first+batch, keys) && err == nil; key++ {
				err = rows.Put(rowKey(key), make([]byte, rowSize))
			}
			return err
		})
	}
	if err != nil {
		return nil, errors.Join(err, end())
	}
	return &Reference{
		Close: end,
		Decide: func(ctx context.Context, key int) error {
			if err := ctx.Err(); err != nil {
				return err
			}
			return db.Update(func(tx *bbolt.Tx) error {
				rows, now := tx.Bucket(name), time.Now().UnixMicro()
				return rows.Put(rowKey(key), fillRow(rows.Get(rowKey(key)), now))
			})
		},
	}, nil
}

// fillRow returns a row whose level has leaked until now, and then got one unit more.
func fillRow(row []byte, now int64) []byte {
	r := store.Record{
		Level: math.Float64frombits(binary.LittleEndian.Uint64(row)),
		Time:  int64(binary.LittleEndian.Uint64(row[8:])),
		Limit: limit,
	}
	level := r.LevelAt(now) + 1
	next := make([]byte, rowSize)
	binary.LittleEndian.PutUint64(next, math.Float64bits(level))
	binary.LittleEndian.PutUint64(next[8:], uint64(now))
	return next
}

func rowKey(key int) []byte { return fmt.Appendf(nil, "%010d", key) }
