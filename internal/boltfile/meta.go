package boltfile

import (
	"encoding/binary"
	"hash/fnv"
	"io"

	"github.com/brimgo/brim/internal/vfs"
)

// The format of a bbolt file, version 2, in the byte order of the machine.
const (
	bboltMagic   = 0xED0CDAED
	bboltVersion = 2

	// pageHeader: id 8 bytes, flags 2, count 2, overflow 4.
	pageHeader = 16
	// metaSize: magic 4 bytes, version 4, page size 4, flags 4, root 16, freelist 8, high water
	// mark 8, txid 8, checksum 8.
	metaSize = 64
	// elementSize, in a leaf: flags 4 bytes, position 4, key size 4, value size 4; in a branch:
	// position 4, key size 4, page 8.
	elementSize = 16
	// inBucketSize: root page 8 bytes, sequence 8. If the root page is 0, the bucket's only page
	// follows.
	inBucketSize = 16

	branchPage    = 0x01
	leafPage      = 0x02
	freelistPage  = 0x10
	bucketElement = 0x01
	noFreelist    = ^uint64(0)

	maxDepth = 64 // of pages in a bucket; far more than a file of any size has
)

var order = binary.NativeEndian

// meta is the decoded content of a meta page.
type meta struct {
	pageSize             int
	root, freelist, high uint64
	txid                 uint64
}

// readMeta checks both meta pages of a file of that size, and returns the newer. bbolt would open
// a file with one intact meta page, and silently go back a commit.
//
// Commits write the two pages in turn, so their numbers differ by one. If an older meta page takes
// the place of a newer one, they differ by three or more. An older page in the place of the newest
// alone cannot be told from a commit that a power failure has ended before its meta page was
// written; see [File.Close].
func readMeta(r io.ReaderAt, size int64) (newest meta, err error) {
	if size == 0 {
		return newest, Damagef("it is empty, as no store leaves a file; if it was made by hand, remove it")
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
	newest, older := first, second
	if second.txid > first.txid {
		newest, older = second, first
	}
	switch {
	case first.pageSize != second.pageSize:
		return newest, Damagef("its meta pages disagree")
	case first.txid%2 != 0 || newest.txid-older.txid != 1:
		return newest, Damagef("its meta pages belong to commits %d and %d, which do not follow each other",
			older.txid, newest.txid)
	}
	if pages := uint64(size) / uint64(newest.pageSize); newest.high > pages {
		return newest, Damagef("it is cut short: %d pages of %d", pages, newest.high)
	}
	return newest, nil
}

// metaOf is readMeta for a file.
func metaOf(file vfs.File) (meta, error) {
	info, err := file.Stat()
	if err != nil {
		return meta{}, FileError(err)
	}
	return readMeta(file, info.Size())
}

func decodeMeta(b []byte) (m meta, err error) {
	if order.Uint32(b) != bboltMagic {
		return m, Damagef("it is not a bbolt file, or its meta page is damaged")
	}
	if v := order.Uint32(b[4:]); v != bboltVersion {
		return m, Damagef("bbolt's version %d is not %d", v, bboltVersion)
	}
	h := fnv.New64a()
	_, _ = h.Write(b[:metaSize-8])
	if h.Sum64() != order.Uint64(b[metaSize-8:]) {
		return m, Damagef("a meta page does not match its checksum")
	}
	m = meta{
		pageSize: int(order.Uint32(b[8:])),
		root:     order.Uint64(b[16:]),
		freelist: order.Uint64(b[32:]),
		high:     order.Uint64(b[40:]),
		txid:     order.Uint64(b[48:]),
	}
	if m.pageSize < 1<<10 || m.pageSize > 1<<20 || m.pageSize&(m.pageSize-1) != 0 {
		return m, Damagef("a page size of %d makes no sense", m.pageSize)
	}
	return m, nil
}

func readError(err error) error {
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		return Damagef("it is cut short")
	}
	return FileError(err)
}
