package bench

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"golang.org/x/time/rate"

	"github.com/brimgo/brim"
	"github.com/brimgo/brim/memory"
)

// BenchmarkMemory compares a decision on buckets in memory with golang.org/x/time/rate's AllowN behind a sync.Map, which is
// what programs without a store keep their limits in. Both accept every time.
//
//	go test -run '^$' -bench Memory -benchtime 7x -cpu 1,2
func BenchmarkMemory(b *testing.B) {
	for _, keys := range []int{1, 100_000} {
		name := fmt.Sprintf("uniform-%d", keys)
		if keys == 1 {
			name = "hot"
		}
		b.Run(name, func(b *testing.B) {
			named := names(keys)
			pairs(b, named, 2_000_000, limiter(b, named), xrate(named))
		})
	}
}

// limiter is what an application calls: validation, the clock and the decision.
func limiter(b *testing.B, named []string) side {
	s, err := memory.New(nil)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { s.Close() })
	lim := brim.New(s, nil)
	limit := brim.Limit{Capacity: 1 << 50, LeakRate: 1e6}
	ctx := b.Context()
	return side{name: "brim", decide: func(key int) {
		if st, err := lim.TryFillup(ctx, limit.For(named[key]), 1); err != nil || !st.Accepted {
			panic(fmt.Sprint("not accepted: ", st, err))
		}
	}}
}

func xrate(named []string) side {
	var limiters sync.Map
	return side{name: "x-time-rate", decide: func(key int) {
		v, ok := limiters.Load(named[key])
		if !ok {
			v, _ = limiters.LoadOrStore(named[key], rate.NewLimiter(1e6, 1<<50))
		}
		if !v.(*rate.Limiter).AllowN(time.Now(), 1) {
			panic("not accepted")
		}
	}}
}
