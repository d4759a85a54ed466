package memory_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/brimgo/brim/internal/paging"
	"github.com/brimgo/brim/memory"
	"github.com/brimgo/brim/store"
)

// TestPruneEvery sees that the store prunes by itself at each interval, logs it without a key, and
// leaves no goroutine: a bubble that one is left in fails.
func TestPruneEvery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		s := memory.New(&memory.Options{
			PruneEvery: time.Hour, MaxSkew: time.Minute, Logger: slog.New(slog.NewTextHandler(&log, nil)),
		})
		left := func(want int) {
			t.Helper()
			synctest.Wait()
			entries, err := paging.All(t.Context(), s, "")
			if err != nil || len(entries) != want {
				t.Errorf("%d buckets are left, %v; want %d", len(entries), err, want)
			}
		}
		for i := range 5 {
			op := store.Op{Bucket: store.Limit{Capacity: 10, LeakRate: 1}.For(fmt.Sprint("secret ", i)), Amount: 1}
			if i == 0 {
				op.LeakRate = 0 // it never leaks empty
			}
			do(t, s, op)
		}
		time.Sleep(time.Hour - time.Second)
		left(5)
		time.Sleep(time.Second)
		left(1)
		time.Sleep(3 * time.Hour)
		if n := strings.Count(log.String(), "\n"); n != 1 ||
			!strings.Contains(log.String(), `msg="memory: pruned buckets that had leaked empty" removed=4`) {
			t.Errorf("logged %q; want one line, for the four buckets", log.String())
		}
		if strings.Contains(log.String(), "secret") {
			t.Error("a log line has the key")
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if err := s.Close(); err != nil {
			t.Errorf("the second Close: %v", err)
		}
	})
}
