package bolt

import (
	"errors"
	"io/fs"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/brimgo/brim/internal/docpage"
	"github.com/brimgo/brim/internal/kv"
	"github.com/brimgo/brim/internal/seed"
	"github.com/brimgo/brim/internal/vfs"
	"github.com/brimgo/brim/store"
	"github.com/brimgo/brim/store/storetest"
)

// syncCounter is a file system that counts the syncs of journals, and has them fail on demand.
type syncCounter struct {
	vfs.OS
	syncs atomic.Int64
	fails atomic.Bool
}

type countedFile struct {
	vfs.File
	c *syncCounter
}

func (c *syncCounter) OpenFile(name string, flag int, perm fs.FileMode) (vfs.File, error) {
	f, err := c.OS.OpenFile(name, flag, perm)
	if err == nil && strings.HasSuffix(name, kv.LogSuffix) {
		f = countedFile{f, c}
	}
	return f, err
}

func (f countedFile) SyncData() error {
	if f.c.fails.Load() {
		return syscall.EIO
	}
	f.c.syncs.Add(1)
	return f.File.SyncData()
}

// countSyncs has the stores of a test use a syncCounter.
func countSyncs(t *testing.T) *syncCounter {
	c := &syncCounter{}
	vfs.Default = c
	t.Cleanup(func() { vfs.Default = vfs.OS{} })
	return c
}

func TestConformanceOfSyncEvery(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T) store.Store { return openTemp(t, &Options{SyncEvery: time.Millisecond}) }, &storetest.Options{
		OpenAt: func(t *testing.T, clock func() time.Time) store.Store {
			return unsynced(openTemp(t, &Options{Clock: clock, SyncEvery: time.Hour}))
		},
		Reopen: func(t *testing.T, s store.Store, clock func() time.Time) store.Store {
			closeStore(t, s)
			return openAt(t, s.(*Store).db.File().Path(), &Options{Clock: clock, SyncEvery: time.Hour})
		},
		Operations: seed.Attempts(500, 3_000), // TestConformance makes a full run
		Keys:       500,
	})
}

// TestSyncEvery: no answer waits for a sync, a sync comes at each interval in which something was
// written, and a kill loses nothing.
func TestSyncEvery(t *testing.T) {
	c := countSyncs(t)
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		s := openTemp(t, &Options{SyncEvery: time.Second})
		syncs := func(want int64, when string) {
			t.Helper()
			synctest.Wait()
			if got := c.syncs.Swap(0); got != want {
				t.Errorf("%d syncs %s, want %d", got, when, want)
			}
		}
		for range 2 { // the second begins the journal
			fillup(t, s, "k", 1)
		}
		time.Sleep(1500 * time.Millisecond)
		syncs(0, "of an empty journal")
		for range 100 {
			fillup(t, s, "k", 1)
		}
		syncs(0, "before the interval has passed")
		killed := openAt(t, copyTo(t, s, dir), nil)
		levelIs(t, killed, "k", 102)
		closeStore(t, killed)
		c.syncs.Store(0)
		time.Sleep(time.Second)
		syncs(1, "at the end of an interval")
		time.Sleep(3 * time.Second)
		syncs(0, "while nothing changes")
		fillup(t, s, "k", 1)
		must(t, s.Sync(t.Context()))
		syncs(1, "that a caller asks for")
		must(t, s.Sync(t.Context()))
		time.Sleep(time.Second)
		syncs(0, "after that")
		fillup(t, s, "k", 1)
		closeStore(t, s)
		levelIs(t, openAt(t, s.db.File().Path(), nil), "k", 104)
	})
}

// TestOneSync: behind the two commits of a new store, a change is one sync of the journal, as
// docs/internals/engine.md says.
func TestOneSync(t *testing.T) {
	c := countSyncs(t)
	s := openTemp(t, nil)
	for range 2 {
		fillup(t, s, "k", 1)
	}
	c.syncs.Store(0)
	const changes = 10
	for range changes {
		fillup(t, s, "k", 1)
	}
	words := map[int64]string{1: "one", 2: "two"}
	says := "| Log | `bolt.Open` | Update returns | a frame of the log, " + words[c.syncs.Load()/changes] + " fdatasync |"
	if lacks := docpage.Lacks("../docs/internals/engine.md", says); lacks != "" || c.syncs.Load()%changes != 0 {
		t.Errorf("%d syncs of %d changes. %s", c.syncs.Load(), changes, lacks)
	}
}

// TestFailedSync: after a sync that failed, nobody knows which acknowledged decisions last. So the
// store refuses all work, and its Close fails. A store that opens the file anew makes them durable.
func TestFailedSync(t *testing.T) {
	for _, asked := range []bool{false, true} {
		c := countSyncs(t)
		synctest.Test(t, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "limits.db")
			s := openAt(t, path, &Options{SyncEvery: time.Second})
			for range 5 {
				fillup(t, s, "k", 1)
			}
			c.fails.Store(true)
			if asked {
				failsWith(t, s.Sync(t.Context()), store.ErrMisconfigured, "close the store and open it again")
			} else {
				time.Sleep(time.Second)
				synctest.Wait()
			}
			c.fails.Store(false) // the next sync would succeed, and prove nothing
			for _, call := range callsOf(s) {
				if _, err := call.do(t.Context()); !errors.Is(err, store.ErrMisconfigured) {
					t.Errorf("%s after a failed sync: %v; want ErrMisconfigured", call.name, err)
				}
			}
			failsWith(t, s.Close(), store.ErrMisconfigured, "could not be synced")
			c.syncs.Store(0)
			again := openAt(t, path, &Options{SyncEvery: time.Second})
			levelIs(t, again, "k", 5)
			if c.syncs.Load() == 0 {
				t.Error("the journal was not synced when it was replayed")
			}
		})
	}
}

// TestSyncEveryNeedsAJournal: a store over an application's database has none.
func TestSyncEveryNeedsAJournal(t *testing.T) {
	if _, err := New(openApp(t), &Options{SyncEvery: time.Second}); err == nil || !strings.Contains(err.Error(), "SyncEvery needs a journal") {
		t.Errorf("New: %v", err)
	}
}

// BenchmarkLoneCaller fills one bucket after the other, with a sync for each answer and without.
func BenchmarkLoneCaller(b *testing.B) {
	for name, every := range map[string]time.Duration{"each": 0, "100ms": 100 * time.Millisecond} {
		b.Run(name, func(b *testing.B) {
			s := openTemp(b, &Options{SyncEvery: every, LogSize: DefaultLogSize})
			keys := make([]string, 256)
			for i := range keys {
				keys[i] = strings.Repeat("k", 1+i%16) + string(rune('a'+i/16))
				fillup(b, s, keys[i], 1)
			}
			i := 0
			for b.Loop() {
				if _, err := s.Fill(b.Context(), op(steady, keys[i%len(keys)], 1, store.Always)); err != nil {
					b.Fatal(err)
				}
				i++
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "fills/s")
		})
	}
}
