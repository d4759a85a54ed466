//go:build linux

package full

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/brimgo/brim/bolt"
	"github.com/brimgo/brim/internal/journal"
	"github.com/brimgo/brim/internal/paging"
	"github.com/brimgo/brim/lab/internal/attack"
	"github.com/brimgo/brim/store"
)

// mount mounts a file system of a mebibyte. It returns false if this process may not.
func mount(t *testing.T) (dir string, ok bool) {
	t.Helper()
	dir = t.TempDir()
	err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=1m")
	if errors.Is(err, syscall.EPERM) {
		t.Log("NOT TESTED: a small file system can be mounted by root only")
		return "", false
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	return dir, true
}

// fillUp writes a file that leaves only so many bytes of room.
func fillUp(path string, room int64) error {
	var is syscall.Statfs_t
	if err := syscall.Statfs(filepath.Dir(path), &is); err != nil {
		return err
	}
	size := max(0, int64(is.Bavail*uint64(is.Bsize))-room)
	return os.WriteFile(path, make([]byte, size), 0o600)
}

// regions lists sizes of a region of the journal: two of the largest have no room on the disk. With
// 0 there is no journal.
var regions = [...]int64{0, 8 << 10, 64 << 10, journal.DefaultRegion}

// optionsOf returns the options of a store with such a journal.
func optionsOf(region int64) *bolt.Options {
	journal.DefaultRegion = region
	return &bolt.Options{LockTimeout: -1, NoJournal: region == 0}
}

// load is a store and all that it has acknowledged.
type load struct {
	s      *bolt.Store
	region int64 // of the journal; 0 if there is none
	acked  int   // batches
}

const batch = 50 // buckets

// buckets returns the buckets of a batch.
func buckets(n int) (all [batch]store.Bucket) {
	for i := range all {
		all[i] = store.Limit{Capacity: 1}.For(fmt.Sprintf("batch %04d key %02d", n, i))
	}
	return all
}

// put fills buckets that are new, all or none.
func (l *load) put() error {
	txns := make([]store.Txn, batch)
	for i, b := range buckets(l.acked) {
		txns[i] = store.Txn{{Bucket: b, Amount: 1, Mode: store.Always}}
	}
	_, err := l.s.Apply(context.Background(), txns...)
	if err == nil {
		l.acked++
	}
	return err
}

// read compares the store with what was acknowledged, and with the batch after that, which was not.
func (l *load) read(when string) error {
	for n := range l.acked + 1 {
		all := buckets(n)
		states, err := l.s.Read(context.Background(), all[:]...)
		if err != nil {
			return fmt.Errorf("%s: %w", when, err)
		}
		for i, st := range states {
			if there := st.Level > 0; there != (n < l.acked) {
				return fmt.Errorf("%s: bucket %q has level %g after %d batches", when, all[i].Key, st.Level, l.acked)
			}
		}
	}
	return nil
}

// checkFull compares the store on the full disk with what was acknowledged. Visit and Verify of a
// store with a journal write to the file first, for which there may be no room.
func (l *load) checkFull() error {
	const when = "on the full disk"
	err := l.read(when)
	visit := l.s.Visit(context.Background(), "batch ", func(store.Entry) bool { return false })
	if l.region > 0 && visit != nil {
		return errors.Join(err, wrong("Visit", visit))
	}
	return errors.Join(err, l.check(when))
}

// check compares the file with what was acknowledged.
func (l *load) check(when string) error {
	entries, err := paging.All(context.Background(), l.s, "batch ")
	if err == nil && len(entries) != l.acked*batch {
		err = fmt.Errorf("%d buckets, want %d", len(entries), l.acked*batch)
	}
	if err = errors.Join(err, l.s.Verify(context.Background())); err != nil {
		return fmt.Errorf("%s: %w", when, err)
	}
	return nil
}

// wrong returns what is wrong about the error of a call on a full disk, or nil.
func wrong(call string, err error) error {
	switch {
	case !errors.Is(err, store.ErrUnavailable) || errors.Is(err, store.ErrUnknownOutcome):
		return fmt.Errorf("%s: error %w, want ErrUnavailable", call, err)
	case !strings.Contains(err.Error(), "no space left"):
		return fmt.Errorf("%s: error %w does not tell the cause", call, err)
	case strings.Contains(err.Error(), ".new-"):
		return fmt.Errorf("%s: error %w names a temporary file", call, err)
	}
	return nil
}

// TestCatches: an answer that was not so, and an error that says too little, are seen.
func TestCatches(t *testing.T) {
	l := &load{region: 64 << 10}
	if err := l.reopen(filepath.Join(t.TempDir(), "limits.db")); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.s.Close() }()
	if err := errors.Join(l.put(), l.put(), l.check("as it is")); err != nil {
		t.Fatal(err)
	}
	for _, acked := range []int{1, 3} {
		l.acked = acked
		if l.check("") == nil || l.read("") == nil {
			t.Errorf("%d batches were acknowledged and 2 are there, which went unseen", acked)
		}
	}
	for name, err := range map[string]error{
		"success":          nil,
		"unknown":          fmt.Errorf("%w: no space left", store.ErrUnknownOutcome),
		"without a cause":  store.ErrUnavailable,
		"a temporary file": fmt.Errorf("%w: write limits.db.new-X: no space left", store.ErrUnavailable),
	} {
		if wrong("call", err) == nil {
			t.Errorf("%s: it went unseen", name)
		}
	}
}

func TestFullDisk(t *testing.T) {
	seed, err := attack.NewSeed()
	if err != nil {
		t.Fatal(err)
	}
	dir, ok := mount(t)
	if !ok {
		return
	}
	row := attack.Begin(t, "full", "bolt", seed)
	meter := attack.Pick(
		attack.Budget{Count: 40, Time: 2 * time.Second},
		attack.Budget{Count: 2000, Time: 10 * time.Minute},
	).Start()
	for ; !meter.Spent() && !t.Failed(); meter.Done++ {
		part := seed.Part(meter.Done)
		rd := roundOf(part)
		if err := rd.run(t.Context(), dir); err != nil {
			short, err := rd.shrink(t.Context(), dir, err)
			t.Errorf("%v: %v\nrepeat: %s", short, err, part.Repeat("full", "TestFullDisk$"))
		}
	}
	row.Often = fmt.Sprintf("%d full disks", meter.Done)
	t.Logf("%s in %v; seed %d", row.Often, meter.Took(), seed)
}
