package boltfile

import (
	"bytes"
	"context"
	"hash/fnv"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.etcd.io/bbolt"

	"github.com/brimgo/brim/store"
)

// image is the content of a file that a test damages.
type image struct {
	bytes []byte
	meta  meta
}

// newImage returns a file with a branch page, leaf pages, free pages and a small bucket.
func newImage(t *testing.T) *image {
	t.Helper()
	f := openTemp(t)
	mustUpdate(t, f, put("ours", 1000))
	mustUpdate(t, f, put("small", 3))
	mustUpdate(t, f, put("gone", 1000))
	mustUpdate(t, f, func(tx *bbolt.Tx) error { return tx.DeleteBucket([]byte("gone")) })
	must(t, f.Close())
	content, err := os.ReadFile(f.Path())
	must(t, err)
	im := &image{bytes: content}
	im.meta, err = readMeta(bytes.NewReader(content), int64(len(content)))
	must(t, err)
	return im
}

// page returns the content of a page.
func (im *image) page(id uint64) []byte {
	at := int(id) * im.meta.pageSize
	return im.bytes[at : at+im.meta.pageSize]
}

// entry returns the header of the entry i of a page.
func entry(page []byte, i int) []byte { return page[pageHeader+i*elementSize:] }

// root returns the page that lists the buckets.
func (im *image) root() []byte { return im.page(im.meta.root) }

// value returns the header of the bucket at entry i of the root page: 0 is ours, 1 is small.
func (im *image) value(i int) []byte {
	e := entry(im.root(), i)
	at := pageHeader + i*elementSize + int(order.Uint32(e[4:])) + int(order.Uint32(e[8:]))
	return im.root()[at:]
}

// branch returns the root page of the bucket ours, which is a branch page.
func (im *image) branch() []byte { return im.page(order.Uint64(im.value(0))) }

// leaf returns the first leaf page of ours.
func (im *image) leaf() []byte { return im.page(order.Uint64(entry(im.branch(), 0)[8:])) }

// free returns the page that lists the free pages.
func (im *image) free() []byte { return im.page(im.meta.freelist) }

// set16, set32 and set64 overwrite a field of a page.
func set16(b []byte, v uint16) { order.PutUint16(b, v) }
func set32(b []byte, v uint32) { order.PutUint32(b, v) }
func set64(b []byte, v uint64) { order.PutUint64(b, v) }

// setMeta changes a meta page and makes its checksum right again.
func (im *image) setMeta(page uint64, change func(m []byte)) {
	m := im.page(page)[pageHeader : pageHeader+metaSize]
	change(m)
	h := fnv.New64a()
	_, _ = h.Write(m[:metaSize-8])
	set64(m[metaSize-8:], h.Sum64())
}

// TestDamagedPages damages one field of a page each. Open must refuse the file.
func TestDamagedPages(t *testing.T) {
	sound := newImage(t)
	path := filepath.Join(t.TempDir(), "damaged.db")
	for _, c := range []struct {
		name   string
		damage func(im *image)
		says   string
	}{
		{"page number", func(im *image) { set64(im.leaf(), 1) }, "says that it is page 1"},
		{"kind of page", func(im *image) { set16(im.leaf()[8:], freelistPage) }, "is of kind 0x10"},
		{"overflow", func(im *image) { set32(im.leaf()[12:], 1<<31) }, "a reference to page"},
		{"overflow into a used page", func(im *image) { set32(im.leaf()[12:], 1) }, "is in two places"},

		{"empty branch", func(im *image) { set16(im.branch()[10:], 0) }, "a branch page is empty"},
		{"branch with more entries than room", func(im *image) {
			set16(im.branch()[10:], 0xFFFF)
		}, "branch page lies outside"},
		{"position in a branch", func(im *image) { set32(entry(im.branch(), 0), 1<<31) }, "branch page lies outside"},
		{"position that wraps around", func(im *image) {
			set32(entry(im.branch(), 0), 0xFFFFFFF0)
		}, "branch page lies outside"},
		{"size of a key in a branch", func(im *image) {
			set32(entry(im.branch(), 0)[4:], 1<<31)
		}, "branch page lies outside"},
		{"order in a branch", func(im *image) {
			copy(entry(im.branch(), 1), entry(im.branch(), 0)[:8])
		}, "out of order"},
		{"child that is a meta page", func(im *image) { set64(entry(im.branch(), 0)[8:], 1) }, "a reference to page 1"},
		{"child beyond the end", func(im *image) {
			set64(entry(im.branch(), 0)[8:], im.meta.high)
		}, "a reference to page"},
		{"child of two entries", func(im *image) {
			copy(entry(im.branch(), 1)[8:], entry(im.branch(), 0)[8:16])
		}, "is in two places"},
		{"child that is its parent", func(im *image) {
			copy(entry(im.branch(), 0)[8:], im.branch()[:8])
		}, "is in two places"},

		{"leaf with more entries than room", func(im *image) {
			set16(im.leaf()[10:], 0xFFFF)
		}, "leaf page lies outside"},
		{"position in a leaf", func(im *image) {
			set32(entry(im.leaf(), 0)[4:], 0xFFFFFFF0)
		}, "leaf page lies outside"},
		{"size of a value", func(im *image) { set32(entry(im.leaf(), 0)[12:], 1<<31) }, "leaf page lies outside"},
		{"empty key", func(im *image) { set32(entry(im.leaf(), 0)[8:], 0) }, "out of order"},
		{"order in a leaf", func(im *image) { copy(entry(im.leaf(), 1), entry(im.leaf(), 0)[:16]) }, "out of order"},
		{"leaf under the wrong key", func(im *image) {
			a, b := entry(im.branch(), 0)[8:16], entry(im.branch(), 1)[8:16]
			for i := range a {
				a[i], b[i] = b[i], a[i]
			}
		}, "out of order"},
		{"bucket in a bucket", func(im *image) { set32(entry(im.leaf(), 0), bucketElement) }, "is of kind 0x1"},
		{"key beside the buckets", func(im *image) { set32(entry(im.root(), 0), 0) }, "is of kind 0x0"},

		{"bucket without a header", func(im *image) { set32(entry(im.root(), 0)[12:], 8) }, "header is cut short"},
		{"small bucket without its page", func(im *image) {
			set32(entry(im.root(), 1)[12:], inBucketSize)
		}, "small bucket's page"},
		{"kind of a small bucket's page", func(im *image) {
			set16(im.value(1)[inBucketSize+8:], branchPage)
		}, "small bucket's page"},

		{"kind of the freelist", func(im *image) { set16(im.free()[8:], leafPage) }, "list of free pages is not one"},
		{"freelist beyond the end", func(im *image) {
			im.metas(func(m []byte) { set64(m[32:], im.meta.high) })
		}, "a reference to page"},
		{"long freelist", func(im *image) { set16(im.free()[10:], 0xFFFE) }, "longer than its page"},
		{"free page that is used", func(im *image) { set64(im.free()[pageHeader:], im.meta.root) }, "is in two places"},
		{"lost page", func(im *image) {
			set16(im.free()[10:], order.Uint16(im.free()[10:])-1)
		}, "neither in use nor free"},

		{"size of a page", func(im *image) { im.metas(func(m []byte) { set32(m[8:], 100) }) }, "a page size of 100"},
		{"sizes of pages", func(im *image) {
			im.setMeta(1, func(m []byte) { set32(m[8:], uint32(2*im.meta.pageSize)) })
		}, "meta pages disagree"},
		{"high water mark", func(im *image) { im.metas(func(m []byte) { set64(m[40:], 1<<49) }) }, "cut short"},
		{"root page", func(im *image) { im.metas(func(m []byte) { set64(m[16:], 0) }) }, "a reference to page 0"},
	} {
		t.Run(c.name, func(t *testing.T) {
			im := &image{bytes: bytes.Clone(sound.bytes), meta: sound.meta}
			c.damage(im)
			must(t, os.WriteFile(path, im.bytes, 0o600))
			f, err := Open(path, testLayout{}, testOptions)
			if err == nil {
				_ = f.Close()
				t.Fatal("the file was opened")
			}
			is(t, "Open", err, store.ErrCorrupt)
			if !strings.Contains(err.Error(), c.says) {
				t.Errorf("error %q does not say %q", err, c.says)
			}
		})
	}
}

// metas changes both meta pages.
func (im *image) metas(change func(m []byte)) {
	im.setMeta(0, change)
	im.setMeta(1, change)
}

// TestLongFreelist: a list of 65535 free pages or more has its length in the first number.
func TestLongFreelist(t *testing.T) {
	const size, high = 4096, 70_000
	free := make([]uint64, 0, high)
	// Pages: two meta pages, the empty root page, and the freelist with its overflow pages.
	const root, list = 2, 3
	overflow := (pageHeader + 8 + 8*high) / size
	for id := uint64(list + 1 + overflow); id < high; id++ {
		free = append(free, id)
	}
	file := make([]byte, (list+1+overflow)*size)
	set64(file[root*size:], root)
	set16(file[root*size+8:], leafPage)
	p := file[list*size:]
	set64(p, list)
	set16(p[8:], freelistPage)
	set16(p[10:], 0xFFFF)
	set32(p[12:], uint32(overflow))
	set64(p[pageHeader:], uint64(len(free)))
	for i, id := range free {
		set64(p[pageHeader+8+8*i:], id)
	}
	walk := func(ctx context.Context, m meta) error {
		w := &walker{ctx: ctx, r: bytes.NewReader(file), meta: m, visit: func(_, _, _ []byte) {}}
		return w.walk()
	}
	sound := meta{pageSize: size, root: root, freelist: list, high: high}
	must(t, walk(t.Context(), sound))
	if err := walk(t.Context(), meta{pageSize: size, root: root, freelist: noFreelist, high: high}); err != nil {
		t.Errorf("a file without a freelist: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	is(t, "a context that ended", walk(ctx, sound), context.Canceled)
	beyond := meta{pageSize: size, root: high - 1, high: high}
	is(t, "a reference beyond the file", walk(t.Context(), beyond), store.ErrCorrupt)
	set64(p[pageHeader:], 1<<40)
	is(t, "a list longer than its pages", walk(t.Context(), sound), store.ErrCorrupt)
}
