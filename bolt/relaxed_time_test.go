package bolt

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"runtime"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/brimgo/brim/store"
)

// The tests of this file run in a bubble of testing/synctest, where time passes only when all
// goroutines wait. A write to the file takes no time there, unless the test holds the lock of the
// file: then the disk hangs.

// TestCached: in each window the store forgets buckets beyond Cached, but only those
// whose changes are in the file, and no more than it must.
func TestCached(t *testing.T) {
	for _, c := range []struct{ cached, inSection int }{
		{2 * sectionCount, 2},
		{2*sectionCount - 1, 1},
		{1, 1}, // a section always keeps one
		{0, 1 << 20 / sectionCount},
	} {
		t.Run(fmt.Sprint(c.cached), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const window, buckets = time.Second, 5 * sectionCount
				r := openRelaxed(t, filepath.Join(t.TempDir(), "limits.db"), &Options{
					RelaxedWindow: window, Cached: c.cached,
				})
				txns := make([]store.Txn, buckets)
				for i := range txns {
					txns[i] = store.Txn{op(steady, fmt.Sprint(i), float64(i), store.Always)}
				}
				if err := r.s.file.Lock(t.Context()); err != nil {
					t.Fatal(err)
				}
				if _, err := r.Apply(t.Context(), txns...); err != nil {
					t.Fatal(err)
				}
				time.Sleep(3 * window)
				if n := cachedBuckets(r, buckets); n != buckets {
					t.Errorf("%d buckets are in memory; %d wait to be written", n, buckets)
				}
				want := cachedBuckets(r, c.inSection)
				r.s.file.Unlock()
				time.Sleep(window)
				synctest.Wait()
				if n := cachedBuckets(r, buckets); n != want {
					t.Errorf("%d buckets are in memory, want %d", n, want)
				}
				for i := range buckets {
					levelIs(t, r, fmt.Sprint(i), float64(i))
				}
			})
		})
	}
}

// TestRelaxedLetsGo: Prune forgets the buckets that have expired or were removed, and no others.
// The store holds no memory of a bucket that it has forgotten, and keeps nothing of a write.
func TestRelaxedLetsGo(t *testing.T) {
	clock := newTestClock()
	r := openRelaxed(t, filepath.Join(t.TempDir(), "limits.db"), &Options{Clock: clock.now, RelaxedWindow: time.Hour})
	fillup(t, r, "k", 1)
	bucket := weak.Make(r.mem.section("k").buckets["k"])
	if err := r.Delete(t.Context(), "k"); err != nil {
		t.Fatal(err)
	}
	fillup(t, r, "live", 1)
	leaky := store.Limit{Capacity: 1, LeakRate: 1}
	if _, err := r.Fill(t.Context(), op(leaky, "expired", 1, store.IfFits)); err != nil {
		t.Fatal(err)
	}
	clock.advance(time.Hour)
	if n, err := r.Prune(t.Context()); n != 1 || err != nil {
		t.Fatalf("pruned %d, %v; want 1", n, err)
	}
	if live := r.mem.section("live").buckets["live"]; live == nil || cachedBuckets(r, 3) != 1 {
		t.Errorf("%d buckets are in memory, and the live one: %v; want it alone", cachedBuckets(r, 3), live != nil)
	}
	runtime.GC()
	if bucket.Value() != nil {
		t.Error("a bucket that was removed is in memory still")
	}
	keepsNothing(t, &r.mem.view)
}

// TestRelaxedKeepsWhatIsBeingWritten: a bucket whose change is on its way to the disk is not
// forgotten, because the file has the older state until then.
func TestRelaxedKeepsWhatIsBeingWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := openRelaxed(t, filepath.Join(t.TempDir(), "limits.db"), never)
		fillup(t, r, "k", 1)
		if err := r.Sync(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := r.Delete(t.Context(), "k"); err != nil {
			t.Fatal(err)
		}
		if err := r.s.file.Lock(t.Context()); err != nil {
			t.Fatal(err)
		}
		synced := make(chan error)
		go func() { synced <- r.Sync(t.Context()) }()
		synctest.Wait() // the change is collected, and the disk hangs
		everything := func(*cached) bool { return true }
		r.mem.evict(r.mem.section("k"), everything)
		levelIs(t, r, "k", 0)
		r.s.file.Unlock()
		if err := <-synced; err != nil {
			t.Fatal(err)
		}
		r.mem.evict(r.mem.section("k"), everything)
		if n := cachedBuckets(r, 1); n != 0 {
			t.Errorf("%d buckets are in memory after the write; want none", n)
		}
		levelIs(t, r, "k", 0)
	})
}

// TestRelaxedWaitsForASlowDisk: a change waits if the write of earlier changes takes longer than a
// window, until the write has ended or its own context ends.
func TestRelaxedWaitsForASlowDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const window = time.Second
		r := openRelaxed(t, filepath.Join(t.TempDir(), "limits.db"), &Options{RelaxedWindow: window})
		fillup(t, r, "k", 1)
		if err := r.s.file.Lock(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2*window - time.Nanosecond)
		synctest.Wait()
		start := time.Now()
		fillup(t, r, "k", 1) // acknowledged in the second window
		if took := time.Since(start); took != 0 {
			t.Errorf("a change in the second window waited for %v", took)
		}
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		short, cancel := context.WithTimeout(t.Context(), window)
		defer cancel()
		start = time.Now()
		_, err := r.Fill(short, op(steady, "k", 1, store.Always))
		failsWith(t, err, context.DeadlineExceeded, "bolt: fill: ")
		if errors.Is(err, store.ErrUnknownOutcome) {
			t.Errorf("error %v; nothing was applied", err)
		}
		if took := time.Since(start); took != window {
			t.Errorf("a change whose context ends after %v waited for %v", window, took)
		}
		levelIs(t, r, "k", 2)
		start = time.Now()
		if st, err := r.Fill(t.Context(), op(steady, "k", 1, store.Ask)); err != nil || !st.Accepted || st.Level != 2 {
			t.Errorf("a question while the disk hangs: %+v, %v", st, err)
		}
		if took := time.Since(start); took != 0 {
			t.Errorf("a question waited for %v; it changes nothing", took)
		}
		go func() {
			time.Sleep(5 * window)
			r.s.file.Unlock()
		}()
		start = time.Now()
		fillup(t, r, "k", 1)
		if took := time.Since(start); took != 5*window {
			t.Errorf("a change waited for %v, want as long as the disk hung, %v", took, 5*window)
		}
		start = time.Now()
		fillup(t, r, "k", 1)
		if took := time.Since(start); took != 0 {
			t.Errorf("a change after that waited for %v", took)
		}
	})
}

// TestRelaxedWriteThatTakesAWindow: a write that ends as its window ends leaves no change waiting,
// whichever comes first.
func TestRelaxedWriteThatTakesAWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := openRelaxed(t, filepath.Join(t.TempDir(), "limits.db"), never)
		for range 200 {
			done := r.watch()
			time.Sleep(r.window)
			done(nil)
			synctest.Wait()
			if r.stalled.Load() != nil {
				t.Fatal("changes wait for a write that has ended")
			}
		}
	})
}

// slowLog is the writer of a log. It counts the windows in which the store could not write, and
// leaves out the causes, which package boltfile logs. A write waits while the test holds the lock.
type slowLog struct {
	lock    chan struct{}
	windows int // guarded by lock
}

func (l *slowLog) Write(p []byte) (int, error) {
	if bytes.Contains(p, []byte("acknowledged changes could not be written")) {
		l.lock <- struct{}{}
		l.windows++
		<-l.lock
	}
	return len(p), nil
}

// TestRelaxedLogsFailedWrites: the store logs each window in which it could not write, and no
// other. When Close has returned, nothing of the store runs or logs any more.
func TestRelaxedLogsFailedWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const window = time.Second
		log := &slowLog{lock: make(chan struct{}, 1)}
		logged := func(want int, when string) {
			t.Helper()
			synctest.Wait()
			log.lock <- struct{}{}
			if log.windows != want {
				t.Errorf("%d lines %s, want %d", log.windows, when, want)
			}
			<-log.lock
		}
		r := openRelaxed(t, filepath.Join(t.TempDir(), "limits.db"), &Options{
			RelaxedWindow: window, Logger: slog.New(slog.NewTextHandler(log, nil)),
		})
		fillup(t, r, "k", 1)
		time.Sleep(5*window + window/2)
		logged(0, "while the disk has room")
		full(t, r)
		logged(0, "after the error of a Sync, which its caller knows")
		time.Sleep(3 * window)
		logged(3, "after 3 windows with a full disk")

		log.lock <- struct{}{}
		time.Sleep(window)
		synctest.Wait() // the store writes to its log
		database(r.s).MaxSize = 0
		closed := make(chan error)
		go func() { closed <- r.Close() }()
		synctest.Wait()
		select {
		case err := <-closed:
			t.Fatalf("Close returned %v while the store was writing to its log", err)
		default:
		}
		<-log.lock
		if err := <-closed; err != nil {
			t.Error(err)
		}
		logged(4, "when the store is closed")
	})
}
