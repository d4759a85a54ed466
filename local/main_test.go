package local_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/brimgo/brim/brimtest"
	"github.com/brimgo/brim/internal/redistest"
	"github.com/brimgo/brim/internal/redistest/buckets"
	"github.com/brimgo/brim/local"
	"github.com/brimgo/brim/memory"
	"github.com/brimgo/brim/store"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(redistest.With(m)) }

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func inMemory(t testing.TB, clock func() time.Time) store.Store {
	t.Helper()
	s := memory.New(&memory.Options{Clock: clock})
	return s
}

func inRedis(t testing.TB, clock func() time.Time) store.Store { return buckets.Open(t, clock) }

func refusals(t testing.TB, s store.Store, o *local.RefusalsOptions) store.Store {
	t.Helper()
	return closing(t)(local.Refusals(s, o))
}

func leases(t testing.TB, s store.Store, o *local.LeasesOptions) store.Store {
	t.Helper()
	return closing(t)(local.Leases(s, o))
}

// closing returns a function that closes a wrapper at the end of the test.
func closing(t testing.TB) func(store.Store, error) store.Store {
	return func(s store.Store, err error) store.Store {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		return s
	}
}

// watched counts the fills that reach a store.
type watched struct {
	store.Store
	fills  atomic.Int64
	before func(op store.Op) error // runs before each fill; an error fails the fill
}

func (w *watched) Fill(ctx context.Context, op store.Op) (store.State, error) {
	w.fills.Add(1)
	if w.before != nil {
		if err := w.before(op); err != nil {
			return store.State{}, err
		}
	}
	return w.Store.Fill(ctx, op)
}

// holding delays answers until the test releases them.
type holding struct {
	store.Store
	decided chan store.State // receives each answer that is delayed
	release chan error       // each value releases one answer; a non-nil error replaces it
}

func newHolding(s store.Store) *holding {
	return &holding{Store: s, decided: make(chan store.State), release: make(chan error)}
}

type delayed struct{}

// Fill delays the answer if the context comes from delay.
func (h *holding) Fill(ctx context.Context, op store.Op) (store.State, error) {
	st, err := h.Store.Fill(ctx, op)
	if ctx.Value(delayed{}) != nil {
		h.decided <- st
		if failed := <-h.release; failed != nil {
			return store.State{}, failed
		}
	}
	return st, err
}

func delay(ctx context.Context) context.Context { return context.WithValue(ctx, delayed{}, true) }

func newManual() *brimtest.Clock { return brimtest.NewClock(time.Unix(1_767_225_600, 0)) }

func try(t testing.TB, s store.Store, b store.Bucket, n float64) store.State {
	t.Helper()
	return do(t, s, store.Op{Bucket: b, Amount: n})
}

func do(t testing.TB, s store.Store, op store.Op) store.State {
	t.Helper()
	st, err := s.Fill(t.Context(), op)
	must(t, err)
	return st
}
