package windows

import (
	"testing"

	"github.com/brimgo/brim/store"
)

func TestWithin(t *testing.T) {
	limit := store.Limit{Capacity: 100, LeakRate: 1000} // one unit per slot
	for _, c := range []struct {
		name string
		all  Admitted
		want float64
		why  string
	}{
		{name: "nothing", want: 0, why: "an empty record breaks no bound"},
		{
			name: "full in one slot", all: Admitted{{7, 7}: 101}, want: 1,
			why: "a slot leaks for its own length",
		},
		{
			name: "one too many", all: Admitted{{7, 7}: 102}, want: 102.0 / 101,
			why: "the shortest window has more than the capacity and its leak",
		},
		{
			name: "over two slots", all: Admitted{{3, 3}: 60, {4, 4}: 60}, want: 120.0 / 102,
			why: "each slot keeps the bound, and the two together break it",
		},
		{
			name: "in the middle", all: Admitted{{0, 0}: 1, {50, 50}: 80, {52, 52}: 80, {99, 99}: 1}, want: 160.0 / 103,
			why: "the broken window is neither the first nor the longest",
		},
		{
			name: "long calls", all: Admitted{{0, 9}: 60, {5, 14}: 60}, want: 120.0 / 115,
			why: "both calls count only in a window that contains both",
		},
		{
			name: "refilled", all: Admitted{{0, 0}: 101, {100, 100}: 99}, want: 1,
			why: "leaked units may be admitted again",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := c.all.Within(limit)
			if err != nil || got != c.want {
				t.Errorf("%v, %v; want %v\nwhy: %s", got, err, c.want, c.why)
			}
		})
	}
	if _, err := (Admitted{{3, 2}: 1}).Within(limit); err == nil {
		t.Error("a call that ends before it begins passes as evidence")
	}
}
