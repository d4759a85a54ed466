package memory_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/brimgo/brim/internal/paging"
	"github.com/brimgo/brim/memory"
	"github.com/brimgo/brim/store"
)

func TestOptions(t *testing.T) {
	s := memory.New(&memory.Options{MaxBuckets: -1, MaxSkew: -time.Second, PruneEvery: -1}) // as if they were 0
	// The store's clock cuts its start and the time since then to whole microseconds.
	before := time.Now().Add(-2 * time.Microsecond)
	st, err := s.Fill(t.Context(), fill("b", 1))
	if err != nil || st.At.Before(before) || st.At.After(time.Now()) {
		t.Errorf("without options At is %v, %v; want the time of the system's clock", st.At, err)
	}
}

// The hot path must not allocate, because the garbage collector would slow down every decision.
func TestNoAllocations(t *testing.T) {
	ctx := t.Context()
	s, clock := open(t, memory.Options{})
	for _, key := range []string{"tenant:42", strings.Repeat("k", store.MaxKeyLen)} {
		for _, op := range []store.Op{
			{Bucket: limit.For(key), Amount: 1},
			{Bucket: limit.For(key), Amount: 100},
			{Bucket: limit.For(key), Amount: 1, Mode: store.Clamp},
			{Bucket: limit.For(key), Hold: 1},
			{Bucket: limit.For(key), Amount: -1, Mode: store.Always},
		} {
			do(t, s, op)
			n := testing.AllocsPerRun(1000, func() {
				clock.Advance(time.Millisecond)
				_, err := s.Fill(ctx, op)
				must(t, err)
			})
			if n != 0 {
				t.Errorf("a Fill of amount %v, hold %v, mode %d allocates %v times; want 0",
					op.Amount, op.Hold, op.Mode, n)
			}
		}
	}
}

// Insertions of new keys must remove empty buckets, so that memory use follows the number of
// buckets in use without a Prune.
func TestPrunesAsItFills(t *testing.T) {
	ctx := t.Context()
	s, clock := open(t, memory.Options{})
	do(t, s, store.Op{Bucket: store.Limit{Capacity: 10}.For("kept"), Amount: 1})
	most := 0
	for i := range 60_000 {
		clock.Advance(100 * time.Millisecond) // about 3,000 buckets contain units, or did within MaxSkew
		do(t, s, fill(fmt.Sprint("visitor:", i), 5))
		if i%5_000 == 0 {
			most = max(most, count(t, s))
		}
	}
	if most > 20_000 {
		t.Errorf("the store had up to %d buckets; want at most a few times the 3,000 that have not expired", most)
	}
	if st, err := s.Read(ctx, store.Bucket{Key: "kept"}); err != nil || st[0].Level != 1 {
		t.Errorf("the bucket that does not leak: %v, %v; want level 1", st, err)
	}
}

func TestPruneStopsWithItsContext(t *testing.T) {
	s, clock := open(t, memory.Options{})
	for i := range 1000 {
		do(t, s, fill(fmt.Sprint(i), 1))
	}
	clock.Advance(time.Hour)
	ctx := &countdown{Context: t.Context(), left: 10}
	removed, err := s.Prune(ctx)
	if !errors.Is(err, context.Canceled) || removed == 0 || removed == 1000 {
		t.Errorf("Prune removed %d of 1000, %v; want some, and the context's error", removed, err)
	}
	rest, err := s.Prune(t.Context())
	if err != nil || removed+rest != 1000 {
		t.Errorf("the second Prune removed %d, %v; want the other %d", rest, err, 1000-removed)
	}
	if _, err := paging.All(&countdown{Context: t.Context(), left: 10}, s, ""); !errors.Is(err, context.Canceled) {
		t.Errorf("Visit = %v; want the context's error", err)
	}
}

// countdown is a context that is done after left calls of Err.
type countdown struct {
	context.Context
	left int
}

func (c *countdown) Err() error {
	if c.left--; c.left < 0 {
		return context.Canceled
	}
	return nil
}

// The store must log stored times that are beyond MaxSkew, and nothing within MaxSkew.
func TestSkewIsLogged(t *testing.T) {
	ctx := t.Context()
	var log bytes.Buffer
	s, clock := open(t, memory.Options{MaxSkew: time.Minute, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	b := store.Limit{Capacity: 10}
	ops := func() {
		do(t, s, store.Op{Bucket: b.For("secret:a"), Amount: 1})
		txn := store.Txn{{Bucket: b.For("secret:b"), Amount: 1}, {Bucket: b.For("secret:c"), Amount: 1}}
		if _, err := s.Apply(ctx, txn); err != nil {
			t.Fatal(err)
		}
	}
	ops()
	clock.Advance(-time.Minute)
	ops()
	if log.Len() != 0 {
		t.Errorf("the log within MaxSkew is %q; want it empty", log.String())
	}
	clock.Advance(-time.Minute)
	ops()
	got := log.String()
	if strings.Count(got, "\n") != 2 || !strings.Contains(got, "buckets=1") || !strings.Contains(got, "buckets=2") {
		t.Errorf("the log beyond MaxSkew is %q; want a line for each call", got)
	}
	if strings.Contains(got, "secret") {
		t.Errorf("the log contains a key: %q", got)
	}
}
