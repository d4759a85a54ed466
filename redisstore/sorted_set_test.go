package redisstore

import (
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/brimgo/brim"
	"github.com/brimgo/brim/internal/docpage"
	"github.com/brimgo/brim/internal/redistest"
)

// calls is the number of calls per hour that docs/algorithms.md compares the bytes of.
const calls = 10_000

// hourly allows that many calls.
var hourly = brim.Over(calls, 3600e9)

// pageFigure returns the number in the row of docs/algorithms.md that begins with name.
func pageFigure(t *testing.T, name string) float64 {
	t.Helper()
	figures, err := docpage.Figures("../docs/algorithms.md", name, 1)
	must(t, err)
	return figures[0]
}

// TestBytesBesideASortedSet measures the memory of a sliding log in a sorted set, and that of the
// bucket which has taken as many calls. docs/algorithms.md shows the figures.
func TestBytesBesideASortedSet(t *testing.T) {
	client := redistest.Client(t)
	prefix := redistest.Prefix(t, client)
	s := open(t, client, &Options{Prefix: prefix})
	members := make([]redis.Z, calls)
	for i := range members {
		micros := int64(1_717_243_200_000_000) + int64(i)*360_000
		members[i] = redis.Z{Score: float64(micros), Member: fmt.Sprintf("%d-%d", micros, i)}
	}
	must(t, client.ZAdd(t.Context(), prefix+"log", members...).Err())
	st, err := brim.New(s, nil).TryFillup(t.Context(), hourly.For("bucket"), calls)
	if err != nil || !st.Accepted {
		t.Fatalf("%+v, %v; want an accepted fill", st, err)
	}
	for key, row := range map[string]string{
		"log": "a sorted set of 10,000 calls", "bucket": "a bucket that has taken 10,000 calls",
	} {
		got, err := client.MemoryUsage(t.Context(), prefix+key, 0).Result()
		must(t, err)
		// Allocators round differently, and Valkey 9 takes a third less than Redis.
		if want := pageFigure(t, row); float64(got) > want*5/4 || float64(got) < want/2 {
			t.Errorf("%s takes %d bytes; docs/algorithms.md shows %v", row, got, want)
		}
	}
}

// TestRoundTrips counts the round trips of a decision. The second of two commands doubles the time
// of a call, because a decision takes the server far less time than a round trip.
func TestRoundTrips(t *testing.T) {
	shared := redistest.Client(t)
	options := *shared.Options()
	client := redis.NewClient(&options)
	defer client.Close()
	var count atomic.Int64
	client.AddHook(before(func(redis.Cmder) error {
		count.Add(1)
		return nil
	}))
	lim := brim.New(open(t, client, &Options{Prefix: redistest.Prefix(t, shared)}), nil)
	tryFillup := func() (brim.State, error) { return lim.TryFillup(t.Context(), hourly.For("k"), 1) }
	checkThenFill := func() (brim.State, error) {
		if st, err := lim.AbleToAccept(t.Context(), hourly.For("k"), 1); err != nil || !st.Accepted {
			return st, err
		}
		return lim.Fillup(t.Context(), hourly.For("k"), 1)
	}
	for range 2 { // the first calls load the script
		for _, call := range []func() (brim.State, error){tryFillup, checkThenFill} {
			if _, err := call(); err != nil {
				t.Fatal(err)
			}
		}
	}
	for row, call := range map[string]func() (brim.State, error){
		"`TryFillup`": tryFillup, "`AbleToAccept`, then `Fillup`": checkThenFill,
	} {
		earlier := count.Load()
		if _, err := call(); err != nil {
			t.Fatal(err)
		}
		if got, want := count.Load()-earlier, pageFigure(t, row); float64(got) != want {
			t.Errorf("%s takes %d round trips; docs/algorithms.md shows %v", row, got, want)
		}
	}
}

// BenchmarkCheckThenFill measures one round trip against two, by one caller.
func BenchmarkCheckThenFill(b *testing.B) {
	client := redistest.Client(b)
	lim := brim.New(open(b, client, &Options{Prefix: redistest.Prefix(b, client)}), nil)
	bucket := brim.Limit{Capacity: 1e12, LeakRate: 1}.For("k")
	b.Run("TryFillup", func(b *testing.B) {
		for b.Loop() {
			if _, err := lim.TryFillup(b.Context(), bucket, 1); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("AbleToAccept, then Fillup", func(b *testing.B) {
		for b.Loop() {
			if _, err := lim.AbleToAccept(b.Context(), bucket, 1); err != nil {
				b.Fatal(err)
			}
			if _, err := lim.Fillup(b.Context(), bucket, 1); err != nil {
				b.Fatal(err)
			}
		}
	})
}
