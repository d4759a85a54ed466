package memory_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/brimgo/brim/brimtest"
	"github.com/brimgo/brim/internal/paging"
	"github.com/brimgo/brim/memory"
	"github.com/brimgo/brim/store"
)

// open returns an empty store with the given options, and its clock.
func open(t testing.TB, o memory.Options) (store.Store, *brimtest.Clock) {
	t.Helper()
	clock := brimtest.NewClock(time.Date(2024, 3, 1, 0, 0, 0, 0, time.UTC))
	o.Clock = clock.Now
	s := memory.New(&o)
	t.Cleanup(func() { s.Close() })
	return s, clock
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

var limit = store.Limit{Capacity: 10, LeakRate: 1}

func fill(key string, n float64) store.Op { return store.Op{Bucket: limit.For(key), Amount: n} }

// do makes a fill.
func do(t testing.TB, s store.Store, op store.Op) store.State {
	t.Helper()
	st, err := s.Fill(t.Context(), op)
	must(t, err)
	return st
}

// count returns the number of buckets in the store.
func count(t testing.TB, s store.Store) int {
	t.Helper()
	entries, err := paging.All(t.Context(), s, "")
	must(t, err)
	return len(entries)
}

func TestMaxBuckets(t *testing.T) {
	ctx := t.Context()
	s, clock := open(t, memory.Options{MaxBuckets: 100})
	for i := range 100 {
		if st, err := s.Fill(ctx, fill(fmt.Sprint("b", i), 5)); err != nil || !st.Accepted {
			t.Fatalf("bucket %d of 100: %+v, %v", i, st, err)
		}
	}
	refused := func(why string) {
		t.Helper()
		hold := store.Op{Bucket: limit.For("held"), Hold: 1}
		if _, err := s.Fill(ctx, hold); !errors.Is(err, store.ErrFull) || errors.Is(err, store.ErrUnavailable) {
			t.Errorf("bucket 101 = %v; want ErrFull, which opens no limit: %s", err, why)
		}
	}
	refused("no other bucket is empty")
	if st, err := s.Fill(ctx, fill("b7", 5)); err != nil || !st.Accepted || st.Level != 10 {
		t.Errorf("fill of an existing bucket: %+v, %v; want it accepted", st, err)
	}
	if st, err := s.Fill(ctx, fill("new", 11)); err != nil || st.RetryAfter != store.Never {
		t.Errorf("refusal of a new key: %+v, %v; want no error, because no bucket holds 11", st, err)
	}
	if states, err := s.Read(ctx, limit.For("new")); err != nil || states[0].Level != 0 {
		t.Errorf("read of a new key: %v, %v; want no error, because a read needs no bucket", states, err)
	}
	clock.Advance(20 * time.Second)
	refused("the others are empty, but a clock that steps back by less than MaxSkew would find units in them")
	clock.Advance(store.DefaultMaxSkew)
	if st, err := s.Fill(ctx, fill("new", 1)); err != nil || !st.Accepted {
		t.Errorf("fill after the others have leaked empty: %+v, %v; want it accepted", st, err)
	}
	if n := count(t, s); n != 1 {
		t.Errorf("%d buckets; want only the new one", n)
	}
	for i := range 99 {
		if _, err := s.Fill(ctx, fill(fmt.Sprint("c", i), 5)); err != nil {
			t.Fatalf("bucket %d of the second hundred: %v", i+2, err)
		}
	}
	must(t, s.Delete(ctx, "c1", "absent"))
	if _, err := s.Fill(ctx, fill("newer", 1)); err != nil {
		t.Errorf("fill after one bucket was deleted: %v; want room for one", err)
	}
	refused("the place of the deleted bucket is taken")
}

// While the store is full, a shared bucket decides about a new key: in every call that it can
// decide, and in no other.
func TestSharedBuckets(t *testing.T) {
	const rest = 1 << 14 // more new keys than shared buckets, so that each of these is full
	key := func(i int) string { return fmt.Sprint("new", i) }
	full := func(t *testing.T) (store.Store, *brimtest.Clock) {
		s, clock := open(t, memory.Options{MaxBuckets: 1})
		do(t, s, fill("old", 5))
		return s, clock
	}
	penalty := fill("new", 11)
	penalty.BlockFor = time.Hour
	turn, ceiling := fill("new", 1), fill("new", 1)
	turn.Turn = true
	ceiling.Ceiling, ceiling.CeilingAt = 5, time.Now()
	for _, c := range []struct {
		name string
		op   store.Op
		want store.State // Accepted, Level and Spilled
		err  error
	}{
		{"a fill", fill("new", 4), store.State{Accepted: true, Level: 4}, nil},
		{"nothing", fill("new", 0), store.State{Accepted: true}, nil},
		{"a question", store.Op{Bucket: limit.For("new"), Amount: 4, Mode: store.Ask}, store.State{Accepted: true}, nil},
		{"a fillup", store.Op{Bucket: limit.For("new"), Amount: 12, Mode: store.Clamp}, store.State{Level: 10, Spilled: 2}, nil},
		{"no penalty", penalty, store.State{}, nil},
		{"a drain of nothing", store.Op{Bucket: limit.For("new"), Amount: -1, Mode: store.Always}, store.State{Accepted: true}, nil},
		{"a hold has an owner", store.Op{Bucket: limit.For("new"), Hold: 1}, store.State{}, store.ErrFull},
		{"a block is for one", store.Op{Bucket: store.Bucket{Key: "new"}, Mode: store.Block, BlockFor: time.Hour}, store.State{}, store.ErrFull},
		{"a turn has an owner", turn, store.State{}, store.ErrFull},
		{"units to take back have an owner", ceiling, store.State{}, store.ErrFull},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, apply := range []bool{false, true} {
				s, _ := full(t)
				var st store.State
				var err error
				if apply {
					results, e := s.Apply(t.Context(), store.Txn{c.op})
					if must(t, e); results[0].Err == nil {
						st = results[0].States[0]
					}
					err = results[0].Err
				} else {
					st, err = s.Fill(t.Context(), c.op)
				}
				if !errors.Is(err, c.err) || st.Accepted != c.want.Accepted || st.Level != c.want.Level ||
					st.Spilled != c.want.Spilled || !st.BlockedUntil.IsZero() {
					t.Errorf("by Apply %v: %v, %v; want accepted %v, level %v, spilled %v, error %v",
						apply, st, err, c.want.Accepted, c.want.Level, c.want.Spilled, c.err)
				}
				if err == nil && c.op.Mode != store.Always && !st.Estimate {
					t.Errorf("by Apply %v: %v; want it marked as an estimate", apply, st)
				}
				if n := count(t, s); n != 1 {
					t.Errorf("by Apply %v: %d buckets; want the old one alone", apply, n)
				}
			}
		})
	}
	t.Run("no more than 1024 limits in all", func(t *testing.T) {
		s, clock := full(t)
		passed := 0
		for i := range rest {
			if do(t, s, fill(key(i), 10)).Accepted {
				passed++
			}
		}
		if passed > 1024 || passed < 1000 {
			t.Errorf("%d keys of %d passed with their whole limit; want one for each of 1024 shared buckets", passed, rest)
		}
		other := store.Limit{Capacity: 3, LeakRate: 1}
		if st := do(t, s, store.Op{Bucket: other.For("new"), Amount: 3}); !st.Accepted {
			t.Errorf("a new key under another limit: %v; want it accepted, since limits do not share buckets", st)
		}
		if st := do(t, s, store.Op{Bucket: limit.For("new"), Amount: 10, Mode: store.Ask}); st.Accepted || st.RetryAfter != 10*time.Second {
			t.Errorf("a question: %v; want it refused for 10 s, since its shared bucket is full", st)
		}
		clock.Advance(10 * time.Second)
		if st := do(t, s, fill("new", 10)); !st.Accepted {
			t.Errorf("after 10 s: %v; want it accepted, since a shared bucket leaks", st)
		}
	})
	t.Run("all or none over own and shared buckets", func(t *testing.T) {
		s, _ := full(t)
		for _, c := range []struct {
			txn  store.Txn
			want string // levels, or "refused"
		}{
			{store.Txn{fill("old", 2), fill("x", 3), fill("x", 3)}, "7 3 6"},
			{store.Txn{fill("old", 2), fill("x", 5)}, "refused"},
			{store.Txn{fill("old", 4), fill("x", 1)}, "refused"},
			{store.Txn{fill("old", 3), fill("x", 4)}, "10 10"},
		} {
			results, err := s.Apply(t.Context(), c.txn)
			must(t, err)
			got := "refused"
			if must(t, results[0].Err); results[0].Accepted {
				var levels []any
				for _, st := range results[0].States {
					levels = append(levels, st.Level)
				}
				got = strings.TrimSpace(fmt.Sprintln(levels...))
			}
			if got != c.want {
				t.Errorf("%v: %s, want %s", c.txn, got, c.want)
			}
		}
	})
	t.Run("a 65th limit", func(t *testing.T) {
		s, _ := full(t)
		for i := range 65 {
			op := store.Op{Bucket: store.Limit{Capacity: float64(i + 1), LeakRate: 1}.For("new"), Amount: 1}
			if _, err := s.Fill(t.Context(), op); errors.Is(err, store.ErrFull) != (i == 64) {
				t.Errorf("under limit %d: %v", i+1, err)
			}
		}
	})
}

// The system's clock cannot step back, so a store without an injected clock makes room as soon
// as a bucket is empty.
func TestMaxBucketsSystemClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memory.New(&memory.Options{MaxBuckets: 10})
		for i := range 10 {
			do(t, s, fill(fmt.Sprint(i), 5))
		}
		time.Sleep(5*time.Second - time.Microsecond)
		if st := do(t, s, fill("early", 1)); !st.Estimate {
			t.Errorf("fill a microsecond before the others are empty: %v; want a shared bucket to decide", st)
		}
		time.Sleep(time.Second)
		if st := do(t, s, fill("new", 1)); !st.Accepted || st.Estimate {
			t.Errorf("fill once the others are empty: %v; want it accepted before MaxSkew has passed", st)
		}
	})
}

// TestSweepIsRare counts readings of the clock: a sweep reads the clock once for each shard.
func TestSweepIsRare(t *testing.T) {
	ctx := t.Context()
	var reads atomic.Int64
	var now atomic.Int64
	now.Store(1e15)
	s := memory.New(&memory.Options{MaxBuckets: 10, Clock: func() time.Time {
		reads.Add(1)
		return time.UnixMicro(now.Load())
	}})
	for i := range 10 {
		do(t, s, fill(fmt.Sprint(i), 5))
	}
	cost := func() int64 {
		before := reads.Load()
		if st, err := s.Fill(ctx, fill("new", 1)); err != nil || !st.Estimate {
			t.Fatalf("%v, %v; want a shared bucket to decide", st, err)
		}
		return reads.Load() - before
	}
	if n := cost(); n < 100 {
		t.Fatalf("the first new key read the clock %d times; want a sweep of all shards", n)
	}
	for range 1000 {
		if n := cost(); n > 2 {
			t.Fatalf("another new key within a second read the clock %d times; want no sweep", n)
		}
	}
	now.Add(time.Second.Microseconds())
	if n := cost(); n < 100 {
		t.Errorf("a new key a second later read the clock %d times; want another sweep", n)
	}
	now.Add(-time.Hour.Microseconds())
	if n := cost(); n < 100 {
		t.Errorf("a new key after the clock stepped back read it %d times; want a sweep", n)
	}
}

// A transaction changes nothing if the store has no room for one of its buckets.
func TestMaxBucketsAllOrNothing(t *testing.T) {
	ctx := t.Context()
	s, clock := open(t, memory.Options{MaxBuckets: 3})
	for _, key := range []string{"a", "b"} {
		do(t, s, fill(key, 5))
	}
	hold := func(key string) store.Op { return store.Op{Bucket: limit.For(key), Hold: 1} }
	both := store.Txn{hold("a"), hold("c"), hold("b"), hold("c"), hold("d")}
	results, err := s.Apply(ctx, both, store.Txn{fill("e", 2)})
	must(t, err)
	if !errors.Is(results[0].Err, store.ErrFull) || results[0].States != nil || results[0].Accepted {
		t.Errorf("two new keys with room for one: %+v; want only ErrFull", results[0])
	}
	if results[1].Err != nil || !results[1].Accepted {
		t.Errorf("the next transaction: %+v; want it accepted into the room for one", results[1])
	}
	entries, err := paging.All(ctx, s, "")
	must(t, err)
	got := ""
	for _, e := range entries {
		got += fmt.Sprint(e.Key, e.Level, " ")
	}
	if got != "a5 b5 e2 " {
		t.Errorf("the store contains %q; want %q", got, "a5 b5 e2 ")
	}
	clock.Advance(time.Minute + store.DefaultMaxSkew)
	results, err = s.Apply(ctx, both)
	if err != nil || !errors.Is(results[0].Err, store.ErrFull) {
		t.Errorf("four new keys with room for three: %+v, %v; want ErrFull", results, err)
	}
	if results, err = s.Apply(ctx, both[:4]); err != nil || !results[0].Accepted {
		t.Errorf("three new keys with room for three: %+v, %v; want them accepted", results, err)
	}
}

// While many callers bring new keys, the bound must hold and no bucket with units may be lost.
func TestMaxBucketsConcurrently(t *testing.T) {
	ctx := t.Context()
	const bound = 50
	s, _ := open(t, memory.Options{MaxBuckets: bound})
	var own [8 * 40]bool
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 40 {
				id := 40*g + i
				var st store.State
				var err error
				if i%2 == 0 {
					st, err = s.Fill(ctx, fill(fmt.Sprint(id), 3))
				} else {
					var results []store.Result
					if results, err = s.Apply(ctx, store.Txn{fill(fmt.Sprint(id), 3)}); err == nil {
						st, err = results[0].States[0], results[0].Err
					}
				}
				if err != nil || !st.Accepted && !st.Estimate {
					t.Errorf("%v, %v", st, err)
				}
				own[id] = !st.Estimate
			}
		})
	}
	wg.Wait()
	n := 0
	for id, in := range own {
		st, err := s.Read(ctx, limit.For(fmt.Sprint(id)))
		must(t, err)
		if in {
			n++
		}
		if in != (st[0].Level == 3) {
			t.Errorf("bucket %d: filled by itself %v, but level %v", id, in, st[0].Level)
		}
	}
	if n != bound || count(t, s) != bound {
		t.Errorf("%d buckets filled by themselves, %d stored; want %d of both", n, count(t, s), bound)
	}
}
