package boltfile

import (
	"bytes"
	"cmp"
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
	// leaves is the level of the leaf pages of the bucket, 0 before the first.
	leaves int
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
func (w *walker) bucket(id uint64, name []byte) error {
	defer func(leaves int) { w.leaves = leaves }(w.leaves)
	w.leaves = 0
	return w.tree(id, name, nil, nil, 1)
}

// tree visits the pages below page id, which is at a level of its bucket. Their keys begin with
// low, and end before high. A nil bound does not limit them.
func (w *walker) tree(id uint64, bucket, low, high []byte, level int) error {
	p, err := w.page(id)
	if err != nil {
		return err
	}
	switch flags := order.Uint16(p[8:]); flags {
	case leafPage:
		if level != cmp.Or(w.leaves, level) {
			return Damagef("page %d is at another level than the leaf pages before it", id)
		}
		w.leaves = level
		if bucket == nil { // the entries are buckets: reading their pages overwrites p
			p = bytes.Clone(p)
		}
		return w.leaf(p, w.meta.pageSize, bucket, low, high)
	case branchPage:
		if level == maxDepth {
			return Damagef("pages refer to one another without end")
		}
		return w.branch(bytes.Clone(p), bucket, low, high, level)
	default:
		return Damagef("page %d is of kind %#x, which does not belong there", id, flags)
	}
}

func (w *walker) branch(p, bucket, low, high []byte, level int) error {
	var keys [][]byte
	var children []uint64
	err := entries(p, w.meta.pageSize, low, high, func(header, key, _ []byte) error {
		keys, children = append(keys, key), append(children, order.Uint64(header[8:]))
		return nil
	})
	if err == nil && len(keys) < 2 { // bbolt merges a page with its neighbor
		err = Damagef("a branch page has too few entries: %d", len(keys))
	}
	keys = append(keys, high)
	for i := 0; i < len(children) && err == nil; i++ {
		err = w.tree(children[i], bucket, keys[i], keys[i+1], level+1)
	}
	return err
}

func (w *walker) leaf(p []byte, unit int, bucket, low, high []byte) error {
	return entries(p, unit, low, high, func(header, key, value []byte) error {
		switch flags := order.Uint32(header); {
		case flags == 0 && bucket != nil:
			w.visit(bucket, key, value)
		case flags == bucketElement && bucket == nil: // brim has no bucket in a bucket
			return w.nested(key, value)
		default:
			return Damagef("an entry of a leaf page is of kind %#x, which does not belong there", flags)
		}
		return nil
	})
}

// nested visits a bucket of the root page.
func (w *walker) nested(name, value []byte) error {
	if len(value) < inBucketSize {
		return Damagef("a bucket's header is cut short")
	}
	root, p := order.Uint64(value), value[inBucketSize:]
	switch {
	case root != 0 && len(p) == 0:
		return w.bucket(root, name)
	case root != 0:
		return Damagef("a bucket's header is followed by %d bytes", len(p))
	// A number in the header would be that of a page which bbolt frees when the bucket grows.
	case len(p) < pageHeader || order.Uint64(p) != 0 || order.Uint16(p[8:]) != leafPage || order.Uint32(p[12:]) != 0:
		return Damagef("a small bucket's page is not one")
	}
	return w.leaf(p, 1, name, nil, nil)
}

// entries calls fn with the header, the key and the value of each entry of a page. It checks that
// the page is exactly as bbolt writes it. The headers come first, and then the keys and values in
// the same order and without a gap. The page has as many units of bytes as it needs. The keys are
// in order. The first is low, which is the key of the page in the page above, and the last is below
// high. A nil bound does not limit them.
func entries(p []byte, unit int, low, high []byte, fn func(header, key, value []byte) error) error {
	leaf, count := order.Uint16(p[8:]) == leafPage, int(order.Uint16(p[10:]))
	size := int64(len(p))
	end := int64(pageHeader + count*elementSize) // of the keys and values so far
	if end > size || count == 0 && low != nil {
		return Damagef("a page cannot have %d entries", count)
	}
	var last []byte
	for i := range count {
		begin := int64(pageHeader + i*elementSize)
		header := p[begin : begin+elementSize]
		sizes, valueSize := header, int64(0)
		if leaf {
			sizes, valueSize = header[4:], int64(order.Uint32(header[12:]))
		}
		position, keySize := int64(order.Uint32(sizes)), int64(order.Uint32(sizes[4:]))
		if begin+position != end || keySize+valueSize > size-end {
			return Damagef("entry %d of a page does not lie behind the one before in it", i)
		}
		key := p[end : end+keySize : end+keySize]
		end += keySize
		value := p[end : end+valueSize : end+valueSize]
		end += valueSize
		if bytes.Compare(last, key) >= 0 || i == 0 && low != nil && !bytes.Equal(key, low) {
			return errOrder
		}
		last = key
		if err := fn(header, key, value); err != nil {
			return err
		}
	}
	switch {
	case high != nil && bytes.Compare(last, high) >= 0:
		return errOrder
	case size-end >= int64(unit):
		return Damagef("the entries of a page end %d bytes before it", size-end)
	}
	return nil
}

var errOrder = Damagef("keys are out of order, or differ from those in the page above")

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
