package kept

import (
	"context"
	"testing"
	"time"

	"github.com/brimgo/brim"
	"github.com/brimgo/brim/brimtest"
	"github.com/brimgo/brim/internal/differ"
	"github.com/brimgo/brim/internal/paging"
	"github.com/brimgo/brim/memory"
	"github.com/brimgo/brim/store"
)

// End is the time after [Spend], at which [Fill] fills a new store.
func End() time.Time { return end }

// Fill fills buckets of every kind. In a new store, the time must be [End].
func Fill(ctx context.Context, s store.Store) error {
	quota := store.Op{Bucket: brim.Per(10, brim.Month, time.UTC).For("quota"), Amount: 7}
	if err := quota.SetPeriod(end); err != nil {
		return err
	}
	for _, op := range []store.Op{
		{Bucket: store.Limit{Capacity: 100, LeakRate: 0.5}.For("leaks"), Amount: 64},
		{Bucket: store.Limit{Capacity: 100}.For("holds"), Hold: 2.25},
		{Bucket: store.Limit{Capacity: 1, LeakRate: 1e-3}.For("blocked"), Amount: 2, BlockFor: 24 * time.Hour},
		{Bucket: store.Limit{Capacity: 1 << 53}.For("Schlüssel \xf0\x9f\xaa\xa3"), Amount: 1 << 53, Mode: store.Always},
		quota,
	} {
		if _, err := s.Fill(ctx, op); err != nil {
			return err
		}
	}
	return nil
}

// CompareBuckets sees that a store has the buckets that [Fill] fills, whichever version has filled
// them, and fills them again.
func CompareBuckets(t testing.TB, s store.Store, clock *brimtest.Clock) {
	t.Helper()
	fresh := brimtest.NewClock(end)
	want := memory.New(&memory.Options{Clock: fresh.Now})
	defer func() { _ = want.Close() }()
	if err := Fill(t.Context(), want); err != nil {
		t.Fatal(err)
	}
	clock.Set(end.Add(8 * time.Second))
	fresh.Set(end.Add(8 * time.Second))
	for range 2 {
		saw, err := paging.All(t.Context(), s, "")
		wants, _ := paging.All(t.Context(), want, "")
		if d := differ.Fields(saw, wants); d != "" || err != nil {
			t.Errorf("%v; the buckets of an earlier version differ from those that this version fills:\n%s", err, d)
		}
		for _, of := range []store.Store{s, want} {
			if err := Fill(t.Context(), of); err != nil {
				t.Error(err)
			}
		}
	}
}
