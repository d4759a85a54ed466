package refusals_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/brimgo/brim/refusals"
	"github.com/brimgo/brim/store"
)

// counting counts the fills that reach a store.
type counting struct {
	store.Store
	fills atomic.Int64
}

func (c *counting) Fill(ctx context.Context, op store.Op) (store.State, error) {
	c.fills.Add(1)
	return c.Store.Fill(ctx, op)
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

// manual is a clock that moves only by step.
type manual struct{ ns atomic.Int64 }

func newManual() *manual {
	c := &manual{}
	c.ns.Store(1_767_225_600_000_000_000)
	return c
}

func (c *manual) now() time.Time       { return time.Unix(0, c.ns.Load()) }
func (c *manual) step(d time.Duration) { c.ns.Add(int64(d)) }

func wrap(t testing.TB, s store.Store, o *refusals.Options) *refusals.Store {
	t.Helper()
	w, err := refusals.New(s, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Close() })
	return w
}

func try(t testing.TB, s store.Store, b store.Bucket, n float64) store.State {
	t.Helper()
	return do(t, s, store.Op{Bucket: b, Amount: n})
}

func do(t testing.TB, s store.Store, op store.Op) store.State {
	t.Helper()
	st, err := s.Fill(t.Context(), op)
	if err != nil {
		t.Fatal(err)
	}
	return st
}
