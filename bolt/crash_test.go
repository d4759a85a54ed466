package bolt

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"go.etcd.io/bbolt"

	"github.com/brimgo/brim/internal/boltfile"
	"github.com/brimgo/brim/internal/boltrecord"
	"github.com/brimgo/brim/internal/differ"
	"github.com/brimgo/brim/internal/invariant"
	"github.com/brimgo/brim/internal/kv"
	"github.com/brimgo/brim/internal/seed"
	"github.com/brimgo/brim/internal/vfs"
	"github.com/brimgo/brim/store"
)

// disk is a file system on a disk whose power fails. It takes images of all that the disk can hold
// then. Package lab/crash has a larger one, for longer runs.
type disk struct {
	vfs.OS
	mu          sync.Mutex
	r           *rand.Rand
	steps       int // writes, syncs, and changes of names and sizes so far
	fails, last int // the steps that fail; 0 if none does
	err         error
	every       int                       // an image is taken after one step of so many
	names, kept map[string]*inode         // now, and after a power cut at least
	renames     []func(map[string]*inode) // from kept to names
	images      []image
	from, to    int // the store has the moment of one of these calls
	synced      int // after a power cut, it has that of this call at least
}

// image is the content of the disk after a kill or a power cut.
type image struct {
	files    map[string][]byte
	from, to int
	what     string
}

var imageSeed = maphash.MakeSeed()

// id is the same for two images of the same content and moments.
func (im *image) id() uint64 {
	var h maphash.Hash
	h.SetSeed(imageSeed)
	for _, name := range slices.Sorted(maps.Keys(im.files)) {
		_, _ = fmt.Fprint(&h, name, len(im.files[name]), im.from, im.to)
		_, _ = h.Write(im.files[name])
	}
	return h.Sum64()
}

type inode struct {
	durable []byte
	pending []write // since the last sync
	size    int64
}

// write is a write to a file, or a change of its size if data is nil.
type write struct {
	at   int64
	data []byte
}

type diskFile struct {
	vfs.File
	d *disk
	*inode
}

func newDisk(r *rand.Rand, fails, every int) *disk {
	d := &disk{r: r, fails: fails, last: fails, err: syscall.ENOSPC, every: every, names: map[string]*inode{}, kept: map[string]*inode{}}
	switch r.IntN(4) {
	case 0:
		d.err = syscall.EIO // the store refuses all work then
	case 1:
		d.last += r.IntN(40)
	}
	if fails == 0 {
		d.last = 0
	}
	return d
}

// step makes a change, or has it fail. The caller holds mu.
func (d *disk) step(change func() error) error {
	if d.steps++; d.steps >= d.fails && d.steps <= d.last {
		return d.err
	}
	err := change()
	if err == nil && d.r.IntN(d.every) == 0 {
		d.take()
	}
	return err
}

// take takes an image after a kill, and one after a power cut.
func (d *disk) take() {
	d.images = append(d.images,
		image{d.image(false), d.from, d.to, fmt.Sprint("a kill after step ", d.steps)},
		image{d.image(true), d.synced, d.to, fmt.Sprint("a power cut after step ", d.steps)})
}

// image returns the content of the disk. If the power was cut, names and sectors are lost that were
// not synced.
func (d *disk) image(cut bool) map[string][]byte {
	names, n, share := maps.Clone(d.kept), len(d.renames), 0.0
	if cut {
		n, share = d.r.IntN(n+1), d.r.Float64()
	}
	for _, rename := range d.renames[:n] {
		rename(names)
	}
	files := make(map[string][]byte)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		files[name] = names[name].content(func() bool { return d.r.Float64() < share })
	}
	return files
}

// content returns the content of a file without the sectors that are lost.
func (f *inode) content(lost func() bool) []byte {
	b := slices.Clone(f.durable)
	resize := func(size int64) {
		b = append(b, make([]byte, max(0, size-int64(len(b))))...)
	}
	for _, w := range f.pending {
		if w.data == nil {
			resize(w.at)
			b = b[:w.at]
		}
		for data, at := w.data, w.at; len(data) > 0; {
			n := min(int64(len(data)), 512-at%512)
			if !lost() {
				resize(at + n)
				copy(b[at:], data[:n])
			}
			data, at = data[n:], at+n
		}
	}
	return b
}

func (f *inode) sync() error {
	f.durable, f.pending = f.content(func() bool { return false }), nil
	return nil
}

// rename changes names. The caller holds mu.
func (d *disk) rename(change func(map[string]*inode)) {
	change(d.names)
	d.renames = append(d.renames, change)
}

// move makes a change of names that the system makes, too.
func (d *disk) move(do func() error, change func(names map[string]*inode)) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.step(func() error {
		err := do()
		if err == nil {
			d.rename(change)
		}
		return err
	})
}

func (d *disk) OpenFile(path string, flag int, perm fs.FileMode) (vfs.File, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	file, err := d.OS.OpenFile(path, flag, perm)
	if err != nil {
		return nil, err
	}
	name := filepath.Base(path)
	if d.names[name] == nil {
		made := &inode{}
		d.rename(func(names map[string]*inode) { names[name] = made })
	}
	return &diskFile{file, d, d.names[name]}, nil
}

func (d *disk) Link(from, to string) error {
	return d.move(func() error { return d.OS.Link(from, to) }, func(names map[string]*inode) {
		names[filepath.Base(to)] = names[filepath.Base(from)]
	})
}

func (d *disk) Rename(from, to string) error {
	return d.move(func() error { return d.OS.Rename(from, to) }, func(names map[string]*inode) {
		names[filepath.Base(to)] = names[filepath.Base(from)]
		delete(names, filepath.Base(from))
	})
}

func (d *disk) RenameNew(string, string) error { return errors.ErrUnsupported } // Link is there

func (d *disk) Exchange(a, b string) error {
	return d.move(func() error { return d.OS.Exchange(a, b) }, func(names map[string]*inode) {
		a, b := filepath.Base(a), filepath.Base(b)
		names[a], names[b] = names[b], names[a]
	})
}

func (d *disk) Remove(path string) error {
	return d.move(func() error { return d.OS.Remove(path) }, func(names map[string]*inode) {
		delete(names, filepath.Base(path))
	})
}

func (d *disk) SyncDir(string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.step(func() error {
		d.kept, d.renames = maps.Clone(d.names), nil
		return nil
	})
}

func (f *diskFile) WriteAt(b []byte, at int64) (int, error) {
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	return f.write(b, at)
}

// write writes b, or half of it if the step fails. The caller holds mu.
func (f *diskFile) write(b []byte, at int64) (n int, err error) {
	do := func() error {
		n, err = f.File.WriteAt(b, at)
		f.pending = append(f.pending, write{at, slices.Clone(b[:n])})
		f.size = max(f.size, at+int64(n))
		return err
	}
	if err = f.d.step(do); err != nil && n == 0 {
		b = b[:len(b)/2]
		_ = do()
		return n, f.d.err
	}
	return n, err
}

func (f *diskFile) Truncate(size int64) error {
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	return f.d.step(func() error {
		f.pending, f.size = append(f.pending, write{at: size}), size
		return f.File.Truncate(size)
	})
}

func (f *diskFile) Sync() error { return f.SyncData() }

func (f *diskFile) SyncData() error {
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	return f.d.step(func() error {
		if filepath.Ext(f.Handle().Name()) == kv.LogSuffix {
			f.d.synced = f.d.from
		}
		return f.sync()
	})
}

func (f *diskFile) Named(name string) (vfs.File, error) {
	named, err := f.File.Named(name)
	return &diskFile{named, f.d, f.inode}, err
}

// Attach takes the writes of bbolt. bbolt has no hook for its syncs, which come before and after
// each write of a meta page, and after a change of the size.
func (d *disk) Attach(file vfs.File, db *bbolt.DB) {
	d.mu.Lock()
	defer d.mu.Unlock()
	f := file.(*diskFile)
	if f.size == 0 { // bbolt has made the file
		if info, err := f.Stat(); err == nil {
			f.size, f.durable = info.Size(), make([]byte, info.Size())
			_, _ = f.ReadAt(f.durable, 0)
		}
	}
	// The field is not exported. A later version of bbolt without it fails the test.
	field := reflect.ValueOf(db).Elem().FieldByName("ops").FieldByName("writeAt")
	hook := (*func(b []byte, at int64) (int, error))(unsafe.Pointer(field.UnsafeAddr()))
	page := int64(db.Info().PageSize)
	*hook = func(b []byte, at int64) (n int, err error) {
		d.mu.Lock()
		defer d.mu.Unlock()
		if info, err := f.Stat(); err == nil && info.Size() != f.size {
			f.size = info.Size()
			f.pending = append(f.pending, write{at: f.size})
			if !db.NoGrowSync {
				_ = f.sync()
			}
		}
		meta := at <= page && int64(len(b)) == page && !db.NoSync
		if meta {
			err = d.step(f.sync)
		}
		if err == nil {
			n, err = f.write(b, at)
		}
		if err == nil && meta {
			err = d.step(f.sync)
		}
		return n, err
	}
}

// moment is all that can be observed of a store after a call.
type moment struct {
	records map[string]store.Record
	time    int64  // of the last change
	unknown change // of a call whose outcome is unknown; the store may have it or not
}

// change is that of a call: a transaction, or a key that was deleted, or nothing.
type change struct {
	txn     store.Txn
	removed string
}

// crashKeys are the keys of all buckets.
var crashKeys = strings.Split("abcdefghijklmnopqrstuvwx", "")

func observe(s *Store) (m moment, err error) {
	m = moment{records: make(map[string]store.Record), time: s.db.Time()}
	if s.options.NoJournal { // the time is in the file alone
		err = s.db.File().View(func(tx *bbolt.Tx) error {
			_, meta, err := s.table.Find(tx)
			if err == nil {
				var totals boltfile.Totals
				totals, err = s.table.Totals(meta)
				m.time = totals.Time
			}
			return err
		})
	}
	return m, errors.Join(err, s.db.Read(func(tx *kv.Tx) error {
		for _, key := range crashKeys {
			value, err := tx.Get(s.table, key)
			if err != nil {
				return err
			}
			if value == nil {
				continue
			}
			if m.records[key], err = boltrecord.Decode(value, 0); err != nil {
				return err
			}
		}
		return nil
	}))
}

// same reports whether a store of that moment can look like found.
func (m *moment) same(found *moment) bool {
	return m.changed(change{}, found) || m.changed(m.unknown, found)
}

// changed reports whether a store of that moment can look like found after a change.
func (m *moment) changed(by change, found *moment) bool {
	if by.txn == nil && by.removed == "" {
		return maps.Equal(m.records, found.records) && m.time == found.time
	}
	after, now := maps.Clone(m.records), int64(0)
	records := make([]*store.Record, len(by.txn))
	for i, op := range by.txn {
		now = max(now, found.records[op.Key].Time)
		if op.Mode == store.Block { // which leaves the time as it is
			now = found.records[op.Key].BlockedUntil - op.BlockFor.Microseconds()
		}
		r, ok := m.records[op.Key]
		if !ok {
			r = store.NewRecord(now)
		}
		records[i] = &r
	}
	_, effects := store.Decide(by.txn, records, now, store.DefaultMaxSkew)
	for i, effect := range effects {
		if effect&store.Write != 0 {
			after[by.txn[i].Key] = *records[i]
		}
	}
	delete(after, by.removed)
	return maps.Equal(after, found.records) && found.time >= m.time
}

// crash is a history of a store on a disk.
type crash struct {
	*disk
	t       *testing.T
	o       *Options
	path    string
	calls   *rand.Rand
	s       *Store
	moments []moment // before the first call, and after each
}

// reopen opens the store.
func (c *crash) reopen() {
	c.t.Helper()
	var err error
	for range 50 { // while steps fail
		if c.s, err = Open(c.path, c.o); err == nil || !c.failed() {
			break
		}
	}
	must(c.t, err)
	found, err := observe(c.s)
	must(c.t, err)
	if last := len(c.moments) - 1; last >= 0 && !c.moments[last].same(&found) {
		c.t.Fatalf("after it was opened again, the store differs:\n%s", differ.Fields(found, c.moments[last]))
	}
	c.moments = append(c.moments, found)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.synced = len(c.moments) - 1
}

func (c *crash) failed() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.fails > 0 && c.steps >= c.fails
}

// call makes a random call, which does a change if err is nil.
func (c *crash) call() (does change, err error) {
	ctx, r := context.Background(), c.calls
	key := func() string { return crashKeys[r.IntN(len(crashKeys))] }
	b := func(key string) store.Bucket {
		return store.Limit{Capacity: float64(50 + r.IntN(50)), LeakRate: float64(r.IntN(3))}.For(key)
	}
	switch n := r.IntN(20); {
	case n < 1:
		does.removed = key()
		err = c.s.Delete(ctx, does.removed)
	case n < 5:
		err = c.s.Visit(ctx, "", func(store.Entry) bool { return true }) // which makes a checkpoint
	case n < 6:
		_, _, err = c.s.Compact(ctx)
	case n < 7:
		err = c.s.Sync(ctx)
	case n < 8:
		if err := c.s.Close(); err != nil && !c.failed() {
			c.t.Fatalf("Close: %v", err)
		}
		c.reopen()
	default:
		first := key()
		txn := store.Txn{{Bucket: b(first), Amount: float64(1 + r.IntN(9)), Mode: store.Always}}
		switch n % 4 {
		case 0:
			txn[0].Hold = float64(1 + r.IntN(5))
		case 1:
			txn[0].Mode, txn[0].Amount, txn[0].BlockFor = store.Block, 0, time.Hour
		case 2:
			other := crashKeys[(slices.Index(crashKeys, first)+1)%len(crashKeys)]
			txn = append(txn, store.Op{Bucket: b(other), Amount: 7, Mode: store.IfFits})
		}
		does.txn = txn
		var results []store.Result
		if results, err = c.s.Apply(ctx, txn); err == nil {
			err = results[0].Err
		}
	}
	return does, err
}

// run makes a history of n calls.
func (c *crash) run(n int) {
	c.reopen()
	for range n {
		last := len(c.moments) - 1
		c.set(last, last+1)
		does, err := c.call()
		if len(c.moments) == last+2 { // opened again
			c.set(last+1, last+1)
			continue
		}
		next := c.moments[last]
		found, oerr := observe(c.s)
		switch err := errors.Join(err, oerr); {
		case err == nil:
			if !next.changed(does, &found) {
				c.t.Fatalf("%+v changed the store wrongly:\n%s", does, differ.Fields(found, next))
			}
			next = found
		case !c.failed():
			c.t.Fatalf("a call failed without a cause: %v", err)
		case errors.Is(err, store.ErrUnknownOutcome):
			next.unknown = does
		}
		c.moments = append(c.moments, next)
		c.set(last+1, last+1)
	}
	c.mu.Lock()
	c.take()
	c.mu.Unlock()
	_ = c.s.Close()
}

// set notes which moments the store may have.
func (c *crash) set(from, to int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.from, c.to = from, to
	if c.o.SyncEvery == 0 {
		c.synced = from
	}
}

// check opens an image, and compares it with the moments.
func (c *crash) check(dir string, im image) {
	c.t.Helper()
	must(c.t, os.Mkdir(dir, 0o700))
	defer func() { _ = os.RemoveAll(dir) }()
	for name, content := range im.files {
		must(c.t, os.WriteFile(filepath.Join(dir, name), content, 0o600))
	}
	for _, again := range []string{"", ", opened again"} {
		s, err := Open(filepath.Join(dir, filepath.Base(c.path)), c.o)
		if err != nil {
			c.t.Fatalf("%s%s: %v", im.what, again, err)
		}
		found, err := observe(s)
		visited := 0
		err = errors.Join(err, s.Verify(c.t.Context()), s.Visit(c.t.Context(), "", func(store.Entry) bool { visited++; return true }), s.Close())
		if err != nil || visited != len(found.records) {
			c.t.Fatalf("%s%s: %d buckets of %d, %v", im.what, again, visited, len(found.records), err)
		}
		possible := c.moments[im.from : min(im.to, len(c.moments)-1)+1]
		if !slices.ContainsFunc(possible, func(m moment) bool { return m.same(&found) }) {
			for _, m := range possible {
				c.t.Errorf("%s%s: the store differs from one of %d moments:\n%s", im.what, again, len(possible), differ.Fields(found, m))
			}
			c.t.FailNow()
		}
	}
}

// TestCrash kills a store and cuts its power after every step that its files take, or with the race
// detector after one in four, through checkpoints, compactions and restarts. It also has a step
// fail, and then goes on. The store always has all words of all records as they were after the last
// call that was answered, or after the one in flight.
func TestCrash(t *testing.T) {
	number, err := seed.New()
	must(t, err)
	t.Logf("BRIM_SEED=%d", number)
	dir, err := os.MkdirTemp("/dev/shm", "brim-bolt-") // where a sync costs nothing
	if err != nil {
		dir = t.TempDir()
	}
	defer func() { _ = os.RemoveAll(dir) }()
	defer func() { vfs.Default = vfs.OS{} }()
	for name, o := range map[string]*Options{
		"journal":    {logSegment: tiny, PruneEvery: -1},
		"no journal": {NoJournal: true, PruneEvery: -1},
		"sync every": {logSegment: tiny, PruneEvery: -1, SyncEvery: time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			images, steps := 0, 0
			history := func(part uint64, fails, every int) {
				r := rand.New(rand.NewPCG(number, part))
				at := filepath.Join(dir, "disk")
				must(t, os.Mkdir(at, 0o700))
				defer func() { _ = os.RemoveAll(at) }()
				c := &crash{disk: newDisk(r, fails, every), t: t, o: o, path: filepath.Join(at, "limits.db")}
				c.calls = rand.New(rand.NewPCG(number, part))
				vfs.Default = c.disk
				c.run(60)
				vfs.Default = vfs.OS{}
				steps = max(steps, c.steps)
				seen := make(map[uint64]bool)
				for _, im := range c.images {
					if id := im.id(); !seen[id] {
						seen[id] = true
						images++
						c.check(filepath.Join(dir, "image"), im)
					}
				}
			}
			every, faults := 1, seed.Attempts(100, 6000)
			if invariant.On { // which takes most of the time
				every, faults = 4, faults/8
			}
			history(0, 0, every)
			for i := range faults {
				history(uint64(1+i), 1+rand.New(rand.NewPCG(number, uint64(i))).IntN(steps), 40)
			}
			t.Logf("%d steps, %d images, %d failed steps", steps, images, faults)
		})
	}
}
