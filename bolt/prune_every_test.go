package bolt

import (
	"bytes"
	"context"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/brimgo/brim/internal/paging"
	"github.com/brimgo/brim/store"
)

// TestPruneEvery sees that each kind of store prunes by itself at the interval, logs it without a
// key, and leaves no goroutine: a bubble that one is left in fails.
func TestPruneEvery(t *testing.T) {
	for _, c := range []struct {
		name string
		open func(t *testing.T, o *Options) (store.Store, error)
	}{
		{"Open", func(t *testing.T, o *Options) (store.Store, error) {
			return Open(filepath.Join(t.TempDir(), "limits.db"), o)
		}},
		{"Open without a journal", func(t *testing.T, o *Options) (store.Store, error) {
			o.NoJournal = true
			return Open(filepath.Join(t.TempDir(), "limits.db"), o)
		}},
		{"Open with SyncEvery", func(t *testing.T, o *Options) (store.Store, error) {
			o.SyncEvery = time.Minute
			return Open(filepath.Join(t.TempDir(), "limits.db"), o)
		}},
		{"New", func(t *testing.T, o *Options) (store.Store, error) { return New(openApp(t), o) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var log bytes.Buffer
				s, err := c.open(t, &Options{
					PruneEvery: time.Hour, MaxSkew: time.Minute,
					Logger: slog.New(slog.NewTextHandler(&log, nil)),
				})
				must(t, err)
				fillLeaky(t, s, 4, 1)
				fillup(t, s, "it never leaks", 1)
				left := func(want int) {
					t.Helper()
					entries, err := paging.All(context.Background(), s, "")
					if err != nil || len(entries) != want {
						t.Errorf("%d buckets are left, %v; want %d", len(entries), err, want)
					}
				}
				time.Sleep(time.Hour - time.Minute)
				left(5)
				time.Sleep(2 * time.Minute)
				left(1)
				time.Sleep(3 * time.Hour)
				closeStore(t, s)
				closeStore(t, s)
				if n := strings.Count(log.String(), "\n"); n != 1 ||
					!strings.Contains(log.String(), `msg="bolt: pruned buckets that had leaked empty" removed=4`) {
					t.Errorf("logged %q; want one line, for the four buckets", log.String())
				}
				if strings.Contains(log.String(), "key 0") {
					t.Error("a log line has the key")
				}
			})
		})
	}
}

// TestPruneEveryFails sees that a failure is logged and tried again at the next interval.
func TestPruneEveryFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		db := openApp(t)
		s, err := New(db, &Options{PruneEvery: time.Hour, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		must(t, err)
		must(t, db.Close())
		time.Sleep(2*time.Hour + time.Minute)
		closeStore(t, s)
		if n := strings.Count(log.String(), `level=ERROR msg="bolt: pruning failed; it will be tried again" in=1h0m0s error="bolt: prune: `); n != 2 {
			t.Errorf("logged %q; want two failures", log.String())
		}
	})
}

// TestPruneEveryByDefault opens files without options, and with the wish to prune by hand.
func TestPruneEveryByDefault(t *testing.T) {
	for every, want := range map[time.Duration]int{0: 0, -1: 4} {
		synctest.Test(t, func(t *testing.T) {
			s, err := Open(filepath.Join(t.TempDir(), "limits.db"), &Options{PruneEvery: every})
			must(t, err)
			fillLeaky(t, s, 4, 1)
			time.Sleep(21 * time.Minute)
			entries, err := paging.All(context.Background(), s, "")
			if err != nil || len(entries) != want {
				t.Errorf("PruneEvery %v: %d buckets are left after 21 minutes, %v; want %d", every, len(entries), err, want)
			}
			closeStore(t, s)
		})
	}
}
