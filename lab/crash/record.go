package crash

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"github.com/brimgo/brim/internal/vfs"
	"github.com/brimgo/brim/lab/internal/disk"
	"github.com/brimgo/brim/lab/internal/harness"
	"github.com/brimgo/brim/lab/internal/history"
)

// scenario is a history, and the disk under it.
type scenario struct {
	req   history.Request
	fault *fault // a call that fails; or nil
	edit  edit   // turns the recording into that of another store; nil but for tests of the harness
}

// edit returns a recording in which a store leaves calls out.
type edit = func(*recording)

// recording is a history, and all that a store did to its files meanwhile.
type recording struct {
	scenario
	events []disk.Event
	notes  []noted
	failed int // calls that failed
}

// noted is a message, and the number of events before it.
type noted struct {
	history.Note
	at int
}

// follow has a recorder note the changes of databases of SQLite, until it is called with nil. It
// does nothing in a binary without SQLite.
var follow = func(*recorder) {}

// record carries out a scenario. until, if set, is asked before each call whether to go on. look,
// if set, looks at the files in the end.
func record(s scenario, until func(failed int) bool, look func(rec *recording) error) (rec *recording, err error) {
	if s.req.Dir, err = history.Scratch(); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(s.req.Dir)) }()
	rec = &recording{scenario: s}
	r := &recorder{fault: s.fault, opened: make(map[string]int)}
	note := func(op int, answer *history.Answer) {
		_, events := r.count()
		rec.notes = append(rec.notes, noted{history.Note{Op: op, Answer: answer}, events})
	}
	vfs.Default = r
	follow(r)
	run := history.NewRunner(s.req)
	for i, op := range s.req.Ops {
		note(i, nil)
		if failed, _ := r.count(); until != nil && !until(failed) {
			break
		}
		answer := run.Do(op)
		note(i, &answer)
	}
	r.heal()
	note(history.Final, nil)
	answer := run.Close()
	note(history.Final, &answer)
	vfs.Default = vfs.OS{}
	follow(nil)
	rec.events, rec.failed = r.events, r.failed
	if rec.failed == 0 { // no call may fail if the disk did not
		for _, n := range rec.notes {
			if n.Answer != nil && n.Answer.Failure() != "" {
				return rec, fmt.Errorf("call %d failed without a cause: %s", n.Op, n.Answer.Failure())
			}
		}
	}
	if s.edit != nil {
		s.edit(rec)
	}
	if look != nil {
		err = look(rec)
	}
	return rec, err
}

// errnos are the errors that calls answer.
var errnos = [...]syscall.Errno{syscall.EIO, syscall.ENOSPC}

// random returns the scenario of a seed. In every other one, a call fails once: the store must keep
// its promises through a power cut after that, too.
func random(seed harness.Seed, subject history.Subject) scenario {
	r := seed.Rand()
	var s scenario
	names := 12
	if r.IntN(2) == 0 {
		names = 30 // a store that refuses all work is of use again after it was opened again
		f := &fault{class: class(r.IntN(int(classes))), errno: errnos[r.IntN(len(errnos))]}
		f.n = 1 + r.IntN([...]int{writes: 80, syncs: 50, 2: 10, resizes: 3}[f.class])
		f.short = f.class == writes && r.IntN(2) == 0
		s.fault = f
	}
	s.req = history.Request{
		Subject: subject, Ops: history.Random(r, subject, 10+r.IntN(40), names),
		Segment: history.Segments[r.IntN(len(history.Segments))], Free: r.IntN(2) == 0,
	}
	return s
}
