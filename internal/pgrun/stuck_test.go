package pgrun

import (
	"slices"
	"testing"
	"testing/synctest"
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
		{"on probation", "a lock that comes and goes would stall a flush each time", firstProbation / 2, false, false, true},
		{"free", "its callers need the slow lane no more", 2 * firstProbation, false, false, false},
		{"locked, nobody waits", "nobody would notice that it is free", 11 * lastProbation, true, false, false},
		{"locked, left just now", "callers that come back after their deadline would stall a flush", 11 * lastProbation, true, true, true},
		{"locked, left a while ago", "callers may come back", 5 * lastProbation, true, false, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
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
		})
	}
}

// TestProbation has a row get stuck several times. A row that gets stuck once is back soon. One that
// gets stuck again and again stays away longer each time, up to a bound.
func TestProbation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStuck()
		key := slices.Values([]string{"key"})
		// stuckFor has the row be locked and free again, and returns how long it stays in the set.
		stuckFor := func() time.Duration {
			s.add(map[string]bool{"key": true}, true)
			s.looked([]string{"key"}, nil)
			free := time.Now()
			for s.has(key) {
				time.Sleep(time.Millisecond)
				s.sweep()
			}
			return time.Since(free)
		}
		want := firstProbation
		for n := range 10 {
			if got := stuckFor(); got != want {
				t.Errorf("stuck for the time number %d, the row stays for %v, want %v", n+1, got, want)
			}
			want = min(2*want, lastProbation)
			time.Sleep(remembered - time.Millisecond)
		}
		time.Sleep(time.Millisecond)
		if got := stuckFor(); got != firstProbation {
			t.Errorf("stuck after a long time, the row stays for %v, want %v", got, firstProbation)
		}
		time.Sleep(remembered)
		s.add(map[string]bool{"other": true}, false)
		time.Sleep(lastProbation)
		s.sweep()
		if len(s.left) != 0 || !s.empty() {
			t.Errorf("%d rows are remembered after a long time, and the set is empty: %t", len(s.left), s.empty())
		}
	})
}
