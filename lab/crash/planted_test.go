package crash

import (
	"cmp"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/brimgo/brim/lab/internal/disk"
	"github.com/brimgo/brim/lab/internal/harness"
	"github.com/brimgo/brim/lab/internal/history"
)

// without returns an edit that leaves out the events for which a filter reports true.
func without(filter func() func(disk.Event) bool) edit {
	return func(rec *recording) {
		var kept []disk.Event
		gone, leave := make([]int, len(rec.events)+1), filter() // gone[i]: events left out before event i
		for i, e := range rec.events {
			gone[i+1] = gone[i]
			if leave(e) {
				gone[i+1]++
			} else {
				kept = append(kept, e)
			}
		}
		for i := range rec.notes {
			rec.notes[i].at -= gone[rec.notes[i].at]
		}
		rec.events = kept
	}
}

// noSyncs returns an edit that leaves out the syncs of files that fn names. last is the last write
// before.
func noSyncs(fn func(e, last disk.Event) bool) edit {
	return without(func() func(disk.Event) bool {
		var last disk.Event
		return func(e disk.Event) bool {
			if e.Kind == disk.Write {
				last = e
			}
			return e.Kind == disk.Sync && fn(e, last)
		}
	})
}

// metaWrite reports whether e writes one of bbolt's two meta pages, which make a commit count.
func metaWrite(e disk.Event) bool {
	return e.Kind == disk.Write && e.Offset <= 4096 && len(e.Data) == 4096
}

// logSyncs returns an edit that leaves out syncs of logs: those that have their names, or those
// that have not.
func logSyncs(made bool) edit {
	return without(func() func(disk.Event) bool {
		var l logs
		return func(e disk.Event) bool { return l.see(e) && e.Kind == disk.Sync && l.made == made }
	})
}

// early has each answer come before the last write within its call.
func early(rec *recording) {
	written := -1 // the index of that write
	next := 0     // of the notes
	for i, e := range rec.events {
		for ; next < len(rec.notes) && rec.notes[next].at <= i; next++ {
			if written >= 0 && rec.notes[next].Answer != nil {
				rec.notes[next].at = written
			}
			written = -1
		}
		if e.Kind == disk.Write {
			written = i
		}
	}
}

// plant is a fault of a store.
type plant struct {
	name, why string
	edit      edit
	defect    history.Defect
	subject   history.Subject // Direct if empty
}

// planted are the faults that a power cut shows. A sync that a store leaves out is one that the
// recording does not hold.
var planted = []plant{
	{
		name: "no sync", why: "an answer counts although nothing was forced to the disk",
		edit: noSyncs(func(_, _ disk.Event) bool { return true }),
	},
	{
		name: "no sync before the meta page", why: "the meta page can last without the pages that it leads to",
		edit: noSyncs(func(_, last disk.Event) bool { return !metaWrite(last) }),
	},
	{
		name: "no sync after the meta page", why: "the commit before is the newest on the disk",
		edit: noSyncs(func(_, last disk.Event) bool { return metaWrite(last) }),
	},
	{
		name: "no sync of a compacted file", why: "its name can last without its content",
		edit: without(func() func(disk.Event) bool {
			renamed, created := 0, 0 // the file of the newest rename; files before it are in use
			return func(e disk.Event) bool {
				switch e.Kind {
				case disk.Create:
					created = e.File
				case disk.Rename, disk.Exchange:
					renamed = created
				}
				return e.Kind == disk.Sync && e.File > renamed
			}
		}),
	},
	{
		name: "no sync of the directory", why: "the old file can come back after a compaction",
		edit: without(func() func(disk.Event) bool {
			return func(e disk.Event) bool { return e.Kind == disk.SyncDir }
		}),
	},
	{
		name: "an answer before the commit", why: "a call was acknowledged before it was written",
		edit: early,
	},
	{
		name: "log: no sync of a frame", why: "an answer counts although its frame can be lost",
		subject: history.Bolt, edit: logSyncs(true),
	},
	{
		name: "log: no sync when it is made", why: "its name can last without its first page",
		subject: history.Bolt, edit: logSyncs(false),
	},
	{
		name: "log: no sync of its name", why: "the file can refer to a log that is not there",
		subject: history.Bolt, edit: without(func() func(disk.Event) bool {
			var l logs
			renamed := false
			return func(e disk.Event) bool {
				if l.see(e) && e.Kind == disk.Rename {
					renamed = true
				}
				if e.Kind != disk.SyncDir || !renamed {
					return false
				}
				renamed = false
				return true
			}
		}),
	},
	{
		name: "log: no sync of the file", why: "changes are overwritten in the log that the file can lose",
		subject: history.Bolt, edit: without(func() func(disk.Event) bool {
			var l logs
			return func(e disk.Event) bool { return !l.see(e) && e.Kind == disk.Sync && l.made }
		}),
	},
	{
		name: "log: an answer before the append", why: "a call was acknowledged before it was written",
		subject: history.Bolt, edit: early,
	},
	{
		name: "log: a watermark that runs ahead", why: "Open replays too little",
		subject: history.Bolt, defect: history.Ahead,
	},
	{
		name: "another limit than that of the call", why: "a later call without a limit goes by it", defect: history.Misfiled,
	},
	{
		name: "ledger: no sync of a frame", why: "a spend lasts, and a fill before it does not",
		subject: history.Ledger, edit: logSyncs(true),
	},
	{
		name: "SyncEvery: no sync of a frame", why: "Sync promises that all before it lasts", subject: history.Lazy,
		edit: logSyncs(true),
	},
	{
		name: "SyncEvery: Sync does nothing", why: "calls before a Sync are missing", subject: history.Lazy,
		defect: history.Unsynced,
	},
}

// plantedTime is the longest time in which a fault is looked for. Most are found in a second, but
// not on a busy machine.
var plantedTime = time.Minute

// TestPlanted cuts the power of stores with a fault each.
func TestPlanted(t *testing.T) {
	for _, c := range planted {
		t.Run(c.name, func(t *testing.T) {
			meter := harness.Budget{Count: math.MaxInt, Time: plantedTime}.Start()
			for part := range 30 {
				seed := harness.Seed(1).Part(part)
				s := random(seed, cmp.Or(c.subject, history.Direct))
				s.fault, s.req.Defect, s.edit = nil, c.defect, c.edit
				rec, err := record(s, nil, nil)
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

// TestPlantedErrors has the disk fail under stores that tell lies.
func TestPlantedErrors(t *testing.T) {
	for _, c := range []struct {
		defect history.Defect
		why    string
	}{
		{history.Mistold, "the call was applied, although its error said that it was not"},
		{history.Swallowed, "the call was not applied, although it had no error"},
	} {
		t.Run(string(c.defect), func(t *testing.T) {
			for part := range 3000 {
				s := faulty(harness.Seed(1).Part(part), subjects[0], mostQuick)
				s.req.Defect = c.defect
				if _, err := answers(s); err != nil {
					t.Logf("caught after %d runs: %.200v", part+1, err)
					return
				}
			}
			t.Errorf("3000 runs did not catch it; %s", c.why)
		})
	}
}

// TestPlantedKills kills stores that forget.
func TestPlantedKills(t *testing.T) {
	for _, c := range []struct {
		subject history.Subject
		defect  history.Defect
	}{
		{history.Lazy, history.Early},
		{history.Bolt, history.Ahead},
	} {
		t.Run(string(c.defect), func(t *testing.T) {
			sum := 0
			for part := range 200 {
				kills, err := lives(harness.Seed(1).Part(part), c.subject, c.defect)
				if sum += kills; err != nil {
					t.Logf("caught after %d kills: %v", sum, err)
					return
				}
			}
			t.Errorf("%d kills did not catch it", sum)
		})
	}
}

// TestShrinks: the failure that is shown is a short history with the same defect.
func TestShrinks(t *testing.T) {
	const seed = harness.Seed(1)
	s := random(seed, history.Bolt)
	s.fault, s.edit = nil, early
	rec, err := record(s, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	f, err := cut(rec, seed.Rand(), harness.Budget{Count: math.MaxInt, Time: time.Minute}.Start())
	if f == nil || err != nil {
		t.Fatalf("found %v, %v", f, err)
	}
	short, g, err := smallest(seed, rec, f)
	if err != nil {
		t.Fatal(err)
	}
	if len(short.req.Ops) > 3 || g.verdict != lost || !slices.ContainsFunc(short.notes, func(n noted) bool { return n.Answer != nil }) {
		t.Errorf("%s after %d calls, want lost after 3 at most\n%s", g.verdict, len(short.req.Ops), g.describe(short))
	}
}
