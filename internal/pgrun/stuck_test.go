package pgrun

import (
	"slices"
	"testing"
	"time"
)

// TestSweep asks which rows leave the set of stuck rows.
func TestSweep(t *testing.T) {
	for _, c := range []struct {
		name, why string
		age       time.Duration // since the row was found free, or somebody waited for it
		locked    bool
		waits     bool // somebody waits while an earlier sweep runs
		want      bool // the row stays
	}{
		{"on probation", "a lock that comes and goes would stall a flush each time", probation / 2, false, false, true},
		{"free", "its callers need the slow lane no more", 2 * probation, false, false, false},
		{"locked, nobody waits", "nobody would notice that it is free", 11 * probation, true, false, false},
		{"locked, left just now", "callers that come back after their deadline would stall a flush", 11 * probation, true, true, true},
		{"locked, left a while ago", "callers may come back", 5 * probation, true, false, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newStuck()
			s.add(map[string]bool{"key": true}, c.locked)
			(*s.rows.Load())["key"].since = time.Now().Add(-c.age)
			if c.waits {
				w := s.enter([]string{"key"})
				s.sweep()
				s.leave(w)
			}
			s.sweep()
			if got := s.has(slices.Values([]string{"key"})); got != c.want {
				t.Errorf("in the set: %v, want %v: %s", got, c.want, c.why)
			}
		})
	}
}
