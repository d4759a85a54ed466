package store

import (
	"errors"
	"math"
	"testing"
	"time"
)

func TestOver(t *testing.T) {
	for _, c := range []struct {
		capacity float64
		period   time.Duration
		rate     float64
		valid    bool
	}{
		{600, time.Minute, 10, true},
		{1, time.Hour, 1.0 / 3600, true},
		{1, time.Nanosecond, 1e9, true},
		{1 << 53, time.Second, 1 << 53, true},
		{10, math.MaxInt64, 10 / time.Duration(math.MaxInt64).Seconds(), true},
		{10, -time.Second, -10, false},
		{0, time.Second, 0, true}, // Nobody
		{1 << 53, time.Millisecond, (1 << 53) * 1e3, false},
		{1e-9, time.Hour, 1e-9 / 3600, false},
	} {
		got := Over(c.capacity, c.period)
		if got.Capacity != c.capacity || math.Abs(got.LeakRate-c.rate) > math.Abs(c.rate)*1e-15 {
			t.Errorf("Over(%v, %v) = %+v, want a leak rate of %v", c.capacity, c.period, got, c.rate)
		}
		if err := got.Validate(); (err == nil) != c.valid || err != nil && !errors.Is(err, ErrInvalidLimit) {
			t.Errorf("Over(%v, %v) is %v, want valid = %v", c.capacity, c.period, err, c.valid)
		}
	}
	if err := Over(10, 0).Validate(); !errors.Is(err, ErrInvalidLimit) {
		t.Errorf("Over(10, 0) is %v, want ErrInvalidLimit, because no leak rate drains a bucket in no time", err)
	}
	if err := Over(0, 0).Validate(); !errors.Is(err, ErrInvalidLimit) {
		t.Errorf("Over(0, 0) is %v, want ErrInvalidLimit, because 0/0 is NaN", err)
	}
}

func TestRemaining(t *testing.T) {
	for _, c := range []struct {
		st   State
		want float64
	}{
		{State{Capacity: 10}, 10},
		{State{Capacity: 10, Level: 4, Held: 3}, 3},
		{State{Capacity: 10, Level: 25}, 0}, // above the capacity: not below zero
		{State{Capacity: 10, Held: 10}, 0},
		{State{Capacity: 10, At: midday, BlockedUntil: midday.Add(1)}, 0},
		{State{Capacity: 10, At: midday, BlockedUntil: midday}, 10},
	} {
		if got := c.st.Remaining(); got != c.want {
			t.Errorf("%+v: %v remain, want %v", c.st, got, c.want)
		}
	}
}

var midday = time.Date(2024, 6, 1, 12, 0, 0, 0, time.UTC)

func TestWhen(t *testing.T) {
	st := State{Level: 6, Held: 1, Capacity: 10, LeakRate: 2, At: midday}
	blocked := st
	blocked.BlockedUntil = midday.Add(time.Minute)
	for _, c := range []struct {
		name string
		st   State
		n    float64
		want time.Duration
	}{
		{"it fits", st, 3, 0},
		{"a unit must leak", st, 4, time.Second / 2},
		{"all that leaks", st, 9, 3 * time.Second},
		{"held units do not leak", st, 10, Never},
		{"rounded up", State{Level: 10, Capacity: 10, LeakRate: 3, At: midday}, 1, 333334 * time.Microsecond},
		{"blocked", blocked, 4, time.Minute},
		{"blocked, but nothing", blocked, 0, time.Minute},
		{"no leak", State{Level: 10, Capacity: 10, At: midday}, 1, Never},
		{"under Nobody", State{}, 1, Never},
		{"not a number", st, math.NaN(), Never},
	} {
		if got := c.st.When(c.n); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

func TestStateString(t *testing.T) {
	st := State{Level: 9.5, Capacity: 10, LeakRate: 0.5, At: midday}
	for _, c := range []struct {
		change func(*State)
		want   string
	}{
		{func(s *State) { s.Accepted = true }, "accepted: 9.5 of 10 units, leak 0.5/s"},
		{func(s *State) { s.RetryAfter = 2 * time.Second }, "refused, retry after 2s: 9.5 of 10 units, leak 0.5/s"},
		{func(s *State) { s.RetryAfter, s.Capacity = Never, 1e7 }, "refused, never fits: 9.5 of 10000000 units, leak 0.5/s"},
		{
			func(s *State) { s.Held, s.BlockedUntil, s.Estimate = 2, midday.Add(time.Hour), true },
			"9.5 of 10 units, 2 held, leak 0.5/s, blocked until 2024-06-01T13:00:00Z, an estimate",
		},
	} {
		st := st
		c.change(&st)
		if got := st.String(); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}

func TestTimeToEmpty(t *testing.T) {
	for _, c := range []struct {
		name string
		st   State
		want time.Duration
	}{
		{"empty", State{LeakRate: 1}, 0},
		{"empty, no leak", State{}, 0},
		{"held units do not leak", State{Held: 5, LeakRate: 1}, 0},
		{"exact", State{Level: 5, LeakRate: 2}, 2500 * time.Millisecond},
		{"rounded up to a microsecond", State{Level: 1, LeakRate: 3}, 333334 * time.Microsecond},
		{"less than a microsecond", State{Level: 1, LeakRate: 1 << 53}, time.Microsecond},
		{"no leak", State{Level: 1}, Never},
		{"146 years", State{Level: 4.61e9, LeakRate: 1}, 4_610_000_000 * time.Second},
		{"more than 146 years", State{Level: 4.62e9, LeakRate: 1}, Never},
		{"more than any integer", State{Level: 1 << 53, LeakRate: 1e-12}, Never},
	} {
		if got := c.st.TimeToEmpty(); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

func TestMaxWait(t *testing.T) {
	for _, c := range []struct {
		limit Limit
		want  time.Duration
	}{
		{Limit{Capacity: 10, LeakRate: 4}, 2500 * time.Millisecond},
		{Limit{Capacity: 10}, Never},
		{Limit{}, Never},
		{Limit{Capacity: 1, LeakRate: 3}, 333334 * time.Microsecond},
		{Limit{Capacity: 1, LeakRate: 1 << 53}, time.Microsecond},
		// 1/(1/49) is 49.00000000000001 in doubles.
		{Over(1, 49*time.Second), 49 * time.Second},
		{Over(7, 1_000_003*time.Microsecond), 1_000_003 * time.Microsecond},
		{Limit{Capacity: 1 << 53, LeakRate: 1e-12}, Never},
	} {
		if got := c.limit.MaxWait(); got != c.want {
			t.Errorf("%+v: %v, want %v", c.limit, got, c.want)
		}
	}
}
