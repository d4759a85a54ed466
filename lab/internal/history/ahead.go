package history

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io/fs"
	"os"

	"go.etcd.io/bbolt"

	"github.com/brimgo/brim/bolt"
	"github.com/brimgo/brim/internal/boltfile"
	"github.com/brimgo/brim/internal/kv"
)

// advance moves the watermark to the end of the log, if the store is [Ahead] and err is nil.
func (d defective) advance(ctx context.Context, err error) error {
	s, ok := d.Backend.(*bolt.Store)
	if err != nil || d.defect != Ahead || !ok {
		return err
	}
	file := kv.Of(s).File()
	log, err := os.ReadFile(file.Path() + kv.LogSuffix)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := file.Lock(ctx); err != nil {
		return err
	}
	defer file.Unlock()
	return file.Update(func(tx *bbolt.Tx) (bool, error) { return moveWatermark(tx, log) })
}

// moveWatermark moves the watermark in the file to the end of the log; docs/internals/files.md
// describes both. changed is false if there is no watermark, or if the file needs no log.
func moveWatermark(tx *bbolt.Tx, log []byte) (changed bool, err error) {
	table, key := boltfile.NewTable("brim"), []byte("journal")
	_, meta, err := table.Find(tx)
	if err != nil {
		return false, err
	}
	watermark := bytes.Clone(meta.Get(key))
	if len(watermark) == 0 || watermark[0] == 0 {
		return false, nil
	}
	le, position := binary.LittleEndian, watermark[17:]
	generation, offset, number := le.Uint64(position), le.Uint64(position[8:]), le.Uint64(position[16:])
	segment := uint64(len(log)-4096) / 2
	// frame returns the size of the frame with that number at an offset, or 0.
	frame := func(generation, offset uint64) uint64 {
		at := 4096 + generation%2*segment + offset
		if offset+36 > segment || le.Uint64(log[at+8:]) != generation || le.Uint64(log[at+16:]) != number {
			return 0
		}
		return (36 + uint64(le.Uint32(log[at+4:])) + 7) &^ 7
	}
	for {
		size := frame(generation, offset)
		if size == 0 {
			if size = frame(generation+1, 0); size == 0 {
				break
			}
			generation, offset = generation+1, 0
		}
		offset, number = offset+size, number+1
	}
	le.PutUint64(position, generation)
	le.PutUint64(position[8:], offset)
	le.PutUint64(position[16:], number)
	table.SealMeta(key, watermark)
	return true, meta.Put(key, watermark)
}
