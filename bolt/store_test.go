package bolt

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"github.com/brimgo/brim/store"
)

// TestRefusalsWriteNothing: a flood of refused calls must not become a flood of writes.
func TestRefusalsWriteNothing(t *testing.T) {
	clock := newTestClock()
	s := openTemp(t, &Options{Clock: clock.now})
	ctx := context.Background()
	full := store.Limit{Capacity: 10, LeakRate: 1}
	for i := range 2000 { // as many as the store's memory of refusals has places, and more
		if _, err := s.Fill(ctx, op(full, fmt.Sprintf("full %d", i%20), 1, store.IfFits)); err != nil {
			t.Fatal(err)
		}
	}
	before := bytesOf(t, s.file.Path())
	refuse := func(name string, do func(key string) (store.State, error)) {
		for i := range 60 {
			st, err := do(fmt.Sprintf("full %d", i%20))
			if err != nil || st.Accepted || st.Level != 10 {
				t.Fatalf("%s: %+v, %v", name, st, err)
			}
		}
	}
	refuse("fill", func(key string) (store.State, error) { return s.Fill(ctx, op(full, key, 1, store.IfFits)) })
	refuse("hold", func(key string) (store.State, error) {
		return s.Fill(ctx, store.Op{Bucket: full.For(key), Hold: 1})
	})
	refuse("apply", func(key string) (store.State, error) {
		results, err := s.Apply(ctx, store.Txn{op(full, "new", 1, store.IfFits), op(full, key, 1, store.IfFits)})
		if err != nil {
			return store.State{}, err
		}
		return results[0].States[1], nil
	})
	for name, o := range map[string]store.Op{
		"nothing put in":             op(full, "full 1", 0, store.IfFits),
		"nothing put into no bucket": op(full, "none", 0, store.Clamp),
		"drain of an empty bucket":   op(full, "none", -1, store.Always),
	} {
		if st, err := s.Fill(ctx, o); err != nil || !st.Accepted {
			t.Errorf("%s: %+v, %v", name, st, err)
		}
	}
	if err := s.Delete(ctx, "none", "nor this"); err != nil {
		t.Error(err)
	}
	if !bytes.Equal(before, bytesOf(t, s.file.Path())) {
		t.Error("the file was written to")
	}
	clock.advance(3 * time.Second)
	if st, err := s.Fill(ctx, op(full, "full 1", 3, store.IfFits)); err != nil || !st.Accepted {
		t.Errorf("a bucket that has leaked since: %+v, %v", st, err)
	}
}

// TestRefusalIsNotRemembered: a refusal makes the store look at the newest commit first. The
// store never repeats the refusal itself, which may be out of date.
func TestRefusalIsNotRemembered(t *testing.T) {
	s := openTemp(t, nil)
	ctx := context.Background()
	limit := store.Limit{Capacity: 2}
	try := func(l store.Limit, want bool) {
		t.Helper()
		if st, err := s.Fill(ctx, op(l, "k", 2, store.IfFits)); err != nil || st.Accepted != want {
			t.Fatalf("fill: %+v, %v; want accepted %v", st, err, want)
		}
	}
	for range 3 {
		try(limit, true)
		try(limit, false)
		try(limit, false)
		try(store.Limit{Capacity: 4}, true)
		try(limit, false)
		if _, err := s.Fill(ctx, op(limit, "k", -4, store.Always)); err != nil {
			t.Fatal(err)
		}
		try(limit, true)
		try(limit, false)
		if err := s.Delete(ctx, "k"); err != nil {
			t.Fatal(err)
		}
	}
	// A penalty is written even if the store expects a refusal.
	try(limit, true)
	try(limit, false)
	blocking := op(limit, "k", 1, store.IfFits)
	blocking.BlockFor = time.Hour
	if _, err := s.Fill(ctx, blocking); err != nil {
		t.Fatal(err)
	}
	st, err := s.Read(ctx, limit.For("k"))
	if err != nil || st[0].BlockedUntil.IsZero() {
		t.Errorf("read: %+v, %v; want the bucket blocked", st, err)
	}
}

// TestPruneLetsOthersIn: a large prune goes in batches, and other callers get their turns between
// them.
func TestPruneLetsOthersIn(t *testing.T) {
	clock := newTestClock()
	s := openTemp(t, &Options{Clock: clock.now})
	ctx := context.Background()
	const buckets = 25_000
	var txns []store.Txn
	for i := range buckets {
		limit := store.Limit{Capacity: 10, LeakRate: 1}
		if i%100 == 0 {
			limit.LeakRate = 0 // never expires
		}
		txns = append(txns, store.Txn{op(limit, fmt.Sprintf("key %d", i), 1, store.IfFits)})
	}
	if _, err := s.Apply(ctx, txns...); err != nil {
		t.Fatal(err)
	}
	clock.advance(time.Hour)
	var pruned atomic.Bool
	filled := 0
	done := make(chan struct{})
	go func() {
		defer close(done)
		for !pruned.Load() {
			fillup(t, s, "live", 1)
			filled++
		}
	}()
	n, err := s.Prune(ctx)
	pruned.Store(true)
	<-done
	if err != nil || n != buckets-buckets/100 {
		t.Errorf("pruned %d, %v; want %d", n, err, buckets-buckets/100)
	}
	if filled < 5 {
		t.Errorf("a caller had %d turns during %d batches", filled, buckets/pruneBatch)
	}
	levelIs(t, s, "live", float64(filled))
	if err := s.Verify(ctx); err != nil {
		t.Error(err)
	}
	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	_, err = s.Prune(cancelled)
	failsWith(t, err, context.Canceled, "bolt: prune: ")
}

// TestClockAfterRestart: the clock goes on from the highest time in the file, unless that time is
// not believed.
func TestClockAfterRestart(t *testing.T) {
	leaky := store.Limit{Capacity: 1000, LeakRate: 1}
	ctx := context.Background()
	for _, c := range []struct {
		name, why string
		ahead     time.Duration // of the wall clock, the file's highest time
		goesOn    bool
	}{
		{
			"a little ahead", "the wall clock was set back between the runs: no time must be used twice",
			4 * time.Minute, true,
		},
		{"far ahead", "a clock that had jumped must not freeze all buckets", time.Hour, false},
		{"behind", "the usual restart", -time.Hour, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			var log bytes.Buffer
			o := &Options{Logger: slog.New(slog.NewTextHandler(&log, nil))}
			s := openTemp(t, o)
			path, wall := s.file.Path(), time.Now()
			fillup(t, s, "k", 1)
			closeStore(t, s)
			editMeta(t, path, func(meta *bbolt.Bucket) error {
				tot, err := decodeTotals(meta.Get(totalsKey))
				if err != nil {
					return err
				}
				if d := time.UnixMicro(tot.time).Sub(wall); d < 0 || d > time.Minute {
					t.Errorf("the highest time is %v after the fill", d)
				}
				tot.time = wall.Add(c.ahead).UnixMicro()
				var buf [totalsSize]byte
				tot.encode(&buf)
				return meta.Put(totalsKey, buf[:])
			})
			s = openAt(t, path, o)
			st, err := s.Fill(ctx, op(leaky, "new", 1, store.IfFits))
			if err != nil {
				t.Fatal(err)
			}
			want := wall
			if c.goesOn {
				want = wall.Add(c.ahead)
			}
			if d := st.At.Sub(want); d < -time.Millisecond || d > time.Minute {
				t.Errorf("the clock shows %v, want %v: %s", st.At, want, c.why)
			}
			if logged := bytes.Contains(log.Bytes(), []byte("MaxSkew")); logged != (c.ahead == time.Hour) {
				t.Errorf("logged %q", log.String())
			}
		})
	}
}

// TestInjectedClockLeavesTheTimeAlone: a replay of an old log, or of a future one, must not
// disturb live buckets.
func TestInjectedClockLeavesTheTimeAlone(t *testing.T) {
	s := openTemp(t, nil)
	path := s.file.Path()
	highest := func() (us int64) {
		t.Helper()
		editMeta(t, path, func(meta *bbolt.Bucket) error {
			tot, err := decodeTotals(meta.Get(totalsKey))
			us = tot.time
			return err
		})
		return us
	}
	fillup(t, s, "live", 1)
	closeStore(t, s)
	before := highest()
	for _, year := range []int{1995, 2095} {
		clock := newTestClock()
		clock.us.Store(time.Date(year, 8, 1, 0, 0, 0, 0, time.UTC).UnixMicro())
		s := openAt(t, path, &Options{Clock: clock.now})
		st := fillup(t, s, "replayed", 1)
		if st.At.Year() != year && year == 1995 {
			t.Errorf("the decision is dated %v; an injected clock is taken as it is", st.At)
		}
		err := s.Update(context.Background(), func(j store.Store) error { fillup(t, j, "replayed", 1); return nil })
		if err != nil {
			t.Error(err)
		}
		closeStore(t, s)
	}
	if after := highest(); after != before {
		t.Errorf("the highest time went from %v to %v", before, after)
	}
	levelIs(t, openAt(t, path, nil), "replayed", 4)
}

// TestSkewIsLogged: the store logs a time that it does not believe, without the key.
func TestSkewIsLogged(t *testing.T) {
	var log bytes.Buffer
	clock := newTestClock()
	s := openTemp(t, &Options{Clock: clock.now, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	fillup(t, s, "k", 1)
	clock.advance(-time.Hour)
	fillup(t, s, "k", 1)
	if !bytes.Contains(log.Bytes(), []byte("buckets=1")) || bytes.Contains(log.Bytes(), []byte("k=")) {
		t.Errorf("logged %q", log.String())
	}
}

// TestCancelledCallersMayReuseArguments: a commit under way must not read arguments that their
// caller changes after its context ended. The race detector finds such a read.
func TestCancelledCallersMayReuseArguments(t *testing.T) {
	s := openTemp(t, nil)
	var wg sync.WaitGroup
	var unknown, applied atomic.Int64
	for c := range 16 {
		wg.Go(func() {
			key := fmt.Sprintf("caller %d", c)
			txns, keys := []store.Txn{{op(steady, key, 1, store.Always)}}, []string{"nobody"}
			for i := range 40 {
				ctx, cancel := context.WithCancel(context.Background())
				go func() { runtime.Gosched(); cancel() }()
				results, err := s.Apply(ctx, txns...)
				txns[0][0] = op(steady, key, 1, store.Always)
				switch {
				case err == nil:
					applied.Add(1)
					if !results[0].Accepted {
						t.Errorf("%+v", results[0])
					}
				case errors.Is(err, store.ErrUnknownOutcome):
					unknown.Add(1)
				case !errors.Is(err, context.Canceled):
					t.Error(err)
				}
				if i%4 == 0 {
					_ = s.Delete(ctx, keys...)
					keys[0] = "nobody either"
				}
				cancel()
			}
		})
	}
	wg.Wait()
	var stored int64
	entries, err := s.Scan(context.Background(), "caller", "", 100)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		stored += int64(e.Level)
	}
	if stored < applied.Load() || stored > applied.Load()+unknown.Load() {
		t.Errorf("%d fills are stored, %d were acknowledged, and the outcome of %d is unknown",
			stored, applied.Load(), unknown.Load())
	}
}
