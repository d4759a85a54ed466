package boltfile

import (
	"bytes"
	"context"

	"go.etcd.io/bbolt"

	"github.com/brimgo/brim/internal/vfs"
)

// Verify checks the newest commit: the content of the layout's buckets, and for a file that was
// opened by [Open] every page of it. It returns nil or the damage, which is [store.ErrCorrupt].
//
// Readers and writers go on meanwhile, but the file cannot grow until Verify returns.
func (f *File) Verify(ctx context.Context) error {
	if err := f.Lock(ctx); err != nil { // before mu, as everywhere
		return err
	}
	var m meta
	tx, end, err := f.Read()
	if err == nil {
		defer end()
		if f.owned { // until tx ends, bbolt does not write to the pages of this meta page
			m, err = metaOf(f.file)
		}
	}
	f.Unlock()
	if err != nil {
		return err
	}
	check := f.layout.NewCheck()
	return f.Guard(func() error {
		if f.owned {
			err = (&walker{ctx: ctx, r: f.file, meta: m, visit: check.Visit}).walk()
		} else {
			err = visitBuckets(ctx, tx, f.layout.Buckets(), check.Visit)
		}
		if err == nil {
			err = check.Err()
		}
		if err == nil && check.Damaged() > 0 {
			err = damagedValues(check.Damaged())
		}
		return err
	})
}

// damagedValues returns the error of a check that found damage in values alone.
func damagedValues(n int) error {
	return Damagef("%d values are damaged; all others are intact; \"brim verify\" names them", n)
}

// visitBuckets visits buckets through bbolt.
func visitBuckets(
	ctx context.Context, tx *bbolt.Tx, names [][]byte, visit func(bucket, key, value []byte),
) error {
	for _, name := range names {
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

// CheckBuckets checks the content of buckets in an application's database, as Open checks that of
// its file. It cannot check pages, because bbolt has the file open already. It checks nothing in a
// file that Open has opened, which it has checked, and after NoVerify.
func (f *File) CheckBuckets(names [][]byte, check Check) error {
	if f.owned || f.options.NoVerify {
		return nil
	}
	err := f.View(func(tx *bbolt.Tx) error {
		if err := visitBuckets(context.Background(), tx, names, check.Visit); err != nil {
			return err
		}
		return check.Err()
	})
	if err == nil {
		f.logDamaged(check.Damaged())
	}
	return err
}

// logDamaged tells of values that harm nothing but themselves.
func (f *File) logDamaged(values int) {
	if values > 0 {
		f.options.Logger.Error("bolt: the file has damaged values; calls that need them answer ErrCorrupt",
			"path", f.path, "values", values)
	}
}

// verifyFile checks the file before bbolt opens it: its meta pages, and unless NoVerify is set all
// other pages and the content of the layout's buckets.
func (f *File) verifyFile() error {
	if f.options.NoVerify {
		_, err := metaOf(f.file)
		return err
	}
	check := f.layout.NewCheck()
	err := verifyAll(context.Background(), f.file, check)
	if err == nil {
		f.logDamaged(check.Damaged())
	}
	return err
}

// verifyAll checks every page of a file that nobody writes to, and its content.
func verifyAll(ctx context.Context, file vfs.File, check Check) error {
	m, err := metaOf(file)
	if err == nil {
		err = (&walker{ctx: ctx, r: file, meta: m, visit: check.Visit}).walk()
	}
	if err == nil {
		err = check.Err()
	}
	return err
}
