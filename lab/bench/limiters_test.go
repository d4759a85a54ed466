package bench

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"golang.org/x/time/rate"

	"github.com/brimgo/brim"
	"github.com/brimgo/brim/local"
	"github.com/brimgo/brim/memory"
	"github.com/brimgo/brim/store"
)

// BenchmarkMemory compares a decision on buckets in memory with golang.org/x/time/rate's AllowN
// behind a sync.Map, as programs without a store commonly use it. Both sides accept every call.
//
//	go test -run '^$' -bench Memory -benchtime 7x -cpu 1,2
func BenchmarkMemory(b *testing.B) {
	compare(b, func(b *testing.B, keys []string) (ours, theirs side) {
		limit := brim.Limit{Capacity: 1 << 50, LeakRate: 1e6}
		s := openMemory(b)
		b.Cleanup(func() { _ = s.Close() })
		return brimSide(b.Context(), s, limit, keys, true), rateSide(limit, keys, true)
	})
}

// BenchmarkRefusals compares a call that local.Refusals refuses from memory with
// golang.org/x/time/rate's AllowN behind a sync.Map. Both sides refuse every call: their buckets
// are full, and stay full for longer than the benchmark runs.
//
//	go test -run '^$' -bench Refusals -benchtime 7x -cpu 1,2
func BenchmarkRefusals(b *testing.B) {
	compare(b, func(b *testing.B, keys []string) (ours, theirs side) {
		limit := brim.Limit{Capacity: 100, LeakRate: 1e-6}
		s, err := local.Refusals(openMemory(b), &local.RefusalsOptions{Remember: time.Hour, MaxBuckets: len(keys)})
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { _ = s.Close() })
		ours = brimSide(b.Context(), s, limit, keys, false)
		lim := brim.New(s, nil)
		for _, key := range keys {
			for _, n := range []float64{limit.Capacity - 1, 1} {
				if _, err := lim.TryFillup(b.Context(), limit.For(key), n); err != nil {
					b.Fatal(err)
				}
			}
		}
		return ours, rateSide(limit, keys, false)
	})
}

// compare runs pairs of two sides on one key and on 100,000 keys.
func compare(b *testing.B, open func(b *testing.B, keys []string) (ours, theirs side)) {
	for _, c := range []struct {
		name string
		keys int
	}{{"hot", 1}, {"uniform-100000", 100_000}} {
		b.Run(c.name, func(b *testing.B) {
			keys := names(c.keys)
			ours, theirs := open(b, keys)
			pairs(b, keys, 2_000_000, ours, theirs)
		})
	}
}

func openMemory(b *testing.B) store.Store {
	b.Helper()
	s, err := memory.New(nil)
	if err != nil {
		b.Fatal(err)
	}
	return s
}

// brimSide decides as an application does, through a Limiter. Each decision must accept, or each
// must refuse.
func brimSide(ctx context.Context, s store.Store, limit brim.Limit, keys []string, accept bool) side {
	lim := brim.New(s, nil)
	return side{name: "brim", decide: func(key int) {
		if st, err := lim.TryFillup(ctx, limit.For(keys[key]), 1); err != nil || st.Accepted != accept {
			panic(fmt.Sprintf("accepted %v, %v; want %v", st.Accepted, err, accept))
		}
	}}
}

// rateSide decides by one rate.Limiter per key. Each decision must accept, or each must refuse;
// to refuse, the buckets are filled first.
func rateSide(limit brim.Limit, keys []string, accept bool) side {
	var limiters sync.Map
	newLimiter := func() *rate.Limiter { return rate.NewLimiter(rate.Limit(limit.LeakRate), int(limit.Capacity)) }
	if !accept {
		for _, key := range keys {
			l := newLimiter()
			l.AllowN(time.Now(), int(limit.Capacity))
			limiters.Store(key, l)
		}
	}
	return side{name: "x-time-rate", decide: func(key int) {
		v, ok := limiters.Load(keys[key])
		if !ok {
			v, _ = limiters.LoadOrStore(keys[key], newLimiter())
		}
		if v.(*rate.Limiter).AllowN(time.Now(), 1) != accept {
			panic(fmt.Sprintf("accepted %v, want %v", !accept, accept))
		}
	}}
}
