package bolt

import (
	"context"

	"github.com/brimgo/brim/store"
)

// Compact rewrites the file without the pages that are no longer used, and returns its size in
// bytes before and after.
//
// The new file is written beside the old file, synced, and renamed over it: a program that is
// killed at any moment finds one of the two, whole. Both are locked meanwhile, so no other
// process can slip in between. Readers go on; writers wait, for about a second per million
// buckets. After an error the old file stays in use, unless the error says otherwise.
//
// A bucket whose record is damaged stays as it is, and stays damaged.
//
// A store over an application's database cannot be compacted: the error is
// [errors.ErrUnsupported]. Windows does not rename over an open file: the error is
// [store.ErrMisconfigured].
func (s *Store) Compact(ctx context.Context) (before, after int64, err error) {
	if err = s.check(ctx); err == nil {
		before, after, err = s.db.Compact(ctx)
	}
	return before, after, store.Wrap(backend, "compact", err)
}

// Verify reads all buckets as of the newest commit, and compares every checksum and the checksum
// of all buckets together. Of a file that was opened by [Open] it checks every page, too. It
// returns nil, or an error that is [store.ErrCorrupt]: the number of damaged buckets, or the first
// damage that is worse. The command "brim verify" names all of them.
//
// Verify takes about as long as [Open]. Other callers go on meanwhile, but the file cannot grow
// until it returns.
func (s *Store) Verify(ctx context.Context) error {
	err := s.check(ctx)
	if err == nil {
		err = s.db.Verify(ctx)
	}
	return store.Wrap(backend, "verify", err)
}

// Size returns the bytes of the file and of the journal beside it. The file of an application's
// database (see [New]) counts whole.
func (s *Store) Size(ctx context.Context) (size int64, err error) {
	if err = s.check(ctx); err == nil {
		size, err = s.db.Size()
	}
	return size, store.Wrap(backend, "size", err)
}
