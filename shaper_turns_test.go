package brim_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/brimgo/brim"
	"github.com/brimgo/brim/brimtest"
	"github.com/brimgo/brim/store"
)

// The queue of the worked case releases 5 units per second and keeps none longer than 2
// seconds. There are 20 arrivals 25 ms apart.
var worked = brim.Smooth(5, 2*time.Second)

const (
	arrivals = 20
	apart    = 25 * time.Millisecond
)

// arrival is the outcome of one arrival.
type arrival struct {
	accepted bool
	turn     time.Duration // since start, if accepted
	retry    time.Duration // RetryAfter, if refused
}

// workedCase computes the outcomes from the definition of the queue as a list of turns, in
// whole milliseconds.
func workedCase() (want []arrival) {
	const period, depth = 200, 10 // ms between turns; places
	free := 0                     // end of the last turn, ms
	for k := range arrivals {
		now := 25 * k
		queued := max(0, free-now) // ms
		if queued+period <= depth*period {
			turn := now + queued
			free = turn + period
			want = append(want, arrival{accepted: true, turn: time.Duration(turn) * time.Millisecond})
			continue
		}
		want = append(want, arrival{retry: time.Duration(queued+period-depth*period) * time.Millisecond})
	}
	return want
}

func checkWorked(t *testing.T, got []arrival) {
	t.Helper()
	var accepted []int
	for k, want := range workedCase() {
		switch {
		case got[k].accepted != want.accepted, want.accepted && got[k].turn != want.turn:
			t.Errorf("arrival %d: accepted %v with turn %v; want %v, %v",
				k+1, got[k].accepted, got[k].turn, want.accepted, want.turn)
		case !want.accepted && got[k].retry != want.retry:
			t.Errorf("arrival %d: RetryAfter %v; want %v", k+1, got[k].retry, want.retry)
		}
		if got[k].accepted {
			if n := len(accepted); got[k].turn != time.Duration(n)*200*time.Millisecond {
				t.Errorf("arrival %d: turn at %v; want turn %d of 200 ms", k+1, got[k].turn, n)
			}
			accepted = append(accepted, k+1)
		}
	}
	// The queue has ten places. The leak meanwhile makes room for the 11th arrival and for the
	// 17th.
	if want := fmt.Sprint([]int{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 17}); fmt.Sprint(accepted) != want {
		t.Errorf("accepted arrivals %v; want %v", accepted, want)
	}
}

// TestTurns gives turns by two Shapers over one store in turn, which know nothing of each other.
func TestTurns(t *testing.T) {
	onEachBackend(t, func(t *testing.T, s store.Store, clock *brimtest.Clock) {
		shapers := [2]*brim.Shaper{shaper(t, s, 0), shaper(t, s, 0)}
		var got []arrival
		for i := range arrivals {
			r, err := shapers[i%2].Reserve(t.Context(), worked.For("k"), 1)
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, arrival{r.State.Accepted, r.Turn().Sub(start), r.State.RetryAfter})
			clock.Advance(apart)
		}
		checkWorked(t, got)
	})
}
