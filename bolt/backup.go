package bolt

import (
	"context"
	"io"

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
	var snapshot *boltfile.Snapshot
	err := s.check(ctx)
	if err == nil {
		snapshot, err = s.db.Snapshot(ctx)
	}
	if err != nil {
		return 0, store.Wrap(backend, "backup", err)
	}
	n, err := snapshot.Backup(ctx, w, s.db.DropWatermark)
	return n, store.Wrap(backend, "backup", boltfile.WithRemedy(err, boltfile.Restore))
}
