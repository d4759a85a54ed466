package boltfile

import (
	"bytes"
	"context"
	"os"

	"go.etcd.io/bbolt"
)

// Verify checks the newest commit: the content of the layout's buckets, and for a file that was
// opened by [Open] every page of it. It returns nil or the first damage, which is
// [store.ErrCorrupt].
//
// Readers and writers go on meanwhile, but the file cannot grow until Verify returns.
func (f *File) Verify(ctx context.Context) error {
	if err := f.Lock(ctx); err != nil { // before mu, as everywhere
		return err
	}
	f.mu.RLock()
	defer f.mu.RUnlock()
	tx, m, err := f.snapshot()
	f.Unlock()
	if err != nil {
		return err
	}
	defer f.rollback(tx)
	check := f.layout.NewCheck()
	return f.Guard(func() error {
		if f.owned {
			err = (&walker{ctx: ctx, r: f.file, meta: m, visit: check.Visit}).walk()
		} else {
			err = f.visitBuckets(ctx, tx, check.Visit)
		}
		if err != nil {
			return err
		}
		return check.Err()
	})
}

// snapshot begins a read transaction, and returns the meta page that it goes by. Until the
// transaction ends, bbolt does not write to the pages of that meta page. The caller holds the
// lock, so nobody commits between the two.
func (f *File) snapshot() (tx *bbolt.Tx, m meta, err error) {
	if err := f.Usable(); err != nil {
		return nil, m, err
	}
	if f.owned {
		info, err := f.file.Stat()
		if err != nil {
			return nil, m, fileError(err)
		}
		if m, err = readMeta(f.file, info.Size()); err != nil {
			return nil, m, err
		}
	}
	tx, err = f.begin(false)
	return tx, m, err
}

// visitBuckets visits the layout's buckets through bbolt.
func (f *File) visitBuckets(ctx context.Context, tx *bbolt.Tx, visit func(bucket, key, value []byte)) error {
	for _, name := range f.layout.Buckets() {
		b := tx.Bucket(name)
		if b == nil {
			return Damagef("the bucket %q is missing", name)
		}
		var last []byte
		c := b.Cursor()
		for key, value := c.First(); key != nil; key, value = c.Next() {
			if bytes.Compare(last, key) >= 0 {
				return Damagef("keys are out of order")
			}
			if err := ctx.Err(); err != nil {
				return err
			}
			visit(name, key, value)
			last = key
		}
	}
	return nil
}

// verifyFile checks the file before bbolt opens it.
func (f *File) verifyFile() error {
	info, err := f.file.Stat()
	if err != nil {
		return fileError(err)
	}
	return verifyPages(context.Background(), f.file, info, f.layout, f.options.NoVerify)
}

// verifyPages checks a file that nobody writes to: its meta pages, and unless metaOnly all other
// pages and the content of the layout's buckets.
func verifyPages(ctx context.Context, file *os.File, info os.FileInfo, l Layout, metaOnly bool) error {
	m, err := readMeta(file, info.Size())
	if err != nil || metaOnly {
		return err
	}
	check := l.NewCheck()
	if err := (&walker{ctx: ctx, r: file, meta: m, visit: check.Visit}).walk(); err != nil {
		return err
	}
	return check.Err()
}
