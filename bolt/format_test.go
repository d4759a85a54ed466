package bolt

import (
	"context"
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/brimgo/brim/internal/differ"
	"github.com/brimgo/brim/internal/paging"
	"github.com/brimgo/brim/store"
)

var update = flag.Bool("update", false, "write testdata/format1.db anew")

// formatOps are the operations that made testdata/format1.db at formatTime.
var (
	formatTime = time.Date(2026, 1, 2, 3, 4, 5, 600_000, time.UTC)
	formatOps  = []store.Op{
		{Bucket: store.Limit{Capacity: 100, LeakRate: 0.5}.For("leaks"), Amount: 64},
		{Bucket: store.Limit{Capacity: 100}.For("holds"), Hold: 2.25},
		{Bucket: store.Limit{Capacity: 1, LeakRate: 1e-3}.For("blocked"), Amount: 2, BlockFor: 24 * time.Hour},
		{Bucket: store.Limit{Capacity: 1 << 53}.For("Schlüssel \xf0\x9f\xaa\xa3"), Amount: 1 << 53, Mode: store.Always},
	}
)

// TestFirstFormat opens a file of the first version. Users have such files, so their format can
// never change.
func TestFirstFormat(t *testing.T) {
	const sample = "testdata/format1.db"
	clock := newTestClock()
	o := &Options{Clock: clock.Now}
	ctx := context.Background()
	if *update {
		clock.Set(formatTime)
		_ = os.Remove(sample)
		s := openAt(t, sample, o)
		for _, op := range formatOps {
			mustFill(t, s, op)
		}
		closeStore(t, s)
	}
	path := filepath.Join(t.TempDir(), "limits.db")
	must(t, os.WriteFile(path, bytesOf(t, sample), 0o600))
	clock.Set(formatTime.Add(8 * time.Second))
	s := openAt(t, path, o)
	must(t, s.Verify(ctx))
	entries, err := paging.All(ctx, s, "")
	must(t, err)
	at := formatTime.Add(8 * time.Second)
	want := []store.Entry{
		{Key: "Schlüssel \xf0\x9f\xaa\xa3", State: store.State{Level: 1 << 53, Capacity: 1 << 53, At: at}},
		{Key: "blocked", State: store.State{
			Capacity: 1, LeakRate: 1e-3, At: at, BlockedUntil: formatTime.Add(24 * time.Hour),
		}},
		{Key: "holds", State: store.State{Held: 2.25, Capacity: 100, At: at}},
		{Key: "leaks", State: store.State{Level: 60, Capacity: 100, LeakRate: 0.5, At: at}},
	}
	if d := differ.Fields(entries, want); d != "" {
		t.Error(d)
	}
}
