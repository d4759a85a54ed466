package clock

import (
	"testing"
	"time"
)

func TestInjectedSource(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC)
	c := New(func() time.Time { return at })
	if ahead := c.Resume(at.Add(time.Hour).UnixMicro(), time.Minute); ahead != 0 {
		t.Errorf("Resume found an injected clock %v behind; it is taken as it is", ahead)
	}
	for _, d := range []time.Duration{0, time.Second, -time.Hour} {
		at = at.Add(d)
		if got := c.Now(); got != at.UnixMicro() {
			t.Errorf("the clock shows %d, its source %d", got, at.UnixMicro())
		}
	}
}

func TestResume(t *testing.T) {
	for _, c := range []struct {
		name, why string
		by        time.Duration // from the system's clock to the highest time of the earlier run
		resumes   bool
		ahead     bool
	}{
		{"behind", "the usual restart", -time.Hour, false, false},
		{"a little ahead", "the system's clock was set back: no time must be used twice", time.Minute, true, false},
		{"far ahead", "a clock that had jumped must not freeze all buckets", time.Hour, false, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			clock := New(nil)
			before := clock.Now()
			ahead := clock.Resume(before+c.by.Microseconds(), 5*time.Minute)
			if (ahead > 0) != c.ahead || c.ahead && ahead > c.by {
				t.Errorf("%v ahead: %s", ahead, c.why)
			}
			want := before
			if c.resumes {
				want += c.by.Microseconds()
			}
			now := clock.Now()
			if now < want || now > want+time.Minute.Microseconds()/2 {
				t.Errorf("the clock shows %d, want %d: %s", now, want, c.why)
			}
			if later := clock.Now(); later < now {
				t.Errorf("the clock ran back from %d to %d", now, later)
			}
		})
	}
}
