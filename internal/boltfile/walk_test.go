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

// key returns the key of entry i of a branch page.
func (im *image) key(page []byte, i int) []byte {
	e := entry(page, i)
	return e[order.Uint32(e):][:order.Uint32(e[4:])]
}

// leafKey returns the key of entry i of the first leaf page of ours.
func (im *image) leafKey(i int) []byte {
	e := entry(im.leaf(), i)
	return e[order.Uint32(e[4:]):][:order.Uint32(e[8:])]
}

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
		{"overflow into a used page", func(im *image) { set32(im.leaf()[12:], 1) }, "bytes before it"},

		{"empty branch", func(im *image) { set16(im.branch()[10:], 0) }, "too few entries: 0"},
		{"branch with more entries than room", func(im *image) {
			set16(im.branch()[10:], 0xFFFF)
		}, "cannot have 65535 entries"},
		{"branch with an entry more", func(im *image) {
			set16(im.branch()[10:], order.Uint16(im.branch()[10:])+1)
		}, "entry 0 of a page does not lie"},
		{"position in a branch", func(im *image) { set32(entry(im.branch(), 0), 1<<31) }, "entry 0 of a page does not lie"},
		{"position that wraps around", func(im *image) {
			set32(entry(im.branch(), 0), 0xFFFFFFF0)
		}, "entry 0 of a page does not lie"},
		{"size of a key in a branch", func(im *image) {
			set32(entry(im.branch(), 0)[4:], 1<<31)
		}, "entry 0 of a page does not lie"},
		{"order in a branch", func(im *image) { im.key(im.branch(), 0)[0]++ }, "out of order"},
		{"key in a branch that is not the first of its page", func(im *image) {
			im.key(im.branch(), 1)[5]-- // still between the pages
		}, "differ from those in the page above"},
		{"first key in a branch", func(im *image) { im.key(im.branch(), 0)[5]-- }, "differ from those in the page above"},
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

		{"empty leaf", func(im *image) { set16(im.leaf()[10:], 0) }, "cannot have 0 entries"},
		{"leaf with more entries than room", func(im *image) {
			set16(im.leaf()[10:], 0xFFFF)
		}, "cannot have 65535 entries"},
		{"position in a leaf", func(im *image) {
			set32(entry(im.leaf(), 1)[4:], 0xFFFFFFF0)
		}, "entry 1 of a page does not lie"},
		{"size of a value", func(im *image) { set32(entry(im.leaf(), 0)[12:], 1<<31) }, "entry 0 of a page does not lie"},
		{"empty key", func(im *image) { set32(entry(im.leaf(), 0)[8:], 0) }, "out of order"},
		{"order in a leaf", func(im *image) { im.leafKey(0)[0]++ }, "out of order"},
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

		{"number of a small bucket's page", func(im *image) {
			set64(im.value(1)[inBucketSize:], 2)
		}, "small bucket's page"},
		{"overflow of a small bucket's page", func(im *image) {
			set32(im.value(1)[inBucketSize+12:], 1)
		}, "small bucket's page"},
		{"room in a small bucket's page", func(im *image) {
			e := entry(im.root(), 1)
			set32(e[12:], order.Uint32(e[12:])+1)
		}, "end 1 bytes before it"},
		{"bucket with a page and more", func(im *image) {
			set32(entry(im.root(), 0)[12:], inBucketSize+1)
		}, "followed by 1 bytes"},

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
		{"size of a page that is no power of two", func(im *image) {
			im.metas(func(m []byte) { set32(m[8:], 4097) })
		}, "a page size of 4097"},
		{"high water mark", func(im *image) { im.metas(func(m []byte) { set64(m[40:], 1<<49) }) }, "cut short"},
		{"high water mark that wraps around", func(im *image) {
			im.metas(func(m []byte) { set64(m[40:], 1<<52) }) // 2^64 bytes
		}, "cut short"},
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

// node returns a page as bbolt writes it. An entry with a child is that of a branch page.
type node struct {
	key   string
	child uint64
}

func (n node) value() []byte {
	if n.child > 0 { // of the root page: a bucket
		return append(order.AppendUint64(nil, n.child), make([]byte, 8)...)
	}
	return []byte("value")
}

func newPage(id uint64, kind uint16, size int, nodes ...node) []byte {
	p := make([]byte, pageHeader+elementSize*len(nodes), size)
	set64(p, id)
	set16(p[8:], kind)
	set16(p[10:], uint16(len(nodes)))
	set32(p[12:], uint32(size/testPage-1))
	for i, n := range nodes {
		e, position := p[pageHeader+i*elementSize:], uint32(len(p)-pageHeader-i*elementSize)
		if kind == branchPage {
			set32(e, position)
			set32(e[4:], uint32(len(n.key)))
			set64(e[8:], n.child)
			p = append(p, n.key...)
			continue
		}
		if n.child > 0 {
			set32(e, bucketElement)
		}
		set32(e[4:], position)
		set32(e[8:], uint32(len(n.key)))
		set32(e[12:], uint32(len(n.value())))
		p = append(append(p, n.key...), n.value()...)
	}
	return p[:size]
}

const testPage = 1024

// TestShapes walks trees that bbolt can use, and trees whose pages are whole, but do not fit
// together.
func TestShapes(t *testing.T) {
	const root = 2
	leaf := func(id uint64, keys ...string) []byte {
		nodes := make([]node, len(keys))
		for i, key := range keys {
			nodes[i].key = key
		}
		return newPage(id, leafPage, testPage, nodes...)
	}
	branch := func(id uint64, nodes ...node) []byte { return newPage(id, branchPage, testPage, nodes...) }
	for _, c := range []struct {
		name  string
		pages [][]byte // from page 3 on, the root page of a bucket
		says  string   // nothing if the walk succeeds
	}{
		{"an empty leaf", [][]byte{leaf(3)}, ""},
		{"a leaf", [][]byte{leaf(3, "a", "b")}, ""},
		{"two levels", [][]byte{branch(3, node{"a", 4}, node{"c", 5}), leaf(4, "a", "b"), leaf(5, "c")}, ""},
		{"a branch with one page", [][]byte{branch(3, node{"a", 4}), leaf(4, "a", "b")}, "too few entries: 1"},
		{"a branch without pages", [][]byte{branch(3)}, "too few entries: 0"},
		{"an empty page", [][]byte{branch(3, node{"a", 4}, node{"c", 5}), leaf(4), leaf(5, "c")}, "cannot have 0 entries"},
		{"leaves at two levels", [][]byte{
			branch(3, node{"a", 4}, node{"c", 5}), leaf(4, "a"), branch(5, node{"c", 6}, node{"d", 7}), leaf(6, "c"), leaf(7, "d"),
		}, "page 6 is at another level"},
		{"a key of the page above", [][]byte{
			branch(3, node{"a", 4}, node{"e", 5}), branch(4, node{"a", 6}, node{"c", 7}), branch(5, node{"d", 8}, node{"g", 9}),
			leaf(6, "a"), leaf(7, "c"), leaf(8, "d"), leaf(9, "g"),
		}, "out of order"},
		{"a last key beyond the page", [][]byte{branch(3, node{"a", 4}, node{"c", 5}), leaf(4, "a", "c"), leaf(5, "c")}, "out of order"},
		{"a page more than its entries need", [][]byte{newPage(3, leafPage, 2*testPage, node{key: "a"})}, "end 2010 bytes before it"},
	} {
		t.Run(c.name, func(t *testing.T) {
			file := append(make([]byte, root*testPage), newPage(root, leafPage, testPage, node{"ours", 3})...)
			for _, p := range c.pages {
				file = append(file, p...)
			}
			m := meta{pageSize: testPage, root: root, freelist: noFreelist, high: uint64(len(file)) / testPage}
			w := &walker{ctx: t.Context(), r: bytes.NewReader(file), meta: m, visit: func(_, _, _ []byte) {}}
			switch err := w.walk(); {
			case c.says == "":
				must(t, err)
			case err == nil || !strings.Contains(err.Error(), c.says):
				t.Errorf("error %v does not say %q", err, c.says)
			default:
				is(t, "the walk", err, store.ErrCorrupt)
			}
		})
	}
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
