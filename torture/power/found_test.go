//go:build linux && amd64

package power

import (
	"fmt"
	"syscall"
	"testing"

	"github.com/brimgo/brim/store"
	"github.com/brimgo/brim/torture/internal/attack"
	"github.com/brimgo/brim/torture/internal/history"
	"github.com/brimgo/brim/torture/internal/iotrace"
)

// TestSyncFails has every sync of short histories fail once, and then cuts the power. The store
// must make up for the sync when it opens the file again, before it answers by the content of that
// file.
func TestSyncFails(t *testing.T) {
	fill := func(n float64) history.Op {
		return history.Op{Kind: history.Fill, Txns: [][]history.Move{{{Amount: n, Mode: store.IfFits}}}}
	}
	compact, reopen := history.Op{Kind: history.Compact}, history.Op{Kind: history.Reopen}
	for _, c := range []struct {
		name, why string
		ops       []history.Op
	}{
		{
			name: "create", ops: []history.Op{fill(5), fill(6)},
			why: "the first Open fails, and the next one finds a file whose name can be lost",
		},
		{
			name: "compact", ops: []history.Op{fill(5), compact, reopen, fill(6)},
			why: "the name of the compacted file can be lost, and the calls after Open with it",
		},
		{
			name: "commit", ops: []history.Op{fill(5), fill(10), reopen, fill(8), fill(1)},
			why: "8 units are refused because of a commit that can be lost",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := start(t)
			images := 0
			for n := 1; ; n++ {
				s := scenario{
					req:   history.Request{Ops: c.ops},
					fault: &iotrace.Fault{Class: iotrace.Syncs, N: n, Errno: syscall.EIO},
				}
				rec, err := record(p, s)
				if err != nil {
					t.Fatal(err)
				}
				if rec.failed == 0 {
					t.Logf("%d syncs, %d images", n-1, images)
					break
				}
				meter := unlimited()
				f, err := cut(rec, attack.Seed(n).Rand(), meter)
				if err != nil {
					t.Fatal(fmt.Errorf("sync %d: %w", n, err))
				}
				if f != nil {
					t.Fatalf("%s\n%s", c.why, f.describe(rec))
				}
				images += meter.Done
			}
		})
	}
}
