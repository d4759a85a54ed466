package local_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/brimgo/brim/local"
	"github.com/brimgo/brim/store"
)

// TestOneAsks waits until a bucket has room again. One caller then asks the store, and others
// call while its question is in flight.
func TestOneAsks(t *testing.T) {
	boom := errors.New("boom")
	for _, c := range []struct {
		name     string
		leaks    time.Duration // how long the full bucket leaks, at a unit a second, before the first call
		past     float64       // units that another process puts in before the first call
		err      error         // the error of the first call
		others   int           // callers that come while the first is in flight; each asks for 1 unit
		accepted int           // how many of the others are accepted
		fills    int64         // fills that reach the store, the first included
		why      string
	}{
		{
			name: "room for one", leaks: time.Second, others: 8, fills: 1,
			why: "the first answer shows that the others do not fit, so they are not sent",
		},
		{
			name: "room for three", leaks: 3 * time.Second, others: 8, accepted: 2, fills: 3,
			why: "a caller that is known to fit beside the first does not wait",
		},
		{
			name: "refused", leaks: time.Second, past: 1, others: 8, fills: 1,
			why: "the refusal of the first tells all others that the bucket is full",
		},
		{
			name: "failed", leaks: time.Second, err: boom, others: 1, fills: 2,
			why: "an error tells nothing about the bucket, so the next caller asks",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				clock := newManual()
				count := &watched{Store: inMemory(t, clock.Now)}
				hold := newHolding(count)
				s := refusals(t, hold, &local.RefusalsOptions{Clock: clock.Now, Remember: time.Hour})
				b := store.Limit{Capacity: 10, LeakRate: 1}.For("k")
				try(t, s, b, 10)
				clock.Advance(c.leaks)
				if c.past > 0 {
					try(t, count.Store, b, c.past)
				}
				asked := count.fills.Load()
				first := make(chan error, 1)
				go func() {
					_, err := s.Fill(delay(t.Context()), store.Op{Bucket: b, Amount: 1})
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
					t.Errorf("the first call: %v, want %v", err, c.err)
				}
				accepted := 0
				for range c.others {
					if <-answers {
						accepted++
					}
				}
				if fills := count.fills.Load() - asked; fills != c.fills || accepted != c.accepted {
					t.Errorf("%d sent, %d of the others accepted; want %d and %d\nwhy: %s",
						fills, accepted, c.fills, c.accepted, c.why)
				}
			})
		})
	}
}

// inFlight returns refusals of a bucket, after whose wait a first caller asks. The store holds back
// the answer, which comes as first once the test releases it.
func inFlight(t *testing.T) (s store.Store, b store.Bucket, hold *holding, first chan error) {
	clock := newManual()
	hold = newHolding(inMemory(t, clock.Now))
	s = refusals(t, hold, &local.RefusalsOptions{Clock: clock.Now, Remember: time.Hour})
	b = store.Limit{Capacity: 10, LeakRate: 1}.For("k")
	try(t, s, b, 10)
	clock.Advance(time.Second)
	first = make(chan error, 1)
	go func() {
		_, err := s.Fill(delay(t.Context()), store.Op{Bucket: b, Amount: 1})
		first <- err
	}()
	<-hold.decided
	return s, b, hold, first
}

// waiting starts a caller who waits for the answer to the first.
func waiting(ctx context.Context, t *testing.T, s store.Store, b store.Bucket) (done chan error) {
	done = make(chan error, 1)
	go func() {
		_, err := s.Fill(ctx, store.Op{Bucket: b, Amount: 1})
		done <- err
	}()
	synctest.Wait()
	select {
	case err := <-done:
		t.Fatalf("answered while the first call was in flight: %v", err)
	default:
	}
	return done
}

// TestWaitingIsBounded ends the waits of callers before the answer that they wait for has come.
func TestWaitingIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, b, hold, first := inFlight(t)
		ctx, cancel := context.WithCancel(t.Context())
		gone := waiting(ctx, t, s, b)
		cancel()
		if err := <-gone; !errors.Is(err, context.Canceled) || errors.Is(err, store.ErrUnknownOutcome) {
			t.Errorf("the caller's context ended while it waited: %v, want context.Canceled alone, since nothing was sent", err)
		}
		freed := waiting(t.Context(), t, s, b)
		must(t, s.Delete(t.Context(), "k"))
		if err := <-freed; err != nil {
			t.Errorf("a caller waited while the bucket was reset: %v", err)
		}
		hold.release <- nil
		if err := <-first; err != nil {
			t.Error(err)
		}
	})
}

// TestCloseWakes checks that Close wakes a waiting caller and that the caller gets ErrClosed.
func TestCloseWakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, b, hold, first := inFlight(t)
		second := waiting(t.Context(), t, s, b)
		must(t, s.Close())
		if err := <-second; !errors.Is(err, store.ErrClosed) {
			t.Errorf("the caller that waited: %v, want ErrClosed", err)
		}
		hold.release <- nil
		if err := <-first; err != nil {
			t.Errorf("the call in flight, which the store had decided: %v", err)
		}
	})
}
