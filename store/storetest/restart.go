package storetest

import (
	"testing"
	"time"

	"github.com/brimgo/brim/internal/differ"
	"github.com/brimgo/brim/store"
)

// restart closes and reopens a store. Its buckets must be the same before and after, whatever the
// clock shows then.
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
		t.Skip("the store does not support an operation")
	}
	for _, c := range []struct {
		name, why string
		clock     time.Duration // after the last write
	}{
		{"at once", "levels, holds, limits and blocks survive a restart", 0},
		{"after a minute", "a bucket leaks while no process runs", time.Minute},
		{"clock behind by MaxSkew", "a stored time is believed up to MaxSkew ahead of the clock", -maxSkew},
		{"clock far behind", "a stored time that is not believed is set to the clock, and the level stays", -time.Hour},
	} {
		t.Run(c.name, func(t *testing.T) {
			clock := newClock()
			st := s.reopenable(t, clock.now)
			for _, op := range ops {
				if _, err := (*st).Fill(t.Context(), op); err != nil {
					t.Fatal(err)
				}
			}
			if err := (*st).Delete(t.Context(), "deleted"); err != nil {
				t.Fatal(err)
			}
			clock.step(c.clock)
			before := entriesOf(t, *st, "")
			for round := range 2 { // the records must survive a second restart too
				*st = s.o.Reopen(t, *st, clock.now)
				if d := differ.Fields(entriesOf(t, *st, ""), before); len(before) != 5 || d != "" {
					t.Errorf("restart %d, of %d buckets, want 5:\n%s\nwhy: %s", round+1, len(before), d, c.why)
				}
			}
		})
	}
}

// restartReal reopens the store on its own clock. The bucket's time must not go back, and no
// fill may be lost.
func (s *suite) restartReal(t *testing.T) {
	st := s.reopenable(t, nil)
	b := store.Limit{Capacity: 100}.For("b")
	var last time.Time
	for i := range 4 {
		got, err := (*st).Fill(t.Context(), store.Op{Bucket: b, Amount: 1})
		if err != nil || got.Level != float64(i+1) || got.At.Before(last) {
			t.Fatalf("after %d restarts, and a fill at %v: %+v, %v; want level %d\nwhy: acknowledged fills survive, and "+
				"a bucket's time does not go back", i, last, got, err, i+1)
		}
		last = got.At
		*st = s.o.Reopen(t, *st, nil)
	}
}
