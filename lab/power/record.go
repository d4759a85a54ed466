//go:build linux && amd64

package power

import (
	"fmt"
	"os"

	"github.com/brimgo/brim/lab/internal/history"
	"github.com/brimgo/brim/lab/internal/iotrace"
)

// scenario is a history, and the disk under it.
type scenario struct {
	req   history.Request
	fault *iotrace.Fault // a call of the system that fails; or nil
	// edit returns what another store would have done: it leaves calls of the system out, or has them
	// later. It is nil but for tests of the harness.
	edit func([]iotrace.Event) []iotrace.Event
}

// recording is a history, and all that a store did to its files meanwhile.
type recording struct {
	scenario
	events []iotrace.Event
	notes  map[int]history.Note // by index of event
	failed int                  // calls of the system that failed
}

// record runs a scenario in the child.
func record(p *iotrace.Process, s scenario) (rec *recording, err error) {
	if s.req.Dir, err = history.Scratch(); err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(s.req.Dir) }()
	rec = &recording{scenario: s, notes: make(map[int]history.Note)}
	rec.failed, err = history.Run(p, s.req, s.fault, func(e iotrace.Event) bool {
		if e.Kind != iotrace.Read {
			rec.events = append(rec.events, e)
		}
		return true
	})
	if err != nil {
		return nil, err
	}
	if s.edit != nil {
		rec.events = s.edit(rec.events)
	}
	return rec, rec.readNotes()
}

// readNotes decodes the child's messages. No call may fail if the disk did not.
func (rec *recording) readNotes() error {
	for i, e := range rec.events {
		if e.Kind != iotrace.Note {
			continue
		}
		n, err := history.ReadNote(e.Data)
		if err != nil {
			return err
		}
		if rec.failed == 0 && n.Answer != nil && n.Answer.Failure() != "" {
			return fmt.Errorf("call %d failed without a cause: %s", n.Op, n.Answer.Failure())
		}
		rec.notes[i] = n
	}
	return nil
}
