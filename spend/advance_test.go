package spend

import (
	"slices"
	"testing"
	"time"

	"github.com/brimgo/brim/spend/ledger"
)

// TestWatches: an account that is stored names each window that entries will leave, once, and
// the time up to which they have left.
func TestWatches(t *testing.T) {
	window := Rolling("window", Money{100, "EUR"}, 10*time.Microsecond)
	often := Count("often", 5, 10*time.Microsecond)
	ever := Lifetime("ever", Money{100, "EUR"})
	after := func(after int64) ledger.Watch { return ledger.Watch{After: after, Width: 10} }
	for _, c := range []struct {
		name    string
		tallies []*tally
		want    []ledger.Watch
	}{
		{"no window", []*tally{{rule: &ever}}, nil},
		{"a window", []*tally{{rule: &window, edge: 90}}, []ledger.Watch{after(90)}},
		{"a window without old entries", []*tally{{rule: &window, edge: 90, quiet: 95}}, []ledger.Watch{after(95)}},
		{"a window with an entry of now", []*tally{{rule: &window, edge: 90, quiet: 99}}, []ledger.Watch{after(99)}},
		{"a window without entries up to now", []*tally{{rule: &window, edge: 90, quiet: 100}}, nil},
		{"a window without entries", []*tally{{rule: &window, edge: 90, quiet: maxTime}}, nil},
		{"no window, and a window", []*tally{{rule: &ever}, {rule: &window, edge: 90}}, []ledger.Watch{after(90)}},
		{"the same window twice", []*tally{{rule: &window, edge: 90}, {rule: &often, edge: 90}}, []ledger.Watch{after(90)}},
		{
			"two windows",
			[]*tally{{rule: &window, edge: 90}, {rule: &often, edge: 90, quiet: 92}},
			[]ledger.Watch{after(90), after(92)},
		},
	} {
		a := &account{time: 100, tallies: c.tallies}
		if got := a.stored().Watch; !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}
