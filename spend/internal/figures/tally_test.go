package figures

import (
	"errors"
	"testing"
	"time"

	"github.com/brimgo/brim/spend/ledger"
	"github.com/brimgo/brim/store"
)

// TestWatch: a tally names the window that entries will leave, and the time up to which they have
// left.
func TestWatch(t *testing.T) {
	window := &Rule{Kind: Rolling, Length: 10 * time.Microsecond}
	for _, c := range []struct {
		name  string
		tally Tally
		after int64 // 0 for no window
	}{
		{"no window", Tally{counter: counter{Rule: &Rule{Kind: Lifetime}}}, 0},
		{"a window", Tally{counter: counter{Rule: window}, edge: 90}, 90},
		{"a window without old entries", Tally{counter: counter{Rule: window}, edge: 90, quiet: 95}, 95},
		{"a window with an entry of now", Tally{counter: counter{Rule: window}, edge: 90, quiet: 99}, 99},
		{"a window without entries up to now", Tally{counter: counter{Rule: window}, edge: 90, quiet: 100}, 0},
		{"a window without entries", Tally{counter: counter{Rule: window}, edge: 90, quiet: MaxTime}, 0},
	} {
		want := ledger.Watch{After: c.after, Width: 10}
		if got, ok := c.tally.Watch(100); ok != (c.after != 0) || ok && got != want {
			t.Errorf("%s: %v, %v; want %v", c.name, got, ok, want)
		}
	}
}

// prove compares the figures of a rule with all entries.
func prove(u *Tally, entries []ledger.Entry) error {
	p := u.Prove(1, 8)
	for i := range entries {
		if err := p.Count(&entries[i]); err != nil {
			return err
		}
	}
	return p.Check(false)
}

// TestVerifyValues: the figures of each value of a tag must be those of its entries.
func TestVerifyValues(t *testing.T) {
	rule := &Rule{Name: "each", Kind: Lifetime, Each: true, Per: "merchant"}
	entries := []ledger.Entry{
		{Seq: 1, At: 1, Dated: 1, Part: 1, Used: 5, Tags: map[string]string{"merchant": "m1"}},
		{Seq: 2, At: 2, Dated: 2, Part: 2, Held: 7, Expires: 9},
	}
	for _, c := range []struct {
		name   string
		values []valueSums
		same   bool
	}{
		{"the sums of the entries", []valueSums{{"", sums{held: 7, open: []open{{at: 9, held: 7}}}}, {"m1", sums{used: 5}}}, true},
		{"another amount", []valueSums{{"", sums{held: 7, open: []open{{at: 9, held: 7}}}}, {"m1", sums{used: 6}}}, false},
		{"another value", []valueSums{{"", sums{held: 7, open: []open{{at: 9, held: 7}}}}, {"m2", sums{used: 5}}}, false},
		{"a value too few", []valueSums{{"m1", sums{used: 5}}}, false},
	} {
		u := &Tally{counter: counter{Rule: rule, Name: rule.Name}, known: true, countedSeq: 2, edge: MinTime, all: all{values: c.values}}
		if err := prove(u, entries); (err == nil) != c.same || err != nil && !errors.Is(err, store.ErrCorrupt) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// TestVerifyQuiet: a time that a rule takes to be without entries must have none, even if the sums
// have them.
func TestVerifyQuiet(t *testing.T) {
	window := &Rule{Name: "window", Kind: Rolling, Length: 10 * time.Microsecond}
	entries := []ledger.Entry{{Seq: 1, At: 5, Dated: 5, Part: 1, Used: 3}}
	for quiet, want := range map[int64]error{0: nil, 4: nil, 5: store.ErrCorrupt, 9: store.ErrCorrupt} {
		u := &Tally{counter: counter{Rule: window, Name: window.Name}, known: true, countedSeq: 1, quiet: quiet, all: all{sums: sums{used: 3}}}
		if err := prove(u, entries); !errors.Is(err, want) {
			t.Errorf("without entries up to %d, and one of 5: %v; want %v", quiet, err, want)
		}
	}
}
