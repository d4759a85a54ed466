package pruner

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestPruner sees that prune is called once in each interval, that its results are logged, and that
// Stop ends a call in flight without a word.
func TestPruner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		calls := 0
		start := time.Now()
		p := Start(time.Minute, func(ctx context.Context) (int64, error) {
			calls++
			if want := time.Duration(calls) * time.Minute; time.Since(start) != want {
				t.Errorf("call %d after %v; want %v", calls, time.Since(start), want)
			}
			switch calls {
			case 1:
				return 7, errors.New("broken")
			case 2:
				return 0, nil
			case 3:
				return 5, nil
			}
			<-ctx.Done()
			return 9, ctx.Err()
		}, "shelf", slog.New(slog.NewTextHandler(&out, nil)))
		time.Sleep(4*time.Minute + 30*time.Second)
		p.Stop()
		p.Stop()
		if calls != 4 {
			t.Errorf("%d calls in 4.5 intervals", calls)
		}
		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		if len(lines) != 2 {
			t.Fatalf("logged %q; want two lines", lines)
		}
		for i, want := range []string{
			`level=ERROR msg="shelf: pruning failed; it will be tried again" in=1m0s error=broken`,
			`level=INFO msg="shelf: pruned buckets that had leaked empty" removed=5`,
		} {
			if !strings.HasSuffix(lines[i], want) {
				t.Errorf("logged %q; want %q", lines[i], want)
			}
		}
	})
}

// TestNoPruner sees that an interval of 0 starts nothing; goleak sees the goroutines.
func TestNoPruner(t *testing.T) {
	p := Start(0, func(context.Context) (int64, error) { t.Error("pruned"); return 0, nil }, "shelf", nil)
	p.Stop()
	if p != nil {
		t.Error("an interval of 0 starts a Pruner")
	}
}
