package memory_test

import (
	"errors"
	"fmt"
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
		_, err := s.Fill(ctx, fill("new", 1))
		if !errors.Is(err, memory.ErrTooManyBuckets) || !errors.Is(err, store.ErrUnavailable) {
			t.Errorf("bucket 101 = %v; want ErrTooManyBuckets, which matches ErrUnavailable: %s", err, why)
		}
	}
	refused("no other bucket is empty")
	if st, err := s.Fill(ctx, fill("b7", 5)); err != nil || !st.Accepted || st.Level != 10 {
		t.Errorf("fill of an existing bucket: %+v, %v; want it accepted", st, err)
	}
	if st, err := s.Fill(ctx, fill("new", 11)); err != nil || st.RetryAfter != store.Never {
		t.Errorf("refusal of a new key: %+v, %v; want no error, because a refusal needs no bucket", st, err)
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
	if _, err := s.Fill(ctx, fill("newest", 1)); !errors.Is(err, memory.ErrTooManyBuckets) {
		t.Errorf("another fill: %v; want ErrTooManyBuckets", err)
	}
}

// The system's clock cannot step back, so a store without an injected clock makes room as soon
// as a bucket is empty.
func TestMaxBucketsSystemClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		s := memory.New(&memory.Options{MaxBuckets: 10})
		for i := range 10 {
			do(t, s, fill(fmt.Sprint(i), 5))
		}
		time.Sleep(5*time.Second - time.Microsecond)
		if _, err := s.Fill(ctx, fill("early", 1)); !errors.Is(err, memory.ErrTooManyBuckets) {
			t.Errorf("fill a microsecond before the others are empty: %v; want ErrTooManyBuckets", err)
		}
		time.Sleep(time.Second)
		if st, err := s.Fill(ctx, fill("new", 1)); err != nil || !st.Accepted {
			t.Errorf("fill once the others are empty: %+v, %v; want it accepted before MaxSkew has passed", st, err)
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
		if _, err := s.Fill(ctx, fill("new", 1)); !errors.Is(err, memory.ErrTooManyBuckets) {
			t.Fatalf("%v; want ErrTooManyBuckets", err)
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
	both := store.Txn{fill("a", 1), fill("c", 1), fill("b", 1), fill("c", 1), fill("d", 1)}
	results, err := s.Apply(ctx, both, store.Txn{fill("e", 2)})
	must(t, err)
	if !errors.Is(results[0].Err, memory.ErrTooManyBuckets) || results[0].States != nil || results[0].Accepted {
		t.Errorf("two new keys with room for one: %+v; want only ErrTooManyBuckets", results[0])
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
	if err != nil || !errors.Is(results[0].Err, memory.ErrTooManyBuckets) {
		t.Errorf("four new keys with room for three: %+v, %v; want ErrTooManyBuckets", results, err)
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
	var accepted [8 * 40]bool
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 40 {
				id := 40*g + i
				var err error
				if i%2 == 0 {
					_, err = s.Fill(ctx, fill(fmt.Sprint(id), 3))
				} else {
					var results []store.Result
					if results, err = s.Apply(ctx, store.Txn{fill(fmt.Sprint(id), 3)}); err == nil {
						err = results[0].Err
					}
				}
				if err != nil && !errors.Is(err, memory.ErrTooManyBuckets) {
					t.Error(err)
				}
				accepted[id] = err == nil
			}
		})
	}
	wg.Wait()
	n := 0
	for id, in := range accepted {
		st, err := s.Read(ctx, limit.For(fmt.Sprint(id)))
		must(t, err)
		if in {
			n++
		}
		if in != (st[0].Level == 3) {
			t.Errorf("bucket %d: acknowledged %v, but level %v", id, in, st[0].Level)
		}
	}
	if n != bound || count(t, s) != bound {
		t.Errorf("%d buckets acknowledged, %d stored; want %d of both", n, count(t, s), bound)
	}
}
