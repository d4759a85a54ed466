package redisstore

import (
	"math"
	"testing"
	"time"

	"github.com/brimgo/brim"
	"github.com/brimgo/brim/store"
)

func TestLimitForms(t *testing.T) {
	for _, c := range []struct {
		name   string
		limit  store.Limit
		narrow bool
	}{
		{"nothing", store.Limit{}, true},
		{"whole numbers", store.Limit{Capacity: 10_000, LeakRate: 500}, true},
		{"a hundred a minute", brim.Over(100, time.Minute), true},
		{"seven a day", brim.Over(7, 24*time.Hour), true},
		{"a thousand in 333 ms", brim.Over(1000, 333*time.Millisecond), true},
		{"no leak", store.Limit{Capacity: 1e15}, true},
		{"a millionth a second", store.Limit{Capacity: 67_108_863, LeakRate: 1e-6}, true},
		{"hundredths", store.Limit{Capacity: 2.55, LeakRate: 0.01}, true},
		{"small exponents", store.Limit{Capacity: 1e-16, LeakRate: 3e-16}, true},
		{"large exponents", store.Limit{Capacity: 6e22, LeakRate: 1e16}, true},
		{"a power of two", store.Limit{Capacity: 1 << 40, LeakRate: 1}, false},
		{"nine digits", store.Limit{Capacity: 123_456_789, LeakRate: 1}, false},
		{"a third", store.Limit{Capacity: 10, LeakRate: math.Pi}, false},
		{"the least double", store.Limit{Capacity: math.SmallestNonzeroFloat64, LeakRate: 1}, false},
		{"the largest double", store.Limit{Capacity: math.MaxFloat64, LeakRate: math.MaxFloat64}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			form := appendLimit(nil, c.limit)
			if got := parseLimit(form); got != c.limit {
				t.Errorf("%v became %v", c.limit, got)
			}
			if narrow := len(form) == narrowForm; narrow != c.narrow {
				t.Errorf("%v has a form of %d bytes", c.limit, len(form))
			}
		})
	}
}

// FuzzLimitForms has every limit come back as it was, to the last bit.
func FuzzLimitForms(f *testing.F) {
	f.Add(100.0, 100/60.0)
	f.Add(1e22, 1e-16)
	f.Add(0.1, 0.3)
	f.Add(5e-324, 1e308)
	f.Fuzz(func(t *testing.T, capacity, rate float64) {
		l := store.Limit{Capacity: capacity, LeakRate: rate}
		got := parseLimit(appendLimit(nil, l))
		if math.Float64bits(got.Capacity) != math.Float64bits(capacity) || math.Float64bits(got.LeakRate) != math.Float64bits(rate) {
			t.Errorf("%v, %v became %v, %v", capacity, rate, got.Capacity, got.LeakRate)
		}
	})
}
