package history

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io/fs"

	"go.etcd.io/bbolt"

	"github.com/brimgo/brim/bolt"
	"github.com/brimgo/brim/internal/boltfile"
	"github.com/brimgo/brim/internal/journal"
	"github.com/brimgo/brim/internal/memtable"
)

// advance moves the mark to the end of the journal, if the store is [Ahead] and err is nil.
func (d defective) advance(ctx context.Context, err error) error {
	s, ok := d.Backend.(*bolt.Store)
	if err != nil || d.defect != Ahead || !ok {
		return err
	}
	file := memtable.PartsOf(s).File
	log, err := journal.Open(file.Path() + ".journal")
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }()
	if err := file.Lock(ctx); err != nil {
		return err
	}
	defer file.Unlock()
	return file.Update(func(tx *bbolt.Tx) (bool, error) { return moveMark(tx, log) })
}

// moveMark moves the mark in the file to the end of the journal. Generation, offset and number, 8
// bytes each, stand in the mark after a flag and the journal's ID. changed is false if there is no
// mark, or if the file needs no journal.
func moveMark(tx *bbolt.Tx, log *journal.Journal) (changed bool, err error) {
	table, key := boltfile.NewTable("brim"), []byte("journal")
	_, meta, err := table.Find(tx)
	if err != nil {
		return false, err
	}
	mark := bytes.Clone(meta.Get(key))
	if len(mark) == 0 || mark[0] == 0 {
		return false, nil
	}
	position := mark[1+len(journal.ID{}):]
	le := binary.LittleEndian
	p := journal.Position{
		Generation: le.Uint64(position), Offset: int64(le.Uint64(position[8:])), Number: le.Uint64(position[16:]),
	}
	if err := log.Replay(p, func([]byte) error { return nil }); err != nil {
		return false, err
	}
	p = log.End()
	le.PutUint64(position, p.Generation)
	le.PutUint64(position[8:], uint64(p.Offset))
	le.PutUint64(position[16:], p.Number)
	table.SealMeta(key, mark)
	return true, meta.Put(key, mark)
}
