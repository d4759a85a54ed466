package figures

import (
	"math/rand/v2"
	"testing"

	"github.com/brimgo/brim/internal/seed"
	"github.com/brimgo/brim/store"
)

// TestRoom compares the room in a bucket with the decisions of package store, for levels whose
// difference to the capacity is rounded up or down to another whole number.
func TestRoom(t *testing.T) {
	first, err := seed.New()
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("BRIM_SEED=%d repeats the levels", first)
	r := rand.New(rand.NewPCG(first, 16))
	states := []*store.State{ // only near 2^53 is the difference rounded up, and the sum as well
		{Capacity: 8243331560079083, Level: 3.1829966590108755e+15},
		{Capacity: 8719227834747019, Level: 2.7702248899432575e+15, Held: 5155379607102096},
	}
	for range 200_000 {
		capacity := 1 + r.Int64N(1<<r.IntN(52))
		st := &store.State{Capacity: float64(capacity), Held: float64(r.Int64N(capacity))}
		// A level just beside a whole number, as a leak leaves it.
		st.Level = max(0, float64(r.Int64N(capacity))+(r.Float64()-0.5)/float64(int64(1)<<r.IntN(60)))
		states = append(states, st)
	}
	up, down := 0, 0
	for _, st := range states {
		fits := func(n int64) bool { return st.Level+st.Held+float64(n) <= st.Capacity }
		n := room(st)
		if !fits(n) || fits(n+1) {
			t.Fatalf("level %v, held %v of %v: room for %d; that fits: %t, and one more: %t",
				st.Level, st.Held, st.Capacity, n, fits(n), fits(n+1))
		}
		switch difference := st.Capacity - st.Level - st.Held; {
		case float64(n)+1 <= difference || float64(n) > difference:
			up++
		case float64(n) < difference && float64(n)+1 > difference:
			down++
		}
	}
	if up < 10 || down < 10 {
		t.Errorf("%d levels were rounded to another number, and %d were not; want more of both", up, down)
	}
}
