//go:build linux && amd64

package power

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/brimgo/brim/lab/internal/attack"
	"github.com/brimgo/brim/lab/internal/history"
	"github.com/brimgo/brim/lab/internal/iotrace"
)

// metaWrite reports whether e writes one of bbolt's two meta pages, which make a commit count.
func metaWrite(e iotrace.Event) bool {
	return e.Kind == iotrace.Write && e.Offset <= 4096 && len(e.Data) == 4096
}

// sound returns a scenario without a fault.
func sound(seed attack.Seed, subject history.Subject) scenario {
	s := random(seed, subject)
	s.fault = nil
	return s
}

// TestCatches has the harness attack defective stores. A sync that a store leaves out is one that
// the recording does not hold.
func TestCatches(t *testing.T) {
	for _, c := range []struct {
		name, why string
		edit      edit
		defect    history.Defect
		subject   history.Subject // Direct if empty
	}{
		{
			name: "no sync", why: "an answer counts although nothing was forced to the disk",
			edit: syncs(func(_, _ iotrace.Event) bool { return true }),
		},
		{
			name: "no sync before the meta page", why: "the meta page can last without the pages that it leads to",
			edit: syncs(func(_, last iotrace.Event) bool { return !metaWrite(last) }),
		},
		{
			name: "no sync after the meta page", why: "the commit before is the newest on the disk",
			edit: syncs(func(_, last iotrace.Event) bool { return metaWrite(last) }),
		},
		{
			name: "no sync of a compacted file", why: "its name can last without its content",
			edit: without(func() func(iotrace.Event) bool {
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
			}),
		},
		{
			name: "no sync of the directory", why: "the old file can come back after a compaction",
			edit: without(func() func(iotrace.Event) bool {
				return func(e iotrace.Event) bool { return e.Kind == iotrace.SyncDir }
			}),
		},
		{
			name: "an answer before the commit", why: "a call was acknowledged before it was written",
			defect: history.Early,
		},
		{
			name: "journal: no sync of a frame", why: "an answer counts although its frame can be lost",
			subject: history.Bolt, edit: journalSyncs(true),
		},
		{
			name: "journal: no sync when it is made", why: "its name can last without its first page",
			subject: history.Bolt, edit: journalSyncs(false),
		},
		{
			name: "journal: no sync of its name", why: "the file can refer to a journal that is not there",
			subject: history.Bolt, edit: without(nameSyncs),
		},
		{
			name: "journal: no sync of the file", why: "changes are overwritten in the journal that the file can lose",
			subject: history.Bolt, edit: without(fileSyncs),
		},
		{
			name: "journal: an answer before the append", why: "a call was acknowledged before it was written",
			subject: history.Bolt, edit: early,
		},
		{
			name: "journal: a mark that runs ahead", why: "Open replays too little",
			subject: history.Bolt, defect: history.Ahead,
		},
		{
			name: "boltledger: no sync of a frame", why: "a spend lasts, and a fill before it does not",
			subject: history.Ledger, edit: journalSyncs(true),
		},
		{
			name: "relaxed: no sync", why: "Sync promises that all before it lasts", subject: history.Relaxed,
			edit: syncs(func(_, _ iotrace.Event) bool { return true }),
		},
		{
			name: "relaxed: Sync does nothing", why: "calls before a Sync are missing", subject: history.Relaxed,
			defect: history.Unsynced,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := start(t)
			meter := attack.Budget{Count: math.MaxInt, Time: 20 * time.Second}.Start()
			for part := range 10 {
				seed := attack.Seed(1).Part(part)
				s := sound(seed, cmp.Or(c.subject, history.Direct))
				s.req.Defect, s.edit = c.defect, c.edit
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
	s := sound(seed, history.Bolt)
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

// TestRepeats: the same seed makes the same calls of the system, and as many images. If the machine
// holds up a caller of a Together for long, the others share one flush fewer, so a run may differ.
func TestRepeats(t *testing.T) {
	for _, subject := range history.Subjects {
		journaled := subject == history.Bolt || subject == history.Ledger
		seen := make(map[string]bool)
		again := false
		for i := 0; i < 6 && !again; i++ {
			// Each run is a test of its own, since a thread waits for all of its children.
			t.Run(fmt.Sprintf("%s, run %d", subject, i), func(t *testing.T) {
				const seed = attack.Seed(7)
				s := random(seed, subject)
				// A region that fills is written to the file while the callers of a Together go on.
				s.req.Free, s.req.Region = false, 64<<10
				rec, err := record(start(t), s)
				if err != nil {
					t.Fatal(err)
				}
				meter := attack.Budget{Count: 500, Time: time.Minute}.Start()
				if f, err := cut(rec, seed.Rand(), meter); f != nil || err != nil {
					t.Fatalf("found %v, %v", f, err)
				}
				run := fmt.Sprintf("%d events %x, %d images",
					len(rec.events), iotrace.Digest(rec.events, !journaled), meter.Done)
				again = seen[run]
				seen[run] = true
			})
		}
		if !again {
			t.Errorf("%s: no run is like another: %v", subject, slices.Collect(maps.Keys(seen)))
		}
	}
}
