package pgrun

import (
	"context"
	"errors"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"
)

// blocked reads from a connection on which nothing arrives, and returns the error of the read.
func blocked(conn net.Conn) chan error {
	done := make(chan error, 1)
	go func() { _, err := conn.Read(make([]byte, 1)); done <- err }()
	return done
}

func TestWatchdog(t *testing.T) {
	const timeout = time.Minute
	bubble := func(name string, f func(t *testing.T, w *watchdog, conn net.Conn)) {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWatchdog(timeout)
				conn, peer := net.Pipe()
				defer peer.Close()
				defer conn.Close()
				f(t, &w, conn)
				w.close()
				if w.timer != nil {
					t.Error("close has left a timer")
				}
			})
		})
	}
	bubble("a flush that hangs is cut off after the timeout", func(t *testing.T, w *watchdog, conn net.Conn) {
		w.start()
		w.watch(conn)
		ctx, read, began := w.flushing(), blocked(conn), time.Now()
		if err := <-read; !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("the read ended with %v", err)
		}
		if took := time.Since(began); took < timeout || took > 2*timeout {
			t.Errorf("the read ended after %v, want %v", took, timeout)
		}
		deadline, ok := ctx.Deadline()
		if ctx.Err() != context.DeadlineExceeded || !ok || !deadline.Equal(began.Add(timeout)) || ctx.Done() != nil {
			t.Errorf("the flush's context: %v, deadline %v", ctx.Err(), deadline)
		}
		w.unwatch()
		w.stop()
		// The next flush gets a connection without a deadline, and a context of its own.
		w.start()
		w.watch(conn)
		if err := w.flushing().Err(); err != nil {
			t.Errorf("the next flush has ended before it began: %v", err)
		}
		read = blocked(conn)
		time.Sleep(timeout / 2)
		select {
		case err := <-read:
			t.Errorf("the next flush was cut off with %v", err)
		default:
		}
		w.end()
		if err := <-read; !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("the read ended with %v", err)
		}
		w.stop()
	})
	bubble("a flush that waits for a connection is told by a channel", func(t *testing.T, w *watchdog, conn net.Conn) {
		w.start()
		ctx := w.acquiring()
		<-ctx.Done()
		if ctx.Err() != context.DeadlineExceeded {
			t.Errorf("the context ended with %v", ctx.Err())
		}
		w.watch(conn) // the connection came too late
		if err := <-blocked(conn); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("the read ended with %v", err)
		}
		w.stop()
	})
	bubble("end cuts a flush off at once, and only a flush", func(t *testing.T, w *watchdog, conn net.Conn) {
		w.end() // nothing is in flight
		w.start()
		if err := w.flushing().Err(); err != nil {
			t.Errorf("a flush has ended before it began: %v", err)
		}
		w.watch(conn)
		read, began := blocked(conn), time.Now()
		w.end()
		if err := <-read; !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(began) != 0 {
			t.Errorf("the read ended with %v after %v", err, time.Since(began))
		}
		w.stop()
	})
	bubble("10,000 flushes share a timer, which ends with them", func(t *testing.T, w *watchdog, _ net.Conn) {
		w.start()
		timer := w.timer
		w.stop()
		for range 10_000 {
			w.start()
			if w.timer != timer {
				t.Fatal("a flush has made a timer of its own")
			}
			w.stop()
			time.Sleep(time.Millisecond)
		}
		time.Sleep(2 * timeout)
		synctest.Wait()
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.timer != nil {
			t.Error("an idle lane has a timer")
		}
	})
	bubble("close stops a timer that is about to run", func(t *testing.T, w *watchdog, _ net.Conn) {
		w.start()
		w.stop()
		w.close()
		w.look()
		if w.timer != nil {
			t.Error("the timer runs again after close")
		}
	})
}
