package sqlite

import (
	"context"
	"os"

	"github.com/brimgo/brim/internal/paging"
	"github.com/brimgo/brim/internal/records"
	"github.com/brimgo/brim/internal/sqliterun"
	"github.com/brimgo/brim/store"
)

// look runs fn on buckets as of the newest commit. One statement reads all of them, so they are of
// one moment.
func (s *Store) look(ctx context.Context, keys []string, fn func(v *view, now int64) error) error {
	return s.run.Read(ctx, func(ctx context.Context) error {
		v := s.view(s.sql.On(ctx, nil))
		if err := v.load(keys); err != nil {
			return err
		}
		return fn(v, s.run.Clock.Now())
	})
}

// ask answers op if the answer changes nothing; otherwise ok is false.
func (s *Store) ask(ctx context.Context, op *store.Op) (st store.State, ok bool, err error) {
	err = s.look(ctx, []string{op.Key}, func(v *view, now int64) (err error) {
		st, ok, err = v.Ask(op, now)
		return err
	})
	return st, ok, err
}

// Read returns states as of the newest commit, of whatever process.
func (s *Store) Read(ctx context.Context, buckets ...store.Bucket) (states []store.State, err error) {
	err = s.look(ctx, records.KeysOfBuckets(buckets), func(v *view, now int64) (err error) {
		states, err = v.States(buckets, now)
		return err
	})
	return states, store.Wrap(backend, "read", err)
}

// Visit visits buckets in byte order of key, a thousand in each statement. See [store.Store].
func (s *Store) Visit(ctx context.Context, prefix string, f func(store.Entry) bool) error {
	err := paging.Visit(func(after string, limit int) (entries []store.Entry, err error) {
		err = s.run.Read(ctx, func(ctx context.Context) (err error) {
			entries, err = page(&s.view(s.sql.On(ctx, nil)).View, prefix, after, limit, s.run.Clock.Now())
			return err
		})
		return entries, err
	}, f)
	return store.Wrap(backend, "visit", err)
}

// page lists intact buckets. The error tells the number of damaged buckets among them.
func page(v *records.View, prefix, after string, limit int, now int64) ([]store.Entry, error) {
	entries, damaged, err := v.Page(prefix, after, limit, now)
	if err == nil && damaged > 0 {
		err = sqliterun.Damagef("buckets left out because their rows are damaged: %d; Reset makes them empty and usable again", damaged)
	}
	return entries, err
}

// Size returns the bytes of the whole database and its log: SQLite does not tell those of a table
// without reading it.
func (s *Store) Size(ctx context.Context) (n int64, err error) {
	err = s.run.Read(ctx, func(ctx context.Context) error {
		return s.db.QueryRowContext(ctx, sizeOf).Scan(&n)
	})
	if err == nil {
		if is, err := os.Stat(s.run.File() + "-wal"); err == nil {
			n += is.Size()
		}
	}
	return n, store.Wrap(backend, "size", err)
}

const sizeOf = `SELECT page_count * page_size FROM pragma_page_count, pragma_page_size`
