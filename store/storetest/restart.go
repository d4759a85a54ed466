package storetest

import (
	"slices"
	"testing"
	"time"

	"github.com/brimgo/brim/store"
)

// restart closes and reopens a store: buckets survive as they were, whatever the clock shows then.
func (s *suite) restart(t *testing.T) {
	limit := store.Limit{Capacity: 100, LeakRate: 1.0 / 4}
	ops := []store.Op{
		{Bucket: limit.For("level"), Amount: 64},
		{Bucket: limit.For("over"), Amount: 250, Mode: store.Always},
		{Bucket: limit.For("held"), Amount: 16, Hold: 8},
		{Bucket: limit.For("blocked"), Amount: 64},
		{Bucket: limit.For("blocked"), Amount: 101, BlockFor: time.Hour},
		{Bucket: store.Limit{Capacity: 7}.For("limit"), Amount: 3},
		{Bucket: limit.For("refused"), Amount: 101},
		{Bucket: limit.For("deleted"), Amount: 50},
	}
	if !s.supports(ops...) {
		t.Log("left out: it needs an operation that is not supported")
		return
	}
	leaked := func(level float64, d time.Duration) float64 { return max(0, level-limit.LeakRate*max(0, d).Seconds()) }
	cases := []struct {
		name    string
		why     string
		clock   time.Duration // against the last write
		believe bool          // is the time of the last write believed?
	}{
		{"at once", "levels, holds, limits and blocks survive a restart", 0, true},
		{"after a minute", "a bucket leaks while nobody runs", time.Minute, true},
		{"after a year", "a bucket leaks while nobody runs", 8760 * time.Hour, true},
		{"clock a little behind", "a clock that is behind after a restart neither leaks nor mints anything (trap 10)", -time.Minute, true},
		{"clock behind by MaxSkew", "a time is believed up to MaxSkew ahead", -maxSkew, true},
		{"clock far behind", "a time that is not believed becomes the clock, and the level stays", -time.Hour, false},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			st, clock := s.at2(t)
			for _, op := range ops {
				if _, err := (*st).Fill(t.Context(), op); err != nil {
					t.Fatal(err)
				}
			}
			if err := (*st).Delete(t.Context(), "deleted"); err != nil {
				t.Fatal(err)
			}
			for round := range 2 { // what was read once must survive the next restart too
				clock.set(start + c.clock.Microseconds())
				*st = s.o.Reopen(t, *st, clock.now)
				at := max(start, clock.now().UnixMicro())
				if !c.believe {
					at = clock.now().UnixMicro()
				}
				until := time.UnixMicro(at + max(0, time.Hour-max(0, c.clock)).Microseconds())
				want := map[string]store.State{
					"level":   {Level: leaked(64, c.clock), Capacity: 100, LeakRate: limit.LeakRate},
					"over":    {Level: leaked(250, c.clock), Capacity: 100, LeakRate: limit.LeakRate},
					"held":    {Level: leaked(16, c.clock), Held: 8, Capacity: 100, LeakRate: limit.LeakRate},
					"blocked": {Level: leaked(64, c.clock), Capacity: 100, LeakRate: limit.LeakRate},
					"limit":   {Level: 3, Capacity: 7},
				}
				if c.clock < time.Hour {
					w := want["blocked"]
					w.BlockedUntil = until
					want["blocked"] = w
				}
				list, err := (*st).Scan(t.Context(), "", "", 10)
				if err != nil {
					t.Fatal(err)
				}
				var keys []string
				for _, e := range list {
					keys = append(keys, e.Key)
					w := want[e.Key]
					w.At = time.UnixMicro(at)
					if !sameState(e.State, w) {
						t.Errorf("restart %d: %s is %+v, want %+v\nwhy: %s", round+1, e.Key, e.State, w, c.why)
					}
				}
				if all := []string{"blocked", "held", "level", "limit", "over"}; !slices.Equal(keys, all) {
					t.Errorf("restart %d: buckets %q, want %q\nwhy: %s", round+1, keys, all, c.why)
				}
			}
			// The survivors work: what is held can be released, what is full refuses.
			got, err := (*st).Fill(t.Context(), store.Op{Bucket: limit.For("held"), Hold: -8, Mode: store.Always})
			if err != nil || got.Held != 0 {
				t.Errorf("release of what was held before: %+v, %v", got, err)
			}
			got, err = (*st).Fill(t.Context(), store.Op{Bucket: store.Limit{Capacity: 7}.For("limit"), Amount: 5})
			if err != nil || got.Accepted {
				t.Errorf("3 of 7 are in, and 5 more: %+v, %v; want a refusal\nwhy: %s", got, err, c.why)
			}
		})
	}
}

// at2 is like at, for tests that put a reopened store in the place of the first.
func (s *suite) at2(t *testing.T) (*store.Store, *manual) {
	t.Helper()
	clock := newManual()
	st := s.o.OpenAt(t, clock.now)
	s.closeAtEnd(t, &st)
	return &st, clock
}

// restartReal restarts on the backend's own clock: a bucket's time does not go back, and nothing is lost.
func (s *suite) restartReal(t *testing.T) {
	st := s.openReal(t)
	s.closeAtEnd(t, &st)
	b := store.Limit{Capacity: 100}.For("b")
	var last time.Time
	for i := range 4 {
		got, err := st.Fill(t.Context(), store.Op{Bucket: b, Amount: 1})
		if err != nil || got.Level != float64(i+1) {
			t.Fatalf("after %d restarts: %+v, %v; want level %d\nwhy: what was acknowledged survives", i, got, err, i+1)
		}
		if got.At.Before(last) {
			t.Errorf("after %d restarts the bucket's time went back from %v to %v", i, last, got.At)
		}
		last = got.At
		st = s.o.Reopen(t, st, nil)
	}
}
