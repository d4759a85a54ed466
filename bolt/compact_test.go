package bolt

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/brimgo/brim/store"
)

func fillMany(t testing.TB, s store.Store, from, to int) {
	t.Helper()
	var txns []store.Txn
	for i := from; i < to; i++ {
		txns = append(txns, store.Txn{op(steady, fmt.Sprintf("key %06d", i), float64(i), store.Always)})
	}
	mustApply(t, s, txns...)
}

func TestCompact(t *testing.T) {
	t.Parallel()
	s := openTemp(t, nil)
	ctx := context.Background()
	const buckets = 12_000
	fillMany(t, s, 0, buckets)
	var gone []string
	for i := range buckets {
		if i%10 != 0 {
			gone = append(gone, fmt.Sprintf("key %06d", i))
		}
	}
	must(t, s.Delete(ctx, gone...))
	const uid, mode = 12345, 0o640
	must(t, os.Chmod(s.db.File().Path(), mode))
	root := os.Chown(s.db.File().Path(), uid, -1) == nil
	other := s.db.File().Path() + ".compact" // a file beside the store is its owner's, whatever its name
	must(t, os.WriteFile(other, []byte("theirs"), 0o600))
	before, after, err := s.Compact(ctx)
	must(t, err)
	info, err := os.Stat(s.db.File().Path())
	if info.Mode().Perm() != mode || root && owner(info) != uid {
		t.Errorf("mode %v, %+v: want them unchanged", info.Mode(), info.Sys())
	}
	if err != nil || info.Size() != after || after > before/4 {
		t.Errorf("%d bytes before, %d after, file %d, %v", before, after, info.Size(), err)
	}
	must(t, s.Verify(ctx))
	levelIs(t, s, "key 000070", 70)
	fillup(t, s, "key 000070", 1)
	_, err = Open(s.db.File().Path(), &Options{LockTimeout: -1})
	failsWith(t, err, store.ErrUnavailable, "locked")
	leftOver(t, filepath.Dir(s.db.File().Path()), "limits.db", "limits.db.compact", "limits.db.journal")
	closeStore(t, s)
	if got := bytesOf(t, other); string(got) != "theirs" {
		t.Errorf("the other file holds %q", got)
	}
	s = openAt(t, s.db.File().Path(), nil)
	levelIs(t, s, "key 000070", 71)
	levelIs(t, s, "key 000071", 0)

	empty := openTemp(t, nil)
	if _, _, err := empty.Compact(ctx); err != nil {
		t.Error(err)
	}
	fillup(t, empty, "k", 1)
	must(t, empty.Verify(ctx))
}

// TestCompactUnderLoad compacts while callers fill and read, and while a second Open waits for
// the file.
func TestCompactUnderLoad(t *testing.T) {
	s := openTemp(t, nil)
	path := s.db.File().Path()
	ctx := context.Background()
	fillMany(t, s, 0, 2000)
	var stop atomic.Bool
	var wg sync.WaitGroup
	filled := make([]int, 8)
	for c := range filled {
		wg.Go(func() {
			for !stop.Load() {
				fillup(t, s, fmt.Sprintf("caller %d", c), 1)
				filled[c]++
				levelIs(t, s, "key 001999", 1999)
			}
		})
	}
	opened := make(chan *Store)
	go func() {
		next, err := Open(path, &Options{LockTimeout: 1 << 40})
		if err != nil {
			t.Error(err)
		}
		opened <- next
	}()
	for range 10 {
		if _, _, err := s.Compact(ctx); err != nil {
			t.Error(err)
		}
		if err := s.Verify(ctx); err != nil {
			t.Error(err)
		}
	}
	stop.Store(true)
	wg.Wait()
	closeStore(t, s)
	next := <-opened // it waited for the first file, which is gone
	if next == nil {
		t.FailNow()
	}
	defer func() { _ = next.Close() }()
	for c, n := range filled {
		levelIs(t, next, fmt.Sprintf("caller %d", c), float64(n))
	}
	leftOver(t, filepath.Dir(path), "limits.db")
}
