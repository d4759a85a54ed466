package spend

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/brimgo/brim/spend/ledger"
	"github.com/brimgo/brim/store"
)

// pairs is a Snapshot that returns two entries at a time. All entries have dates of their own.
type pairs struct {
	ledger.Snapshot
	entries []ledger.Entry
}

func (s pairs) Entries(_ string, after, upto int64, _ int) (list []ledger.Entry, through int64, err error) {
	for _, e := range s.entries {
		switch {
		case e.Dated > upto:
			return list, e.Dated - 1, nil
		case e.Dated > after:
			if list = append(list, e); len(list) == 2 {
				return list, e.Dated, nil
			}
		}
	}
	return list, math.MaxInt64, nil
}

// TestDated: the entries of a decision come among those of the ledger, by their dates, and bound
// the time up to which no other entry is dated.
func TestDated(t *testing.T) {
	for _, c := range []struct {
		name        string
		added       []int64 // dates
		after, upto int64
		want        []string // dates, with + for an entry of the decision
		through     int64
	}{
		{"the ledger alone", nil, 0, maxTime, []string{"1", "2", "3", "5"}, maxTime},
		{"a part of the ledger", nil, 1, 3, []string{"2", "3"}, 3},
		{"nothing", nil, 3, 4, nil, 4},
		{
			"entries of the decision on all pages",
			[]int64{6, 4, 2, 3},
			0, maxTime,
			[]string{"1", "2", "+2", "3", "+3", "+4", "5", "+6"},
			maxTime,
		},
		{"one entry of the decision", []int64{7}, 5, maxTime, []string{"+7"}, maxTime},
		{"entries of the decision at the ends", []int64{1, 3}, 1, 3, []string{"2", "3", "+3"}, 3},
		{"later entries of the decision", []int64{9, 8}, 5, 6, nil, 7},
	} {
		a := &account{snap: pairs{entries: []ledger.Entry{{Dated: 1}, {Dated: 2}, {Dated: 3}, {Dated: 5}}}}
		for _, date := range c.added {
			a.added = append(a.added, ledger.Entry{Dated: date, Kind: "+"})
		}
		var got []string
		through, err := a.dated(c.after, c.upto, func(e *ledger.Entry) error {
			got = append(got, fmt.Sprint(e.Kind, e.Dated))
			return nil
		})
		if err != nil || !slices.Equal(got, c.want) || through != c.through {
			t.Errorf("%s: %v through %d, %v; want %v through %d", c.name, got, through, err, c.want, c.through)
		}
		stop := errors.New("stop")
		if _, err := a.dated(0, maxTime, func(*ledger.Entry) error { return stop }); !errors.Is(err, stop) {
			t.Errorf("%s: the error of an entry is lost: %v", c.name, err)
		}
	}
}

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

// TestReleaseWithoutHold: a Leaky rule never holds less than nothing.
func TestReleaseWithoutHold(t *testing.T) {
	rule := Leaky("leaky", Money{100, "EUR"}, time.Hour)
	for _, c := range []struct {
		held int64 // of the entry, while the bucket holds 5
		want error
		left float64
	}{{-4, nil, 1}, {-5, nil, 0}, {-6, store.ErrNotHeld, 5}} {
		u := &tally{rule: &rule, name: rule.name, bucket: store.Record{Held: 5, Limit: rule.bucket(100)}, sums: heldBy([]open{{at: 9, held: 5}})}
		if err := u.fill(&ledger.Entry{Seq: 1, Held: c.held, Expires: 9}, 0); !errors.Is(err, c.want) || u.bucket.Held != c.left {
			t.Errorf("%d: %v, and %v is held; want %v, and %v", c.held, err, u.bucket.Held, c.want, c.left)
		}
	}
}
