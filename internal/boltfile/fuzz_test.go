package boltfile

import (
	"bytes"
	"errors"
	"hash/fnv"
	"testing"

	"github.com/brimgo/brim/store"
)

// FuzzMeta reads meta pages with arbitrary content. They are damaged, or the file is as large as
// they say. With sealed, they get correct checksums first.
func FuzzMeta(f *testing.F) {
	page := func(pageSize uint32, high, txid uint64) []byte {
		b := make([]byte, pageHeader+metaSize)
		m := b[pageHeader:]
		order.PutUint32(m, bboltMagic)
		order.PutUint32(m[4:], bboltVersion)
		order.PutUint32(m[8:], pageSize)
		order.PutUint64(m[40:], high)
		order.PutUint64(m[48:], txid)
		return b
	}
	f.Add(page(4096, 4, 1), page(4096, 4, 2), uint16(16384), true)
	f.Add(page(4096, 4, 1), page(1024, 1, 2), uint16(16384), true)
	f.Add(page(4096, 1<<60, 1), page(4096, 1<<63, 2), uint16(16384), true)
	f.Add(page(1<<31, 4, 1), page(0, 4, 2), uint16(100), true)
	f.Add([]byte{}, []byte{1}, uint16(0), false)
	f.Fuzz(func(t *testing.T, first, second []byte, size uint16, sealed bool) {
		content := make([]byte, size)
		put := func(at int, page []byte) {
			page = bytes.Clone(page)
			if sealed && len(page) >= pageHeader+metaSize {
				m := page[pageHeader:][:metaSize]
				h := fnv.New64a()
				_, _ = h.Write(m[:metaSize-8])
				order.PutUint64(m[metaSize-8:], h.Sum64())
			}
			copy(content[min(at, len(content)):], page)
		}
		put(0, first)
		if len(first) >= pageHeader+12 {
			put(int(order.Uint32(first[pageHeader+8:])), second)
		}
		m, err := readMeta(bytes.NewReader(content), int64(size))
		if err != nil {
			if !errors.Is(err, store.ErrCorrupt) {
				t.Errorf("%v; want ErrCorrupt", err)
			}
			return
		}
		if m.pageSize < 1024 || m.pageSize > 1<<20 || m.high > uint64(size)/uint64(m.pageSize) {
			t.Errorf("%+v of a file of %d bytes", m, size)
		}
	})
}
