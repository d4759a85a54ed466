package bolt

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/brimgo/brim/store"
)

// The tests of this file run in a bubble of testing/synctest, where time passes only when all
// goroutines wait. A write to the file takes no time there, unless the test holds the lock of the
// file: then the disk hangs.

// TestRelaxedWaitsForASlowDisk: a change waits if the write of earlier changes takes longer than a
// window, until the write has ended or its own context ends.
func TestRelaxedWaitsForASlowDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const window = time.Second
		r := openRelaxed(t, filepath.Join(t.TempDir(), "limits.db"), &Options{RelaxedWindow: window})
		fillup(t, r, "k", 1)
		lockFile(t, r.s.db.File())
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
			r.s.db.File().Unlock()
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
		must(t, <-closed)
		logged(4, "when the store is closed")
	})
}
