package postgres_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/brimgo/brim/internal/pgtest"
	"github.com/brimgo/brim/postgres"
	"github.com/brimgo/brim/store"
)

// promptly fails t if f takes longer than anybody who gave up would wait. The bound is
// generous: what it tells apart is giving up from waiting for the lock, which lasts as long as
// the test.
func promptly(t *testing.T, f func() error) error {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- f() }()
	select {
	case err := <-done:
		return err
	case <-time.After(20 * time.Second):
		t.Fatal("the call did not come back")
		return nil
	}
}

// A context that is done before the call sends nothing.
func TestCancelledBefore(t *testing.T) {
	leakFree(t)
	s := open(t, postgres.Options{})
	done, cancel := context.WithCancel(t.Context())
	cancel()
	late, cancel := context.WithDeadline(t.Context(), time.Unix(0, 0))
	defer cancel()
	for _, call := range calls(s, steady.For(secret)) {
		plainContext(t, call(done), context.Canceled)
		plainContext(t, call(late), context.DeadlineExceeded)
	}
	levelIs(t, s, secret, 0)
}

// A context that ends while a fill is in flight leaves its outcome unknown, at once; it says
// so, and the fill is applied once or not at all. One that ends while the fill is still queued
// behind another takes it back (traps 16, 17, 26).
func TestCancelledInFlightAndQueued(t *testing.T) {
	for _, c := range []struct {
		name string
		op   func(b store.Bucket) store.Op
	}{
		{"try", func(b store.Bucket) store.Op { return op(b, 1, store.IfFits) }},
		{"fillup", func(b store.Bucket) store.Op { return op(b, 1, store.Clamp) }},
		{"hold", func(b store.Bucket) store.Op { return store.Op{Bucket: b, Hold: 1} }},
	} {
		t.Run(c.name, func(t *testing.T) {
			leakFree(t)
			admin := pgtest.Pool(t)
			schema := migrated(t, admin)
			pool := poolAt(t, pgtest.URL(t))
			s := over(t, pool, postgres.Options{Schema: schema, Lanes: 1})
			b := steady.For(secret)
			fill(t, s, c.op(b))
			release := lockRow(t, admin, schema, secret)

			flying, cancelFlying := context.WithCancel(t.Context())
			inFlight, queued, patient := make(chan error, 1), make(chan error, 1), make(chan error, 1)
			go func() { _, err := s.Fill(flying, c.op(b)); inFlight <- err }()
			waiters(t, admin, schema, 1)
			waiting, cancelWaiting := context.WithCancel(t.Context())
			go func() { _, err := s.Fill(waiting, c.op(b)); queued <- err }()
			go func() { _, err := s.Fill(context.Background(), c.op(b)); patient <- err }()

			cancelWaiting() // before it queued or after: it was not sent either way
			plainContext(t, promptly(t, func() error { return <-queued }), context.Canceled)
			cancelFlying()
			err := promptly(t, func() error { return <-inFlight })
			wantError(t, err, store.ErrUnknownOutcome)
			if !errors.Is(err, context.Canceled) {
				t.Errorf("error does not say that the context ended: %v", err)
			}
			release()
			if err := promptly(t, func() error { return <-patient }); err != nil {
				t.Errorf("a neighbour's call failed with %v", err)
			}
			// The first and the patient one; the one in flight or not, as its error said; not
			// the one that was taken back.
			if st := stateOf(t, s, secret); st.Level+st.Held != 2 && st.Level+st.Held != 3 {
				t.Errorf("the bucket holds %v, want 2 or 3", st.Level+st.Held)
			}
			clean(t, pool)
		})
	}
}

// Whoever waits for a connection of an exhausted pool has sent nothing.
func TestCancelledWaitingForAConnection(t *testing.T) {
	leakFree(t)
	admin := pgtest.Pool(t)
	schema := migrated(t, admin)
	pool := poolAt(t, tune(pgtest.URL(t), "pool_max_conns=1"))
	s := over(t, pool, postgres.Options{Schema: schema, StatementTimeout: 200 * time.Millisecond})
	taken, err := pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for name, call := range calls(s, steady.For(secret)) {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			waits := pool.Stat().EmptyAcquireWaitTime() // does not move while we hold the connection
			result := make(chan error, 1)
			go func() { result <- call(ctx) }()
			cancel()
			plainContext(t, promptly(t, func() error { return <-result }), context.Canceled)
			if waits != pool.Stat().EmptyAcquireWaitTime() {
				t.Error("somebody got a connection")
			}
		})
	}
	// Whoever waits on is told that there was none, and that nothing was applied.
	_, err = s.Fill(t.Context(), op(steady.For(secret), 1, store.IfFits))
	wantError(t, err, store.ErrUnavailable, "no connection within 200ms", "pool")
	taken.Release()
	levelIs(t, s, secret, 0)
	if st := fill(t, s, op(steady.For(secret), 1, store.IfFits)); st.Level != 1 {
		t.Errorf("%+v", st)
	}
	clean(t, pool)
}

// What a caller does to its transactions after a call that was cut short is not what the server
// is told.
func TestAppliedTransactionsAreTheStores(t *testing.T) {
	admin := pgtest.Pool(t)
	schema := migrated(t, admin)
	s := over(t, pgtest.Pool(t), postgres.Options{Schema: schema})
	fill(t, s, op(steady.For("a"), 1, store.Clamp))
	fill(t, s, op(steady.For("z"), 1, store.Clamp))
	// A call that finds nothing in flight is cut off itself when its context ends. One that is
	// sent for others as well goes on.
	releaseFirst := lockRow(t, admin, schema, "z")
	first := make(chan error, 1)
	go func() {
		_, err := s.Apply(context.Background(), store.Txn{op(steady.For("z"), 1, store.IfFits)})
		first <- err
	}()
	waiters(t, admin, schema, 1)
	release := lockRow(t, admin, schema, "a")
	ctx, cancel := context.WithCancel(t.Context())
	txns := []store.Txn{{op(steady.For("a"), 1, store.IfFits), op(steady.For("b"), 1, store.IfFits)}}
	result := make(chan error, 1)
	go func() { _, err := s.Apply(ctx, txns...); result <- err }()
	until(t, "the second call to queue", func() bool {
		return slices.ContainsFunc(strings.Split(stacks(), "\n\n"), func(stack string) bool {
			return strings.Contains(stack, " [select") && strings.Contains(stack, "combine.(*Combiner[")
		})
	})
	releaseFirst()
	if err := promptly(t, func() error { return <-first }); err != nil {
		t.Fatal(err)
	}
	waiters(t, admin, schema, 1)
	cancel()
	wantError(t, promptly(t, func() error { return <-result }), store.ErrUnknownOutcome)
	for i := range txns[0] {
		txns[0][i].Amount = 1000
	}
	txns[0] = nil
	release()
	if err := s.Close(); err != nil { // waits for what is in flight
		t.Fatal(err)
	}
	s = over(t, admin, postgres.Options{Schema: schema})
	levelIs(t, s, "a", 2)
	levelIs(t, s, "b", 1)
}

// Close waits for what is in flight, and leaves nothing behind.
func TestCloseWaits(t *testing.T) {
	leakFree(t)
	admin := pgtest.Pool(t)
	schema := migrated(t, admin)
	pool := poolAt(t, pgtest.URL(t))
	s := over(t, pool, postgres.Options{Schema: schema})
	b := steady.For(secret)
	fill(t, s, op(b, 1, store.IfFits))
	release := lockRow(t, admin, schema, secret)
	result, closed := make(chan error, 1), make(chan error, 1)
	go func() { _, err := s.Fill(t.Context(), op(b, 1, store.IfFits)); result <- err }()
	waiters(t, admin, schema, 1)
	go func() { closed <- s.Close() }()
	until(t, "the store to refuse", func() bool { _, err := s.Read(t.Context(), b); return errors.Is(err, store.ErrClosed) })
	select {
	case err := <-closed:
		t.Errorf("Close did not wait for a call in flight: %v", err)
	default:
	}
	release()
	if err := promptly(t, func() error { return <-result }); err != nil {
		t.Errorf("the call in flight: %v", err)
	}
	if err := promptly(t, func() error { return <-closed }); err != nil {
		t.Error(err)
	}
	levelIs(t, over(t, admin, postgres.Options{Schema: schema}), secret, 2)
	clean(t, pool)
}
