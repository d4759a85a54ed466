package bench

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"golang.org/x/time/rate"

	"github.com/brimgo/brim"
	"github.com/brimgo/brim/memory"
	"github.com/brimgo/brim/refusals"
)

// BenchmarkRefusals compares a call that is refused again from memory with golang.org/x/time/rate's AllowN behind a sync.Map.
// Both refuse every time.
//
//	go test -run '^$' -bench Refusals -benchtime 7x -cpu 1,2
func BenchmarkRefusals(b *testing.B) {
	for _, keys := range []int{1, 100_000} {
		name := fmt.Sprintf("uniform-%d", keys)
		if keys == 1 {
			name = "hot"
		}
		b.Run(name, func(b *testing.B) {
			named := names(keys)
			pairs(b, named, 2_000_000, refusing(b, named), xrefusing(named))
		})
	}
}

// refusing fills each bucket for longer than the benchmark takes.
func refusing(b *testing.B, named []string) side {
	m, err := memory.New(nil)
	if err != nil {
		b.Fatal(err)
	}
	s, err := refusals.New(m, &refusals.Options{Remember: time.Hour, MaxBuckets: len(named)})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { s.Close() })
	lim := brim.New(s, nil)
	limit := brim.Limit{Capacity: 100, LeakRate: 1e-6}
	ctx := b.Context()
	for _, name := range named {
		if _, err := lim.TryFillup(ctx, limit.For(name), 100); err != nil {
			b.Fatal(err)
		}
	}
	return side{name: "brim", decide: func(key int) {
		if st, err := lim.TryFillup(ctx, limit.For(named[key]), 1); err != nil || st.Accepted {
			panic(fmt.Sprint("not refused: ", st, err))
		}
	}}
}

func xrefusing(named []string) side {
	var limiters sync.Map
	for _, name := range named {
		l := rate.NewLimiter(1e-6, 100)
		l.AllowN(time.Now(), 100)
		limiters.Store(name, l)
	}
	return side{name: "x-time-rate", decide: func(key int) {
		v, ok := limiters.Load(named[key])
		if !ok {
			v, _ = limiters.LoadOrStore(named[key], rate.NewLimiter(1e-6, 100))
		}
		if v.(*rate.Limiter).AllowN(time.Now(), 1) {
			panic("not refused")
		}
	}}
}
