package crash

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/brimgo/brim/lab/internal/disk"
	"github.com/brimgo/brim/lab/internal/harness"
	"github.com/brimgo/brim/lab/internal/history"
)

// verdict is the result of a power cut.
type verdict string

const (
	kept       verdict = ""
	lost       verdict = "lost"       // acknowledged calls are missing
	minted     verdict = "minted"     // the content is that of no moment of the history
	unopenable verdict = "unopenable" // the file cannot be opened or used
)

// finding is a power cut that broke a promise.
type finding struct {
	verdict verdict
	event   int           // the call of the system before which the power went
	changes []disk.Change // the pending changes that were lost, as few as break the promise
	why     string
}

// cutter cuts the power again and again.
type cutter struct {
	rec      *recording
	judge    *history.Judge
	possible []history.Model // contents of the file that break no promise at this moment
	alive    []history.Model // the same after a kill, which loses no write
	past     []history.Model // contents that were possible at any moment
	calls    int             // calls of the history that were answered
	meter    *harness.Meter
	dir      string
	seen     map[[sha256.Size]byte]bool // images that were looked at
}

// cut builds images at every moment of a recording, most of them random, and returns the first that
// breaks a promise, or nil. It counts the distinct images.
func cut(rec *recording, r *rand.Rand, meter *harness.Meter) (*finding, error) {
	dir, err := history.Scratch()
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	c := &cutter{
		rec: rec, judge: history.NewJudge(rec.req), meter: meter,
		dir: filepath.Join(dir, "image"), seen: make(map[[sha256.Size]byte]bool),
	}
	c.judged()
	var d disk.Disk
	var l logs
	notes := rec.notes
	// A database of SQLite is hundreds of images old when it has its tables.
	making := !rec.req.Subject.OverSQLite() || r.IntN(8) == 0
	for i := 0; i <= len(rec.events) && !meter.Spent(); i++ {
		for ; len(notes) > 0 && notes[0].at <= i; notes = notes[1:] {
			if err := c.see(notes[0].Note); err != nil {
				return nil, err
			}
		}
		if making || c.calls > 0 {
			if f, err := c.moment(&d, i, r); f != nil || err != nil {
				return f, err
			}
		}
		if i < len(rec.events) {
			d.Apply(i, rec.events[i])
			if l.see(rec.events[i]) && rec.events[i].Kind == disk.Sync {
				c.judge.Synced()
				c.judged()
			}
		}
	}
	return nil, nil
}

// see takes a note, which changes the possible contents.
func (c *cutter) see(n history.Note) error {
	if err := c.judge.See(n); err != nil {
		return err
	}
	if n.Answer != nil {
		c.calls++
	}
	c.past = append(c.past, c.possible...)
	c.judged()
	return nil
}

// judged takes the possible contents from the judge.
func (c *cutter) judged() { c.possible, c.alive = c.judge.Possible(), c.judge.Alive() }

// logs follows the file of the log through a recording.
type logs struct {
	file int  // of the newest log
	made bool // it has its name
}

// see takes the next event, and reports whether it concerns the log.
func (l *logs) see(e disk.Event) bool {
	switch e.Kind {
	case disk.Create:
		if strings.HasSuffix(e.Name, ".journal.new") {
			l.file, l.made = e.File, false
		}
	case disk.Rename:
		named := strings.HasSuffix(e.To, ".journal")
		l.made = l.made || named
		return named
	case disk.Write, disk.Sync:
		return l.file > 0 && e.File == l.file
	}
	return false
}

// images is the number of images at a moment with many pending changes.
const images = 12

// few is the number of pending changes up to which all combinations are tried.
const few = 4

// moment cuts the power before an event, in several ways.
func (c *cutter) moment(d *disk.Disk, event int, r *rand.Rand) (*finding, error) {
	pending := d.Pending()
	ways := images
	if len(pending) <= few {
		ways = 1 << len(pending)
	}
	gone := make([]bool, len(pending))
	for way := range ways {
		if len(pending) <= few {
			for i := range gone {
				gone[i] = way>>i&1 == 1
			}
		} else {
			choose(gone, pending, way, r)
		}
		v, why, err := c.try(d, gone)
		if err != nil {
			return nil, err
		}
		if v != kept {
			return c.shrink(d, gone, finding{verdict: v, event: event, why: why})
		}
	}
	return nil, nil
}

// choose decides which of many pending changes are lost: in the first two ways none and all, then
// by whole calls or by sectors, with few, half or most of them lost.
func choose(gone []bool, pending []disk.Change, way int, r *rand.Rand) {
	share := [...]float64{0.05, 0.5, 0.95}[r.IntN(3)]
	last := pending[r.IntN(len(pending))].Call
	for i := range gone {
		switch {
		case way < 2:
			gone[i] = way == 1
		case way%4 == 0: // the disk wrote in order, and was cut short
			gone[i] = pending[i].Call > last || pending[i].Call == last && r.IntN(2) == 0
		case way%4 == 1: // whole calls in any order
			if i > 0 && pending[i].Call == pending[i-1].Call {
				gone[i] = gone[i-1]
			} else {
				gone[i] = r.Float64() < share
			}
		case way%4 == 2: // one call is lost or torn
			gone[i] = pending[i].Call == last && r.Float64() < share
		default: // sectors in any order
			gone[i] = r.Float64() < share
		}
	}
}

// try judges one image. It judges an image again only if other calls have been acknowledged since.
func (c *cutter) try(d *disk.Disk, gone []bool) (verdict, string, error) {
	image := d.Image(func(i int) bool { return gone[i] })
	id := identify(image, c.calls)
	if c.seen[id] {
		return kept, "", nil
	}
	c.seen[id] = true
	c.meter.Done++
	if err := os.Mkdir(c.dir, 0o700); err != nil {
		return kept, "", err
	}
	defer func() { _ = os.RemoveAll(c.dir) }()
	for name, content := range image {
		if err := os.WriteFile(filepath.Join(c.dir, name), content, 0o600); err != nil {
			return kept, "", err
		}
	}
	possible := c.possible
	if !slices.Contains(gone, true) {
		possible = c.alive
	}
	v, why := c.look(possible)
	return v, why, nil
}

func identify(image map[string][]byte, calls int) [sha256.Size]byte {
	h := sha256.New()
	names := make([]string, 0, len(image))
	for name := range image {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		var size [8]byte
		binary.LittleEndian.PutUint64(size[:], uint64(len(image[name])))
		_, _ = h.Write([]byte(name + "\x00"))
		_, _ = h.Write(size[:])
		_, _ = h.Write(image[name])
	}
	_, _ = fmt.Fprint(h, calls)
	return [sha256.Size]byte(h.Sum(nil))
}

// look opens the image and compares its content with the possible contents.
func (c *cutter) look(possible []history.Model) (verdict, string) {
	now := c.judge.Seconds()
	content, err := history.Look(c.dir, c.rec.req.Subject, now)
	if err != nil {
		return unopenable, err.Error()
	}
	if err = history.Holds(possible, now, content); err == nil {
		return kept, ""
	}
	if history.Holds(c.past, now, content) == nil {
		return lost, fmt.Sprintf("the file holds an older content than the %d calls that were answered: %v", c.calls, err)
	}
	return minted, fmt.Sprintf("the file holds a content that the store never had; %d calls were answered: %v", c.calls, err)
}

// shrink looks for fewer losses that break the same promise.
func (c *cutter) shrink(d *disk.Disk, gone []bool, f finding) (*finding, error) {
	var all []int
	for i := range gone {
		if gone[i] {
			all = append(all, i)
		}
	}
	var failure error
	all = harness.Shrink(all, 500, func(part []int) bool {
		clear(gone)
		for _, i := range part {
			gone[i] = true
		}
		clear(c.seen)
		v, why, err := c.try(d, gone)
		if err != nil {
			failure = err
		}
		if v == f.verdict {
			f.why = why
		}
		return v == f.verdict
	})
	for _, i := range all {
		f.changes = append(f.changes, d.Pending()[i])
	}
	return &f, failure
}

// describe tells the history and the power cut.
func (f *finding) describe(rec *recording) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s\nhistory:\n", f.verdict, f.why)
	for i, op := range rec.req.Ops {
		fmt.Fprintf(&b, "  %d %v\n", i, op)
	}
	if rec.fault != nil {
		fmt.Fprintf(&b, "fault: %v\n", *rec.fault)
	}
	b.WriteString("the last calls of the system before the cut:\n")
	for _, e := range rec.events[max(0, f.event-20):f.event] {
		fmt.Fprintf(&b, "  %v\n", e)
	}
	b.WriteString("lost:\n")
	for _, c := range f.changes {
		fmt.Fprintf(&b, "  %v\n", c)
	}
	return b.String()
}
