package storetest

import (
	"slices"
	"testing"
	"time"

	"github.com/brimgo/brim/store"
)

// restart closes and reopens a store. Buckets must survive, whatever the clock shows then.
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
		t.Log("left out because the store does not support an operation")
		return
	}
	leaked := func(level float64, d time.Duration) float64 {
		return max(0, level-limit.LeakRate*max(0, d).Seconds())
	}
	cases := []struct {
		name    string
		why     string
		clock   time.Duration // after the last write
		believe bool          // the time of the last write is believed
	}{
		{"at once", "levels, holds, limits and blocks survive a restart", 0, true},
		{"after a minute", "a bucket leaks while no process runs", time.Minute, true},
		{"after a year", "a bucket leaks while no process runs", 8760 * time.Hour, true},
		{
			"clock a little behind", "a clock that is behind after a restart neither leaks nor creates room",
			-time.Minute, true,
		},
		{"clock behind by MaxSkew", "a stored time is believed up to MaxSkew ahead of the clock", -maxSkew, true},
		{
			"clock far behind", "a stored time that is not believed is set to the clock, and the level stays",
			-time.Hour, false,
		},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			st, clock := s.reopenable(t)
			for _, op := range ops {
				if _, err := (*st).Fill(t.Context(), op); err != nil {
					t.Fatal(err)
				}
			}
			if err := (*st).Delete(t.Context(), "deleted"); err != nil {
				t.Fatal(err)
			}
			for round := range 2 { // the records must survive a second restart too
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
				var keys []string
				for _, e := range entriesOf(t, *st, "") {
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
			// The buckets work after the restart: held units can be released, and a full bucket
			// refuses.
			release := store.Op{Bucket: limit.For("held"), Hold: -8, Mode: store.Always}
			got, err := (*st).Fill(t.Context(), release)
			if err != nil || got.Held != 0 {
				t.Errorf("release of the units held before: %+v, %v; want nothing held", got, err)
			}
			got, err = (*st).Fill(t.Context(), store.Op{Bucket: store.Limit{Capacity: 7}.For("limit"), Amount: 5})
			if err != nil || got.Accepted {
				t.Errorf("fill of 5 into 3 of 7: %+v, %v; want a refusal\nwhy: %s", got, err, c.why)
			}
		})
	}
}

// reopenable is like at, for tests that replace the store by a reopened one.
func (s *suite) reopenable(t *testing.T) (*store.Store, *manualClock) {
	t.Helper()
	clock := newClock()
	st := s.o.OpenAt(t, clock.now)
	s.closeAtEnd(t, &st)
	return &st, clock
}

// restartReal reopens the store on its own clock. The bucket's time must not go back, and no
// fill may be lost.
func (s *suite) restartReal(t *testing.T) {
	st := s.openReal(t)
	s.closeAtEnd(t, &st)
	b := store.Limit{Capacity: 100}.For("b")
	var last time.Time
	for i := range 4 {
		got, err := st.Fill(t.Context(), store.Op{Bucket: b, Amount: 1})
		if err != nil || got.Level != float64(i+1) {
			t.Fatalf("after %d restarts: %+v, %v; want level %d\nwhy: acknowledged fills survive", i, got, err, i+1)
		}
		if got.At.Before(last) {
			t.Errorf("after %d restarts the bucket's time went back from %v to %v", i, last, got.At)
		}
		last = got.At
		st = s.o.Reopen(t, st, nil)
	}
}
