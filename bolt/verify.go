package bolt

import (
	"bytes"
	"context"
	"os"
	"runtime/debug"

	"go.etcd.io/bbolt"

	"github.com/brimgo/brim/store"
)

// Verify reads all buckets as of the newest commit and compares every checksum, and that of all of them together; of a file
// that was opened by [Open] it checks every page too. It returns nil or the first damage that it found, which is
// [store.ErrCorrupt].
//
// It takes about as long as [Open]. Other callers go on meanwhile, but the file cannot grow until it is done.
func (s *Store) Verify(ctx context.Context) error {
	return store.Wrap(backend, "verify", s.verify(ctx))
}

func (s *Store) verify(ctx context.Context) error {
	if err := s.check(ctx); err != nil {
		return err
	}
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	// The writer's token comes before mu, always.
	if err := s.lock(ctx); err != nil {
		return err
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	tx, meta, err := s.snapshot()
	<-s.writer
	if err != nil {
		return err
	}
	defer s.rollback(tx)
	c := census{layout: s.layout}
	err = guard(func() error {
		if s.owned {
			return (&walker{ctx: ctx, r: s.file, meta: meta, visit: c.visit}).walk()
		}
		return s.visitRecords(ctx, tx, c.visit)
	})
	if err == nil {
		err = c.err()
	}
	if isPanic(err) {
		return s.damaged(err)
	}
	return err
}

// snapshot begins a read transaction, and returns the meta page that it goes by: while the transaction lasts, none of that
// page's pages is written to. Whoever calls holds the writer's token, so that nobody commits between the two.
func (s *Store) snapshot() (tx *bbolt.Tx, meta fileMeta, err error) {
	if s.closed.Load() {
		return nil, meta, store.ErrClosed
	}
	if err := s.usable(); err != nil {
		return nil, meta, err
	}
	if s.owned {
		info, err := s.file.Stat()
		if err != nil {
			return nil, meta, fileError(err)
		}
		if meta, err = readMetas(s.file, info.Size()); err != nil {
			return nil, meta, err
		}
	}
	tx, err = s.begin(false)
	return tx, meta, err
}

func (s *Store) visitRecords(ctx context.Context, tx *bbolt.Tx, visit func(bucket, key, value []byte)) error {
	records, meta, _, err := s.layout.open(tx)
	if err != nil {
		return err
	}
	for _, key := range [][]byte{formatKey, totalsKey} {
		visit(s.layout.meta, key, meta.Get(key))
	}
	var last []byte
	c := records.Cursor()
	for key, value := c.First(); key != nil; key, value = c.Next() {
		if bytes.Compare(last, key) >= 0 {
			return damagef("keys are out of order")
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		visit(s.layout.records, key, value)
		last = key
	}
	return nil
}

// verifyFile checks the file before it is used.
func (s *Store) verifyFile() error {
	info, err := s.file.Stat()
	if err != nil {
		return fileError(err)
	}
	return verifyPages(s.file, info, s.layout, s.options.NoVerify)
}

// verifyPages checks a file that nobody writes to: its meta pages, and unless those will do, everything else.
func verifyPages(file *os.File, info os.FileInfo, l layout, metasOnly bool) error {
	meta, err := readMetas(file, info.Size())
	if err != nil || metasOnly {
		return err
	}
	c := census{layout: l}
	if err := (&walker{ctx: context.Background(), r: file, meta: meta, visit: c.visit}).walk(); err != nil {
		return err
	}
	return c.err()
}

// census counts the records and compares them with the totals.
type census struct {
	layout         layout
	found          totals
	format, totals []byte
	damage         error // of the first record that is damaged
}

func (c *census) visit(bucket, key, value []byte) {
	switch {
	case bytes.Equal(bucket, c.layout.records):
		_, sum, err := decodeRecord(key, value)
		if err != nil && c.damage == nil {
			c.damage = err
		}
		c.found.add(sum)
	case bytes.Equal(bucket, c.layout.meta) && bytes.Equal(key, formatKey):
		c.format = bytes.Clone(value)
	case bytes.Equal(bucket, c.layout.meta) && bytes.Equal(key, totalsKey):
		c.totals = bytes.Clone(value)
	}
}

// err is what is wrong. A newer format comes first: it explains everything else.
func (c *census) err() error {
	if c.format == nil {
		return damagef("it is a bbolt file, but not one of brim's, or its bucket %q is missing; "+
			"to add buckets to an application's database use New", c.layout.meta)
	}
	if err := checkFormat(c.format); err != nil {
		return err
	}
	if c.damage != nil {
		return c.damage
	}
	t, err := decodeTotals(c.totals)
	if err != nil {
		return err
	}
	if t.count != c.found.count || t.sum != c.found.sum {
		return damagef("%d buckets were found where %d with other contents belong", c.found.count, t.count)
	}
	return nil
}
