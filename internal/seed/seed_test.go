package seed

import "testing"

func TestNew(t *testing.T) {
	for _, c := range []struct {
		text string
		want uint64
		ok   bool
	}{
		{"0", 0, true},
		{"123", 123, true},
		{"18446744073709551615", 1<<64 - 1, true},
		{"18446744073709551616", 0, false},
		{"-1", 0, false},
		{"one", 0, false},
	} {
		t.Setenv("BRIM_SEED", c.text)
		if got, err := New(); got != c.want || (err == nil) != c.ok {
			t.Errorf("BRIM_SEED=%s: %d, %v; want %d", c.text, got, err, c.want)
		}
	}
	t.Setenv("BRIM_SEED", "")
	a, errA := New()
	b, errB := New()
	if errA != nil || errB != nil || a == b {
		t.Errorf("without BRIM_SEED: %d, %v and %d, %v; want two different seeds", a, errA, b, errB)
	}
}

func TestCount(t *testing.T) {
	for text, want := range map[string]int{"": 7, "1": 1, "100000": 100_000, "0": 0, "-1": 0, "1e3": 0} {
		t.Setenv("BRIM_COUNT", text)
		if got, err := Count(7); got != want || (err == nil) != (want > 0) {
			t.Errorf("BRIM_COUNT=%s: %d, %v; want %d", text, got, err, want)
		}
	}
}
