package attack

import (
	"cmp"
	"fmt"
	"slices"
	"testing"
	"time"
)

func TestShrink(t *testing.T) {
	numbers := make([]int, 100)
	for i := range numbers {
		numbers[i] = i
	}
	for _, c := range []struct {
		name, why string
		want      []int
	}{
		{"one", "all others can go", []int{42}},
		{"ends", "the first and the last must stay", []int{0, 99}},
		{"neighbours and others", "the order stays", []int{3, 4, 50, 77}},
		{"none", "the failure needs no element", nil},
		{"all", "nothing can go", numbers},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := Shrink(numbers, 100_000, func(part []int) bool {
				for _, n := range c.want {
					if !slices.Contains(part, n) {
						return false
					}
				}
				return true
			})
			if !slices.Equal(got, c.want) {
				t.Errorf("got %v, want %v: %s", got, c.want, c.why)
			}
		})
	}
	tries := 0
	got := Shrink(numbers, 5, func(part []int) bool {
		tries++
		return slices.Contains(part, 42)
	})
	if tries != 5 || !slices.Contains(got, 42) {
		t.Errorf("%d tries with the result %v, want 5 tries and a part with 42", tries, got)
	}
}

func TestSeed(t *testing.T) {
	t.Setenv("BRIM_SEED", "123")
	t.Setenv("BRIM_TORTURE", "")
	s, err := NewSeed()
	if err != nil || s != 123 {
		t.Fatalf("seed %d, %v", s, err)
	}
	if a, b := s.Rand().Uint64(), s.Rand().Uint64(); a != b {
		t.Errorf("one seed made %d and %d", a, b)
	}
	if a, b := s.Part(0).Rand().Uint64(), s.Part(1).Rand().Uint64(); a == b || a != s.Rand().Uint64() {
		t.Errorf("part 0 made %d, part 1 %d, the seed %d", a, b, s.Rand().Uint64())
	}
	const want = "BRIM_SEED=125 go test -count=1 -run 'TestPower/bolt' ./power"
	if got := s.Part(2).Repeat("power", "TestPower/bolt"); got != want {
		t.Errorf("the command is %q, want %q", got, want)
	}
	t.Setenv("BRIM_TORTURE", "1")
	if got := s.Part(2).Repeat("power", "TestPower/bolt"); got != "BRIM_TORTURE=1 "+want {
		t.Errorf("at night the command is %q, want %q before it", got, "BRIM_TORTURE=1")
	}
	t.Setenv("BRIM_SEED", "-1")
	if s, err := NewSeed(); err == nil {
		t.Errorf("-1 became the seed %d", s)
	}
}

func TestMeter(t *testing.T) {
	t.Setenv("BRIM_TORTURE", "")
	quick, night := Budget{Count: 2, Time: time.Hour}, Budget{Count: 3, Time: time.Hour}
	if got := Pick(quick, night); got != quick {
		t.Errorf("by day the budget is %v", got)
	}
	t.Setenv("BRIM_TORTURE", "1")
	if got := Pick(quick, night); got != night {
		t.Errorf("at night the budget is %v", got)
	}
	m := quick.Start()
	for n := range 3 {
		if m.Done = n; m.Spent() != (n >= 2) {
			t.Errorf("after %d of 2 attacks Spent is %v", n, m.Spent())
		}
	}
	if m := (Budget{Count: 1, Time: 0}).Start(); !m.Spent() {
		t.Error("no time is left, and Spent is false")
	}
}

// ending is a test that ends at once.
type ending struct {
	testing.TB
	failed  bool
	cleanup func()
	log     string
}

func (e *ending) Cleanup(f func())              { e.cleanup = f }
func (e *ending) Failed() bool                  { return e.failed }
func (e *ending) Logf(text string, args ...any) { e.log = fmt.Sprintf(text, args...) }

func TestReport(t *testing.T) {
	for _, c := range []struct {
		found  string
		failed bool
		want   string
	}{
		{"", false, "power attacked bolt: 7 images, seed 3, in 0s: found nothing"},
		{"lost", true, "power attacked bolt: 7 images, seed 3, in 0s: found lost"},
		{"", true, "power attacked bolt: 7 images, seed 3, in 0s: found a failure, see above"},
	} {
		e := &ending{failed: c.failed}
		r := Begin(e, "power", "bolt", 3)
		r.Often, r.Found = "7 images", cmp.Or(c.found, r.Found)
		if e.cleanup(); e.log != c.want {
			t.Errorf("the test logged %q, want %q", e.log, c.want)
		}
	}
}
