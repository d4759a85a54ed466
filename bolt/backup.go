package bolt

import (
	"context"
	"io"

	"go.etcd.io/bbolt"

	"github.com/brimgo/brim/internal/boltfile"
	"github.com/brimgo/brim/store"
)

// Backup writes a copy of the file to w, and returns its size in bytes. The copy is a bbolt file
// that needs no journal. It has all decisions that were acknowledged before the call, of later
// transactions each wholly or not at all, and the ledger in the file as well.
//
// The copy is made compact in a temporary file beside the file, and verified there, before w gets
// the first byte. So the file system needs room for it. Callers go on meanwhile, but the file
// cannot grow until the copy is made, which takes about a second per million buckets. A slow w
// delays no other caller.
//
// After an error w may have a part of the copy, which is of no use. A bucket whose record is
// damaged is damaged in the copy, too. Damage that can hide a bucket is [store.ErrCorrupt].
//
// A backup is the remedy for damage: nothing brings back the content of a damaged file. To restore
// it, close the store, move the file and its journal away, and put the copy in the place of the
// file.
//
// A store made by [New] answers [errors.ErrUnsupported]. The application can copy its database with
// bbolt's Tx.WriteTo, because that store has no journal.
func (s *Store) Backup(ctx context.Context, w io.Writer) (int64, error) {
	snapshot, err := s.snapshot(ctx)
	if err != nil {
		return 0, store.Wrap(backend, "backup", err)
	}
	n, err := snapshot.Backup(ctx, w, s.layout.unmark)
	return n, store.Wrap(backend, "backup", boltfile.WithRemedy(err, boltfile.Restore))
}

// snapshot begins a snapshot that has all decisions that were acknowledged before the call.
func (s *Store) snapshot(ctx context.Context) (snapshot *boltfile.Snapshot, err error) {
	if err := s.check(ctx); err != nil {
		return nil, err
	}
	if s.logged == nil {
		return s.file.Snapshot()
	}
	return s.logged.snapshot(ctx)
}

// snapshot begins a snapshot of the file when it has all changes.
func (l *logged) snapshot(ctx context.Context) (*boltfile.Snapshot, error) {
	// The next write may need several commits, with a transaction in two of them.
	if err := l.mem.writing.take(ctx); err != nil {
		return nil, err
	}
	defer l.mem.writing.give()
	if err := l.writeAll(); err != nil {
		return nil, err
	}
	return l.s.file.Snapshot()
}

// unmark removes the mark of the journal from a copy of the file.
func (l layout) unmark(tx *bbolt.Tx) error {
	_, meta, err := l.table.Find(tx)
	if err != nil || meta == nil {
		return err
	}
	return meta.Delete(markKey)
}

// Backup writes all changes to the file, and a copy of it to w: see [Store.Backup].
func (r *Relaxed) Backup(ctx context.Context, w io.Writer) (int64, error) {
	if err := r.Sync(ctx); err != nil {
		return 0, err
	}
	return r.s.Backup(ctx, w)
}
