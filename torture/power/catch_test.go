//go:build linux && amd64

package power

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/brimgo/brim/torture/internal/attack"
	"github.com/brimgo/brim/torture/internal/history"
	"github.com/brimgo/brim/torture/internal/iotrace"
)

// metaWrite reports whether e writes one of bbolt's two meta pages, which make a commit count.
func metaWrite(e iotrace.Event) bool {
	return e.Kind == iotrace.Write && e.Offset <= 4096 && len(e.Data) == 4096
}

// syncs returns a filter that hides the syncs of files that fn names. last is the last write
// before.
func syncs(fn func(e, last iotrace.Event) bool) func() func(iotrace.Event) bool {
	return func() func(iotrace.Event) bool {
		var last iotrace.Event
		return func(e iotrace.Event) bool {
			if e.Kind == iotrace.Write {
				last = e
			}
			return e.Kind == iotrace.Sync && fn(e, last)
		}
	}
}

// sound returns a scenario without a fault.
func sound(seed attack.Seed, relaxed bool) scenario {
	s := random(seed, relaxed)
	s.fault = nil
	return s
}

// TestCatches has the harness attack defective stores. A sync that a store leaves out is one that
// the recording does not hold.
func TestCatches(t *testing.T) {
	for _, c := range []struct {
		name, why string
		hide      func() func(iotrace.Event) bool
		defect    history.Defect
		relaxed   bool
	}{
		{
			name: "no sync", why: "an answer counts although nothing was forced to the disk",
			hide: syncs(func(_, _ iotrace.Event) bool { return true }),
		},
		{
			name: "no sync before the meta page", why: "the meta page can last without the pages that it leads to",
			hide: syncs(func(_, last iotrace.Event) bool { return !metaWrite(last) }),
		},
		{
			name: "no sync after the meta page", why: "the commit before is the newest on the disk",
			hide: syncs(func(_, last iotrace.Event) bool { return metaWrite(last) }),
		},
		{
			name: "no sync of a compacted file", why: "its name can last without its content",
			hide: func() func(iotrace.Event) bool {
				renamed := 0 // the file of the newest rename; files before it are in use
				created := 0
				return func(e iotrace.Event) bool {
					switch e.Kind {
					case iotrace.Create:
						created = e.File
					case iotrace.Rename:
						renamed = created
					}
					return e.Kind == iotrace.Sync && e.File > renamed
				}
			},
		},
		{
			name: "no sync of the directory", why: "the old file can come back after a compaction",
			hide: func() func(iotrace.Event) bool {
				return func(e iotrace.Event) bool { return e.Kind == iotrace.SyncDir }
			},
		},
		{
			name: "an answer before the commit", why: "a call was acknowledged before it was written",
			defect: history.Early,
		},
		{
			name: "relaxed: no sync", why: "Sync promises that all before it lasts", relaxed: true,
			hide: syncs(func(_, _ iotrace.Event) bool { return true }),
		},
		{
			name: "relaxed: Sync does nothing", why: "calls before a Sync are missing", relaxed: true,
			defect: history.Unsynced,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := start(t)
			meter := attack.Budget{Count: math.MaxInt, Time: 20 * time.Second}.Start()
			for part := range 10 {
				seed := attack.Seed(1).Part(part)
				s := sound(seed, c.relaxed)
				s.req.Defect, s.hide = c.defect, c.hide
				rec, err := record(p, s)
				if err != nil {
					t.Fatal(err)
				}
				f, err := cut(rec, seed.Rand(), meter)
				if err != nil {
					t.Fatal(err)
				}
				if f != nil {
					t.Logf("caught after %d images: %s: %s", meter.Done, f.verdict, f.why)
					return
				}
			}
			t.Errorf("%d images did not catch it; %s", meter.Done, c.why)
		})
	}
}

// TestShrinks: the failure that is shown is a short history, which keeps the defect.
func TestShrinks(t *testing.T) {
	p := start(t)
	const seed = attack.Seed(1)
	s := sound(seed, false)
	s.req.Defect = history.Early
	rec, err := record(p, s)
	if err != nil {
		t.Fatal(err)
	}
	f, err := cut(rec, seed.Rand(), unlimited())
	if f == nil || err != nil {
		t.Fatalf("found %v, %v", f, err)
	}
	short, g, err := smallest(p, seed, rec, f)
	if err != nil {
		t.Fatal(err)
	}
	t.Log(g.describe(short))
	if len(short.req.Ops) > 3 || g.verdict != lost {
		t.Errorf("%s after %d calls, want lost after 3 at most", g.verdict, len(short.req.Ops))
	}
}

// TestRepeats: the same seed makes the same calls of the system, and the same images.
func TestRepeats(t *testing.T) {
	for _, relaxed := range []bool{false, true} {
		var runs [2]string
		for i := range runs {
			t.Run(fmt.Sprintf("relaxed %v, run %d", relaxed, i), func(t *testing.T) {
				const seed = attack.Seed(7)
				rec, err := record(start(t), random(seed, relaxed))
				if err != nil {
					t.Fatal(err)
				}
				meter := attack.Budget{Count: 500, Time: time.Minute}.Start()
				if f, err := cut(rec, seed.Rand(), meter); f != nil || err != nil {
					t.Fatalf("found %v, %v", f, err)
				}
				runs[i] = fmt.Sprintf("%d events %x, %d images",
					len(rec.events), iotrace.Digest(rec.events), meter.Done)
			})
		}
		if runs[0] != runs[1] {
			t.Errorf("relaxed %v: %s, then %s", relaxed, runs[0], runs[1])
		}
	}
}
