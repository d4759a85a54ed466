package bolt

import (
	"bytes"
	"context"
	"encoding/binary"
	"hash/fnv"
	"io"
)

// What bbolt writes, version 2, in the byte order of the machine. bbolt believes a file: a page number or a size that is
// wrong makes it read memory that is not there, or run in circles. So the file is checked here before bbolt sees it.
const (
	bboltMagic   = 0xED0CDAED
	bboltVersion = 2

	pageHeader    = 16 // id 8, flags 2, count 2, overflow 4
	metaSize      = 64 // magic 4, version 4, page size 4, flags 4, root 16, freelist 8, high water mark 8, txid 8, checksum 8
	elementSize   = 16 // leaf: flags 4, position 4, key size 4, value size 4; branch: position 4, key size 4, page 8
	inBucketSize  = 16 // root page 8, sequence 8; root page 0: the bucket's only page follows
	branchPage    = 0x01
	leafPage      = 0x02
	freelistPage  = 0x10
	bucketElement = 0x01
	noFreelist    = ^uint64(0)

	maxDepth = 64 // of pages in a bucket; far more than a file of any size has
)

var order = binary.NativeEndian

// fileMeta is what a meta page says.
type fileMeta struct {
	pageSize             int
	root, freelist, high uint64
	txid                 uint64
}

// readMetas checks both meta pages of a file of that size, and returns the newer. bbolt would open a file with one intact
// meta page, and silently be one commit back.
func readMetas(r io.ReaderAt, size int64) (newest fileMeta, err error) {
	if size == 0 {
		return newest, damagef("it is empty; restore it, or remove it to begin with no buckets")
	}
	var buf [pageHeader + metaSize]byte
	if _, err := r.ReadAt(buf[:], 0); err != nil {
		return newest, readError(err)
	}
	first, err := decodeMeta(buf[pageHeader:])
	if err != nil {
		return newest, err
	}
	if _, err := r.ReadAt(buf[:], int64(first.pageSize)); err != nil {
		return newest, readError(err)
	}
	second, err := decodeMeta(buf[pageHeader:])
	if err != nil {
		return newest, err
	}
	newest = first
	if second.txid > first.txid {
		newest = second
	}
	if first.pageSize != second.pageSize {
		return newest, damagef("its meta pages disagree")
	}
	if want := int64(newest.high) * int64(newest.pageSize); newest.high > 1<<48 || size < want {
		return newest, damagef("it is cut short: %d bytes of %d", size, want)
	}
	return newest, nil
}

func decodeMeta(b []byte) (m fileMeta, err error) {
	if order.Uint32(b) != bboltMagic {
		return m, damagef("it is not a bbolt file, or its meta page is damaged")
	}
	if v := order.Uint32(b[4:]); v != bboltVersion {
		return m, damagef("bbolt's version %d is not %d", v, bboltVersion)
	}
	h := fnv.New64a()
	_, _ = h.Write(b[:metaSize-8])
	if h.Sum64() != order.Uint64(b[metaSize-8:]) {
		return m, damagef("a meta page does not match its checksum")
	}
	m = fileMeta{
		pageSize: int(order.Uint32(b[8:])),
		root:     order.Uint64(b[16:]),
		freelist: order.Uint64(b[32:]),
		high:     order.Uint64(b[40:]),
		txid:     order.Uint64(b[48:]),
	}
	if m.pageSize < 512 || m.pageSize > 1<<20 {
		return m, damagef("a page size of %d makes no sense", m.pageSize)
	}
	return m, nil
}

func readError(err error) error {
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		return damagef("it is cut short")
	}
	return fileError(err)
}

// walker visits every page of a snapshot once.
type walker struct {
	ctx  context.Context
	r    io.ReaderAt
	meta fileMeta
	seen []uint64 // a bit for every page that something refers to
	buf  []byte   // the page last read
	// visit is called with every key and value that is not a bucket, and the name of its bucket at the top.
	visit func(bucket, key, value []byte)
}

// walk visits all buckets, and checks that every page is either in one of them or free, and none in two places.
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
			return damagef("page %d is neither in use nor free", id)
		}
	}
	return nil
}

// mark notes that pages are referred to.
func (w *walker) mark(id, n uint64) error {
	if id < 2 || id >= w.meta.high || n > w.meta.high-id {
		return damagef("a reference to page %d of %d", id, w.meta.high)
	}
	for ; n > 0; id, n = id+1, n-1 {
		if w.seen[id/64]&(1<<(id%64)) != 0 {
			return damagef("page %d is in two places", id)
		}
		w.seen[id/64] |= 1 << (id % 64)
	}
	return nil
}

// page reads a page with what belongs to it, and marks it. It is overwritten by the next.
func (w *walker) page(id uint64) ([]byte, error) {
	if err := w.ctx.Err(); err != nil {
		return nil, err
	}
	if id < 2 || id >= w.meta.high {
		return nil, damagef("a reference to page %d of %d", id, w.meta.high)
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
		return nil, damagef("page %d says that it is page %d", id, order.Uint64(p))
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

// tree visits the pages from id on. Their keys lie from low up to, but not including, high; nil is no bound.
func (w *walker) tree(id uint64, bucket, low, high []byte, depth int) error {
	if depth > maxDepth {
		return damagef("pages refer to one another without end")
	}
	p, err := w.page(id)
	if err != nil {
		return err
	}
	switch flags := order.Uint16(p[8:]); flags {
	case leafPage:
		if bucket == nil { // its entries are buckets, with pages of their own
			p = bytes.Clone(p)
		}
		return w.leaf(p, bucket, low, high)
	case branchPage:
		return w.branch(bytes.Clone(p), bucket, low, high, depth)
	default:
		return damagef("page %d is of kind %#x, which does not belong there", id, flags)
	}
}

func (w *walker) branch(p, bucket, low, high []byte, depth int) error {
	count := int(order.Uint16(p[10:]))
	keys, children := make([][]byte, count), make([]uint64, count)
	for i := range count {
		e, ok := part(p, pageHeader+i*elementSize, elementSize)
		if ok {
			at := pageHeader + i*elementSize + int(order.Uint32(e))
			keys[i], ok = part(p, at, int(order.Uint32(e[4:])))
			children[i] = order.Uint64(e[8:])
		}
		if !ok {
			return damagef("an entry of a branch page lies outside of it")
		}
	}
	if count == 0 {
		return damagef("a branch page is empty")
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
		e, ok := part(p, pageHeader+i*elementSize, elementSize)
		if !ok {
			return damagef("an entry of a leaf page lies outside of it")
		}
		flags, at := order.Uint32(e), pageHeader+i*elementSize+int(order.Uint32(e[4:]))
		keySize := int(order.Uint32(e[8:]))
		key, ok := part(p, at, keySize)
		value, ok2 := part(p, at+keySize, int(order.Uint32(e[12:])))
		if !ok || !ok2 {
			return damagef("an entry of a leaf page lies outside of it")
		}
		if err := ordered(last, key, low, high); err != nil {
			return err
		}
		last = key
		switch {
		case flags == 0 && bucket != nil:
			w.visit(bucket, key, value)
		case flags == bucketElement && bucket == nil: // neither brim nor bbolt's root puts a bucket elsewhere
			if err := w.nested(key, value); err != nil {
				return err
			}
		default:
			return damagef("an entry of a leaf page is of kind %#x, which does not belong there", flags)
		}
	}
	return nil
}

// nested visits a bucket of the root.
func (w *walker) nested(name, value []byte) error {
	if len(value) < inBucketSize {
		return damagef("a bucket's header is cut short")
	}
	if root := order.Uint64(value); root != 0 {
		return w.bucket(root, name)
	}
	p := value[inBucketSize:]
	if len(p) < pageHeader || order.Uint16(p[8:]) != leafPage {
		return damagef("a small bucket's page is not one")
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
		return damagef("the list of free pages is not one")
	}
	count, at := uint64(order.Uint16(p[10:])), pageHeader
	if count == 0xFFFF { // then the first number is the count
		count, at = order.Uint64(p[at:]), at+8
	}
	if count > uint64(len(p)-at)/8 {
		return damagef("the list of free pages is longer than its page")
	}
	for i := range int(count) {
		if err := w.mark(order.Uint64(p[at+8*i:]), 1); err != nil {
			return err
		}
	}
	return nil
}

// part returns n bytes of p from at on, if they are there. Sizes come from 32-bit fields, so sums do not overflow.
func part(p []byte, at, n int) ([]byte, bool) {
	if at < 0 || n < 0 || at > len(p) || n > len(p)-at {
		return nil, false
	}
	return p[at : at+n : at+n], true
}

// ordered checks that key comes after last, and lies from low up to, but not including, high.
func ordered(last, key, low, high []byte) error {
	if len(key) == 0 || bytes.Compare(last, key) >= 0 || bytes.Compare(key, low) < 0 ||
		high != nil && bytes.Compare(key, high) >= 0 {
		return damagef("keys are out of order")
	}
	return nil
}
