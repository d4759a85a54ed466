package refusals_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/brimgo/brim/refusals"
	"github.com/brimgo/brim/store"
)

// TestOneAsks has a bucket whose wait is over, one caller asking the store, and others who come meanwhile.
func TestOneAsks(t *testing.T) {
	boom := errors.New("boom")
	for _, c := range []struct {
		name     string
		room     time.Duration // for how long the bucket leaks, a unit a second, before the first asks for 1
		past     float64       // units that another process fills in before that
		err      error         // what becomes of the first
		others   int
		accepted int   // of the others
		fills    int64 // that reach the store, the first included
		why      string
	}{
		{
			name: "room for one", room: time.Second, others: 8, fills: 1,
			why: "the answer says that there is no room for the others: they are not sent at all",
		},
		{
			name: "room for three", room: 3 * time.Second, others: 8, accepted: 2, fills: 3,
			why: "who is known to fit beside the first is not kept waiting",
		},
		{
			name: "refused", room: time.Second, past: 1, others: 8, fills: 1,
			why: "the first learns for all that somebody else was there",
		},
		{
			name: "failed", room: time.Second, err: boom, others: 1, fills: 2,
			why: "what failed says nothing: the next one asks",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				clock := newManual()
				count := &counting{Store: inMemory(t, clock.now)}
				hold := newHolding(count)
				s := wrap(t, hold, &refusals.Options{Clock: clock.now, Remember: time.Hour})
				b := store.Limit{Capacity: 10, LeakRate: 1}.For("k")
				try(t, s, b, 10)
				clock.step(c.room)
				if c.past > 0 {
					try(t, count.Store, b, c.past)
				}
				asked := count.fills.Load()
				first := make(chan error, 1)
				go func() {
					_, err := s.Fill(keep(t.Context()), store.Op{Bucket: b, Amount: 1})
					first <- err
				}()
				<-hold.decided
				answers := make(chan bool, c.others)
				for range c.others {
					go func() {
						st, err := s.Fill(t.Context(), store.Op{Bucket: b, Amount: 1})
						if err != nil {
							t.Error(err)
						}
						answers <- st.Accepted
					}()
				}
				synctest.Wait()
				hold.release <- c.err
				if err := <-first; err != c.err {
					t.Errorf("the first: %v, want %v", err, c.err)
				}
				accepted := 0
				for range c.others {
					if <-answers {
						accepted++
					}
				}
				if fills := count.fills.Load() - asked; fills != c.fills || accepted != c.accepted {
					t.Errorf("%d sent, %d of the others accepted; want %d and %d\nwhy: %s", fills, accepted, c.fills, c.accepted, c.why)
				}
			})
		})
	}
}

// TestWaitingIsBounded ends waits otherwise than by an answer.
func TestWaitingIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock := newManual()
		hold := newHolding(inMemory(t, clock.now))
		s := wrap(t, hold, &refusals.Options{Clock: clock.now, Remember: time.Hour})
		b := store.Limit{Capacity: 10, LeakRate: 1}.For("k")
		try(t, s, b, 10)
		clock.step(time.Second)
		first := make(chan error, 1)
		go func() {
			_, err := s.Fill(keep(t.Context()), store.Op{Bucket: b, Amount: 1})
			first <- err
		}()
		<-hold.decided
		fill := func(ctx context.Context) chan error {
			done := make(chan error, 1)
			go func() {
				_, err := s.Fill(ctx, store.Op{Bucket: b, Amount: 1})
				done <- err
			}()
			synctest.Wait()
			select {
			case err := <-done:
				t.Fatalf("answered while the first is in flight: %v", err)
			default:
			}
			return done
		}
		ctx, cancel := context.WithCancel(t.Context())
		gone := fill(ctx)
		cancel()
		if err := <-gone; !errors.Is(err, context.Canceled) || errors.Is(err, store.ErrUnknownOutcome) {
			t.Errorf("a caller whose context ended while it waited: %v, want the context's error alone: nothing was sent", err)
		}
		freed := fill(t.Context())
		if err := s.Delete(t.Context(), "k"); err != nil {
			t.Fatal(err)
		}
		if err := <-freed; err != nil {
			t.Errorf("a caller who waited when the bucket was reset: %v", err)
		}
		hold.release <- nil
		if err := <-first; err != nil {
			t.Error(err)
		}
	})
}

// TestCloseWakes sees that whoever waits learns that the store was closed.
func TestCloseWakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock := newManual()
		hold := newHolding(inMemory(t, clock.now))
		s := wrap(t, hold, &refusals.Options{Clock: clock.now, Remember: time.Hour})
		b := store.Limit{Capacity: 10, LeakRate: 1}.For("k")
		try(t, s, b, 10)
		clock.step(time.Second)
		first, second := make(chan error, 1), make(chan error, 1)
		go func() {
			_, err := s.Fill(keep(t.Context()), store.Op{Bucket: b, Amount: 1})
			first <- err
		}()
		<-hold.decided
		go func() {
			_, err := s.Fill(t.Context(), store.Op{Bucket: b, Amount: 1})
			second <- err
		}()
		synctest.Wait()
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if err := <-second; !errors.Is(err, store.ErrClosed) {
			t.Errorf("the one who waited: %v, want ErrClosed", err)
		}
		hold.release <- nil
		if err := <-first; err != nil {
			t.Errorf("the one in flight, which was decided: %v", err)
		}
	})
}
