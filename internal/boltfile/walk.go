package boltfile

import (
	"bytes"
	"context"
	"io"
)

// walker visits every page of a snapshot once.
type walker struct {
	ctx  context.Context
	r    io.ReaderAt
	meta meta
	seen []uint64 // a bit for every page that was referred to so far
	buf  []byte   // the page last read
	// visit is called with every key and value, and the name of their bucket.
	visit func(bucket, key, value []byte)
}

// walk visits all buckets. It checks that every page is either in one bucket or free, and no page
// is in two places.
func (w *walker) walk() error {
	w.seen = make([]uint64, w.meta.high/64+1)
	w.seen[0] = 0b11
	if err := w.bucket(w.meta.root, nil); err != nil {
		return err
	}
	if w.meta.freelist == noFreelist {
		return nil
	}
	if err := w.freelist(); err != nil {
		return err
	}
	for id := range w.meta.high {
		if w.seen[id/64]&(1<<(id%64)) == 0 {
			return Damagef("page %d is neither in use nor free", id)
		}
	}
	return nil
}

// mark marks n pages from id on as referred to, and refuses a second reference.
func (w *walker) mark(id, n uint64) error {
	if id < 2 || id >= w.meta.high || n > w.meta.high-id {
		return Damagef("a reference to page %d of %d", id, w.meta.high)
	}
	for ; n > 0; id, n = id+1, n-1 {
		if w.seen[id/64]&(1<<(id%64)) != 0 {
			return Damagef("page %d is in two places", id)
		}
		w.seen[id/64] |= 1 << (id % 64)
	}
	return nil
}

// page reads and marks a page and its overflow pages. The next call overwrites the result.
func (w *walker) page(id uint64) ([]byte, error) {
	if err := w.ctx.Err(); err != nil {
		return nil, err
	}
	if id < 2 || id >= w.meta.high {
		return nil, Damagef("a reference to page %d of %d", id, w.meta.high)
	}
	if w.buf == nil {
		w.buf = make([]byte, w.meta.pageSize)
	}
	p := w.buf
	if _, err := w.r.ReadAt(p, int64(id)*int64(w.meta.pageSize)); err != nil {
		return nil, readError(err)
	}
	overflow := uint64(order.Uint32(p[12:]))
	if order.Uint64(p) != id {
		return nil, Damagef("page %d says that it is page %d", id, order.Uint64(p))
	}
	if err := w.mark(id, 1+overflow); err != nil {
		return nil, err
	}
	if overflow > 0 {
		p = make([]byte, int(1+overflow)*w.meta.pageSize)
		if _, err := w.r.ReadAt(p, int64(id)*int64(w.meta.pageSize)); err != nil {
			return nil, readError(err)
		}
	}
	return p, nil
}

// bucket visits the bucket whose root page is id.
func (w *walker) bucket(id uint64, name []byte) error { return w.tree(id, name, nil, nil, 0) }

// tree visits the pages below page id. Their keys lie from low up to, but not including, high. A
// nil bound does not limit them.
func (w *walker) tree(id uint64, bucket, low, high []byte, depth int) error {
	if depth > maxDepth {
		return Damagef("pages refer to one another without end")
	}
	p, err := w.page(id)
	if err != nil {
		return err
	}
	switch flags := order.Uint16(p[8:]); flags {
	case leafPage:
		if bucket == nil { // the entries are buckets: reading their pages overwrites p
			p = bytes.Clone(p)
		}
		return w.leaf(p, bucket, low, high)
	case branchPage:
		return w.branch(bytes.Clone(p), bucket, low, high, depth)
	default:
		return Damagef("page %d is of kind %#x, which does not belong there", id, flags)
	}
}

func (w *walker) branch(p, bucket, low, high []byte, depth int) error {
	count := int(order.Uint16(p[10:]))
	keys, children := make([][]byte, count), make([]uint64, count)
	for i := range count {
		entry := int64(pageHeader + i*elementSize)
		e, ok := part(p, entry, elementSize)
		if ok {
			keys[i], ok = part(p, entry+int64(order.Uint32(e)), int64(order.Uint32(e[4:])))
			children[i] = order.Uint64(e[8:])
		}
		if !ok {
			return Damagef("an entry of a branch page lies outside of it")
		}
	}
	if count == 0 {
		return Damagef("a branch page is empty")
	}
	for i, last := range append([][]byte{nil}, keys[:count-1]...) {
		if err := ordered(last, keys[i], low, high); err != nil {
			return err
		}
	}
	for i := range count {
		end := high
		if i+1 < count {
			end = keys[i+1]
		}
		if err := w.tree(children[i], bucket, keys[i], end, depth+1); err != nil {
			return err
		}
	}
	return nil
}

func (w *walker) leaf(p, bucket, low, high []byte) error {
	count := int(order.Uint16(p[10:]))
	var last []byte
	for i := range count {
		entry := int64(pageHeader + i*elementSize)
		e, ok := part(p, entry, elementSize)
		if !ok {
			return Damagef("an entry of a leaf page lies outside of it")
		}
		flags, at := order.Uint32(e), entry+int64(order.Uint32(e[4:]))
		keySize := int64(order.Uint32(e[8:]))
		key, ok := part(p, at, keySize)
		value, ok2 := part(p, at+keySize, int64(order.Uint32(e[12:])))
		if !ok || !ok2 {
			return Damagef("an entry of a leaf page lies outside of it")
		}
		if err := ordered(last, key, low, high); err != nil {
			return err
		}
		last = key
		switch {
		case flags == 0 && bucket != nil:
			w.visit(bucket, key, value)
		case flags == bucketElement && bucket == nil: // brim has no bucket in a bucket
			if err := w.nested(key, value); err != nil {
				return err
			}
		default:
			return Damagef("an entry of a leaf page is of kind %#x, which does not belong there", flags)
		}
	}
	return nil
}

// nested visits a bucket of the root page.
func (w *walker) nested(name, value []byte) error {
	if len(value) < inBucketSize {
		return Damagef("a bucket's header is cut short")
	}
	if root := order.Uint64(value); root != 0 {
		return w.bucket(root, name)
	}
	p := value[inBucketSize:]
	if len(p) < pageHeader || order.Uint16(p[8:]) != leafPage {
		return Damagef("a small bucket's page is not one")
	}
	return w.leaf(p, name, nil, nil)
}

// freelist marks the pages that are free.
func (w *walker) freelist() error {
	p, err := w.page(w.meta.freelist)
	if err != nil {
		return err
	}
	if order.Uint16(p[8:]) != freelistPage {
		return Damagef("the list of free pages is not one")
	}
	count, at := uint64(order.Uint16(p[10:])), pageHeader
	if count == 0xFFFF { // too many for the field: the first number is the count
		count, at = order.Uint64(p[at:]), at+8
	}
	if count > uint64(len(p)-at)/8 {
		return Damagef("the list of free pages is longer than its page")
	}
	for i := range int(count) {
		if err := w.mark(order.Uint64(p[at+8*i:]), 1); err != nil {
			return err
		}
	}
	return nil
}

// part returns n bytes of p from at on, if p has them.
func part(p []byte, at, n int64) ([]byte, bool) {
	if at > int64(len(p)) || n > int64(len(p))-at {
		return nil, false
	}
	return p[at : at+n : at+n], true
}

// ordered checks that key comes after last, and lies from low up to, but not including, high. A
// nil bound does not limit it.
func ordered(last, key, low, high []byte) error {
	if len(key) == 0 || bytes.Compare(last, key) >= 0 || bytes.Compare(key, low) < 0 ||
		high != nil && bytes.Compare(key, high) >= 0 {
		return Damagef("keys are out of order")
	}
	return nil
}
