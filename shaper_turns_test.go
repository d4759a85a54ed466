package brim_test

import (
	"slices"
	"testing"
	"time"

	"github.com/brimgo/brim"
	"github.com/brimgo/brim/brimtest"
	"github.com/brimgo/brim/store"
)

// TestTurns lets 20 callers arrive, 25 ms apart, at a queue that releases 5 units per second and
// keeps none longer than 2 seconds. Two Shapers over one store, which know nothing of each other,
// give the turns. The queue has ten places. The leak meanwhile makes room for the 11th caller and
// the 17th.
func TestTurns(t *testing.T) {
	const period, longest, apart = 200 * time.Millisecond, 2 * time.Second, 25 * time.Millisecond
	onEachBackend(t, func(t *testing.T, s store.Store, clock *brimtest.Clock) {
		shapers := [2]*brim.Shaper{shaper(t, s, 0), shaper(t, s, 0)}
		var accepted []int
		for i := range 20 {
			r, err := shapers[i%2].Reserve(t.Context(), brim.Smooth(5, longest).For("k"), 1)
			noError(t, err)
			turn, now := time.Duration(len(accepted))*period, time.Duration(i)*apart
			if r.State.Accepted {
				accepted = append(accepted, i+1)
				if got := r.Turn().Sub(start); got != turn {
					t.Errorf("caller %d: turn at %v; want %v", i+1, got, turn)
				}
			} else if want := turn + period - longest - now; r.State.RetryAfter != want {
				t.Errorf("caller %d: RetryAfter %v; want %v", i+1, r.State.RetryAfter, want)
			}
			clock.Advance(apart)
		}
		if want := []int{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 17}; !slices.Equal(accepted, want) {
			t.Errorf("accepted callers %v; want %v", accepted, want)
		}
	})
}
