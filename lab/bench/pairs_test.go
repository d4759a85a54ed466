package bench

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/brimgo/brim/internal/load"
)

// side is one of two limiters that are compared. decide makes one decision on the key with the
// given number.
type side struct {
	name   string
	decide func(key int)
}

// pairs runs both sides in turn, b.N times, and reports the median of the pairwise ratios. Other
// work of the machine then slows both sides alike. Each turn makes decisions from one goroutine
// per core that the benchmark may use.
//
// Both sides read the keys from named. After pairs has created the buckets, it replaces the keys
// by copies, because each request brings its own copy of a key. If a map gets the string that it
// stores, it compares only the address and does not read the string.
func pairs(b *testing.B, named []string, decisions int, ours, theirs side) {
	b.Helper()
	keys := len(named)
	// The order of the keys is drawn before the clock runs, and is the same for both sides.
	order := make([]int32, 1<<20)
	r := rand.New(rand.NewPCG(1, 2))
	for i := range order {
		order[i] = int32(r.IntN(keys))
	}
	turn := func(s side) float64 {
		runtime.GC()
		workers := runtime.GOMAXPROCS(0)
		var wg sync.WaitGroup
		start := time.Now()
		for w := range workers {
			wg.Go(func() {
				at := w * len(order) / workers
				for range decisions / workers {
					s.decide(int(order[at&(len(order)-1)]))
					at++
				}
			})
		}
		wg.Wait()
		return float64(time.Since(start).Nanoseconds()) / float64(decisions)
	}
	for _, s := range []side{ours, theirs} {
		for key := range keys {
			s.decide(key)
		}
	}
	copy(named, names(keys))
	turn(ours)
	turn(theirs)
	var a, z, ratios []float64
	for i := range b.N {
		var x, y float64
		if i%2 == 0 { // neither side always runs first
			x, y = turn(ours), turn(theirs)
		} else {
			y, x = turn(theirs), turn(ours)
		}
		a, z, ratios = append(a, x), append(z, y), append(ratios, y/x)
	}
	b.ReportMetric(0, "ns/op") // the time of a pair of turns means nothing
	b.ReportMetric(load.Median(a), ours.name+"-ns")
	b.ReportMetric(load.Median(z), theirs.name+"-ns")
	b.ReportMetric(load.Median(ratios), "times-as-fast")
}

func names(n int) []string {
	keys := make([]string, n)
	for i := range keys {
		keys[i] = fmt.Sprintf("tenant:%d", i)
	}
	return keys
}
