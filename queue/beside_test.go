package queue_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/brimgo/brim"
	"github.com/brimgo/brim/memory"
	"github.com/brimgo/brim/queue"
)

// TestBesideShaper lets the same 20 items arrive at a Queue and at a Shaper under one limit, a third
// of a second apart. The Queue holds one item more: that whose turn has come has left it, and its unit
// is still leaking from the Shaper's bucket. docs/shaping.md tells the figures.
func TestBesideShaper(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limit := brim.Limit{Capacity: 5, LeakRate: 1}
		items, err := queue.New(limit, func(context.Context, int) {}, nil)
		must(t, err)
		s := memory.New(nil)
		turns, err := brim.NewShaper(brim.New(s, nil), nil)
		must(t, err)
		queued, reserved := 0, 0
		for i := range 20 {
			if items.Put(t.Context(), i) == nil {
				queued++
			}
			r, err := turns.Reserve(t.Context(), limit.For("k"), 1)
			must(t, err)
			if r.State.Accepted {
				reserved++
			}
			time.Sleep(time.Second / 3)
		}
		if queued != 12 || reserved != 11 {
			t.Errorf("the Queue took %d and the Shaper %d", queued, reserved)
		}
		if err := items.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}
