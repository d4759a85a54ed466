package postgres_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/brimgo/brim/internal/pgtest"
	"github.com/brimgo/brim/postgres"
	"github.com/brimgo/brim/store"
)

// promptly fails t if f takes longer than a caller that gave up may take. The bound is
// generous: it only tells such a caller from one that waits for the lock, which is held as long
// as the test runs.
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

// TestCancelledInFlightAndQueued ends contexts of fills. A fill in flight is answered at once, and
// is applied at most once: never, where its error does not say that its outcome is unknown. A fill
// that is queued behind it is taken back. A neighbour of both is not disturbed.
func TestCancelledInFlightAndQueued(t *testing.T) {
	for _, c := range []struct {
		name string
		op   func(b store.Bucket) store.Op
	}{
		{"try", func(b store.Bucket) store.Op { return op(b, 1, store.IfFits) }},
		{"hold", func(b store.Bucket) store.Op { return store.Op{Bucket: b, Hold: 1} }},
	} {
		t.Run(c.name, func(t *testing.T) {
			leakFree(t)
			admin := pgtest.Pool(t)
			schema := migrated(t)
			pool := pgtest.PoolAt(t, pgtest.URL(t))
			s := over(t, pool, postgres.Options{Schema: schema, Lanes: 1})
			b := steady.For(secret)
			fill(t, s, c.op(b))
			release := lockTable(t, admin, schema)

			flying, cancelFlying := context.WithCancel(t.Context())
			inFlight, queued, patient := make(chan error, 1), make(chan error, 1), make(chan error, 1)
			go func() { _, err := s.Fill(flying, c.op(b)); inFlight <- err }()
			somebodyWaits(t, admin, schema)
			waiting, cancelWaiting := context.WithCancel(t.Context())
			go func() { _, err := s.Fill(waiting, c.op(b)); queued <- err }()
			go func() { _, err := s.Fill(context.Background(), c.op(b)); patient <- err }()

			cancelWaiting() // before it queues or after: it is not sent either way
			plainContext(t, promptly(t, func() error { return <-queued }), context.Canceled)
			cancelFlying()
			err := promptly(t, func() error { return <-inFlight })
			if !errors.Is(err, context.Canceled) {
				t.Errorf("error does not say that the context ended: %v", err)
			}
			most := 2.0
			if errors.Is(err, store.ErrUnknownOutcome) { // else it was cancelled between two tries
				most = 3
			}
			release()
			if err := promptly(t, func() error { return <-patient }); err != nil {
				t.Errorf("a neighbour's call failed with %v", err)
			}
			// The bucket has the first fill and the patient one, and maybe the one in flight.
			if st := stateOf(t, s, secret); st.Level+st.Held < 2 || st.Level+st.Held > most {
				t.Errorf("the bucket holds %v, want 2 to %v", st.Level+st.Held, most)
			}
			clean(t, pool)
		})
	}
}

// TestCancelledWaitingForAConnection ends a context while the call waits for a connection of an
// exhausted pool. Nothing was sent.
func TestCancelledWaitingForAConnection(t *testing.T) {
	leakFree(t)
	schema := migrated(t)
	pool := pgtest.PoolAt(t, pgtest.With(t, "pool_max_conns=1"))
	s := over(t, pool, postgres.Options{Schema: schema})
	hasty := over(t, pool, postgres.Options{Schema: schema, StatementTimeout: 200 * time.Millisecond})
	taken, err := pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for name, call := range calls(s, steady.For(secret)) {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			waits := pool.Stat().EmptyAcquireWaitTime() // does not change while the test holds the connection
			result := make(chan error, 1)
			go func() { result <- call(ctx) }()
			cancel()
			plainContext(t, promptly(t, func() error { return <-result }), context.Canceled)
			if waits != pool.Stat().EmptyAcquireWaitTime() {
				t.Error("somebody got a connection")
			}
		})
	}
	// A caller that goes on waiting gets an error: there was no connection, and nothing was
	// applied.
	_, err = hasty.Fill(t.Context(), op(steady.For(secret), 1, store.IfFits))
	wantError(t, err, store.ErrUnavailable, "no connection within 200ms", "pool")
	taken.Release()
	levelIs(t, s, secret, 0)
	if st := fill(t, s, op(steady.For(secret), 1, store.IfFits)); st.Level != 1 {
		t.Errorf("%+v", st)
	}
	clean(t, pool)
}

// TestCloseWaits sees that Close waits for calls in flight and leaves nothing behind.
func TestCloseWaits(t *testing.T) {
	leakFree(t)
	admin := pgtest.Pool(t)
	schema := migrated(t)
	pool := pgtest.PoolAt(t, pgtest.URL(t))
	s := over(t, pool, postgres.Options{Schema: schema})
	b := steady.For(secret)
	fill(t, s, op(b, 1, store.IfFits))
	release := lockTable(t, admin, schema)
	result, closed := make(chan error, 1), make(chan error, 1)
	go func() { _, err := s.Fill(t.Context(), op(b, 1, store.IfFits)); result <- err }()
	somebodyWaits(t, admin, schema)
	go func() { closed <- s.Close() }()
	until(t, "the store to refuse", func() bool { return errors.Is(s.Delete(t.Context()), store.ErrClosed) })
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
