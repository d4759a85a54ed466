package main

import (
	"context"
	"encoding/binary"
	"errors"
	"time"

	"go.etcd.io/bbolt"

	"github.com/brimgo/brim/bolt"
	"github.com/brimgo/brim/internal/boltfile"
	"github.com/brimgo/brim/internal/journal"
	"github.com/brimgo/brim/internal/memtable"
)

// boltJournal is the journal of an open bolt store.
type boltJournal struct {
	s    *bolt.Store
	path string
}

// rotations returns the generation of the journal. Each rotation begins one.
func (j *boltJournal) rotations() (uint64, error) { return journal.Generation(j.path) }

// quiet is the time without a commit after which a store is taken to have nothing more to write.
// It is the pause before a commit, in which the store collects and sorts changes.
const quiet = 50 * time.Millisecond

// settle waits until the store has written a region that is full to the file, and has come to rest.
// The changes in the newest region stay in the journal, as they do in an application, and a later
// turn writes them.
func (j *boltJournal) settle(ctx context.Context) error {
	last, since := 0, time.Now()
	for {
		newest, err := journal.Generation(j.path)
		if err != nil {
			return err
		}
		written, commit, err := j.written(ctx)
		if err != nil {
			return err
		}
		if commit != last {
			last, since = commit, time.Now()
		}
		if written >= newest && time.Since(since) >= quiet {
			return nil
		}
		select {
		case <-time.After(5 * time.Millisecond):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// written waits for the commit under way. It returns the generation up to which the file has all
// changes, as the store notes in it, and the number of the newest commit.
func (j *boltJournal) written(ctx context.Context) (generation uint64, commit int, err error) {
	const noted, end = 17, 25 // offsets of the generation in the note; see package bolt
	file, table := memtable.PartsOf(j.s).File, boltfile.NewTable("brim")
	if err := file.Lock(ctx); err != nil {
		return 0, 0, err
	}
	defer file.Unlock()
	err = file.View(func(tx *bbolt.Tx) error {
		_, meta, err := table.Find(tx)
		if err != nil {
			return err
		}
		body, ok := table.OpenMeta([]byte("journal"), meta.Get([]byte("journal")))
		if !ok || len(body) < end {
			return errors.New("the file does not tell how far it has come with its journal")
		}
		generation, commit = binary.LittleEndian.Uint64(body[noted:end]), tx.ID()
		return nil
	})
	return generation, commit, err
}
