//go:build linux && amd64

package power

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/brimgo/brim/lab/internal/attack"
	"github.com/brimgo/brim/lab/internal/history"
	"github.com/brimgo/brim/lab/internal/iotrace"
	"github.com/brimgo/brim/store"
)

// fill puts units into bucket 0 if they fit.
func fill(n float64) history.Op {
	return history.Op{Kind: history.Fill, Txns: [][]history.Move{{{Amount: n, Mode: store.IfFits}}}}
}

var (
	compact = history.Op{Kind: history.Compact}
	reopen  = history.Op{Kind: history.Reopen}
)

// doubtful is a history whose fourth call is refused because of its second.
var doubtful = []history.Op{fill(5), fill(10), reopen, fill(8), fill(1)}

// turns is a history that fills both regions of a small journal.
var turns = slices.Concat(
	[]history.Op{fill(1), fill(1), large(1), large(2), reopen},
	[]history.Op{large(3), large(4), large(5), reopen, fill(1)},
)

// large puts n units into buckets that take up a third of the smallest region.
func large(n float64) history.Op {
	op := history.Op{Kind: history.Apply}
	for k := range 6 {
		op.Txns = append(op.Txns, []history.Move{{Key: k, Amount: n, Mode: store.Always}})
	}
	return op
}

// TestSyncFails has every sync of short histories fail once, and then cuts the power. The store
// must make up for the sync when it opens the file again, before it answers by the content of that
// file. As on Linux, a second sync of the same pages succeeds and writes nothing.
func TestSyncFails(t *testing.T) {
	for _, c := range []struct {
		name, why string
		subject   history.Subject // Bolt if empty
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
			name: "commit", subject: history.Direct, ops: doubtful,
			why: "8 units are refused because of a commit that can be lost",
		},
		{
			name: "create a journal", ops: []history.Op{fill(5), fill(6), reopen, fill(3), fill(1), fill(2), reopen, fill(1)},
			why: "the file can refer to a journal whose name can be lost",
		},
		{
			name: "append to a journal", ops: []history.Op{fill(1), fill(4), fill(10), reopen, fill(8), fill(1)},
			why: "8 units are refused because of a frame that can be lost",
		},
		{
			name: "regions take turns", ops: turns,
			why: "a region is overwritten whose changes the file can lose",
		},
		{
			name: "commit in an application's database", subject: history.Joined, ops: doubtful,
			why: "bbolt.Open syncs nothing, so New must",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			if rec, f := failEach(t, scenario{req: history.Request{Subject: cmp.Or(c.subject, history.Bolt), Ops: c.ops}}); f != nil {
				t.Fatalf("%s\n%s", c.why, f.describe(rec))
			}
		})
	}
}

// failEach has each sync of a scenario fail in turn, and returns the first finding, or nil.
func failEach(t *testing.T, s scenario) (*recording, *finding) {
	t.Helper()
	p := start(t)
	images := 0
	for n := 1; ; n++ {
		s.fault = &iotrace.Fault{Class: iotrace.Syncs, N: n, Errno: syscall.EIO}
		rec, err := record(p, s)
		if err != nil {
			t.Fatal(err)
		}
		if rec.failed == 0 {
			t.Logf("%d syncs, %d images", n-1, images)
			return nil, nil
		}
		meter := unlimited()
		f, err := cut(rec, attack.Seed(n).Rand(), meter)
		if err != nil {
			t.Fatal(fmt.Errorf("sync %d: %w", n, err))
		}
		if f != nil {
			return rec, f
		}
		images += meter.Done
	}
}

// TestCatchesSecondSync: a store that takes a second sync for a proof, after the first has failed,
// loses the commit that it answers by. If more commits follow, the meta pages that are left do not
// belong to successive commits, and Open refuses the file.
func TestCatchesSecondSync(t *testing.T) {
	s := scenario{req: history.Request{Subject: history.Direct, Ops: doubtful}, edit: without(func() func(iotrace.Event) bool {
		type place struct {
			file   int
			offset int64
		}
		pages := make(map[place][]byte)
		return func(e iotrace.Event) bool {
			if !metaWrite(e) {
				return false
			}
			at := place{e.File, e.Offset}
			again := bytes.Equal(pages[at], e.Data) // only Open writes a page as it is
			pages[at] = e.Data
			return again
		}
	})}
	_, f := failEach(t, s)
	if f == nil || f.verdict != lost && !strings.Contains(f.why, "do not follow each other") {
		t.Fatalf("found %+v, want a loss, or meta pages that tell of it", f)
	}
	t.Logf("caught: %s: %s", f.verdict, f.why)
}
