//go:build linux && amd64

package ioerr

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/brimgo/brim/torture/internal/history"
	"github.com/brimgo/brim/torture/internal/iotrace"
)

// finding is an answer that was not so.
type finding struct {
	err   error
	ops   []history.Op
	notes []history.Note // with answers
}

// run runs a history with a fault, which may be nil. It returns the number of calls of the system
// that failed and the first false answer, or nil.
func run(p *iotrace.Process, req history.Request, f *iotrace.Fault) (failed int, found *finding, err error) {
	if req.Dir, err = history.Scratch(); err != nil {
		return 0, nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(req.Dir)) }()
	j := history.NewJudge(req.Ops, req.Relaxed)
	found = &finding{ops: req.Ops}
	var broken error // a message that cannot be read
	failed, err = history.Run(p, req, f, func(e iotrace.Event) {
		if e.Kind != iotrace.Note {
			return
		}
		n, err := history.ReadNote(e.Data)
		if err != nil {
			broken = err
			return
		}
		if found.see(j, n); n.Answer != nil {
			found.notes = append(found.notes, n)
		}
	})
	if err = errors.Join(err, broken); err != nil {
		return failed, nil, err
	}
	if found.err == nil && failed == 0 {
		found.err = found.groundless()
	}
	if found.err == nil {
		found.err = look(req.Dir, j.Possible())
	}
	if found.err == nil {
		found = nil
	}
	return failed, found, nil
}

// see has j judge a message, unless an earlier answer was false.
func (f *finding) see(j *history.Judge, n history.Note) {
	if f.err == nil {
		f.err = j.See(n)
	}
}

// groundless returns an error if a call failed. It is for runs in which no call of the system
// failed.
func (f *finding) groundless() error {
	for _, n := range f.notes {
		if n.Answer.Err != "" {
			return fmt.Errorf("call %d failed without a cause: %s", n.Op, n.Answer.Text)
		}
	}
	return nil
}

// look compares the content of the file in dir with the possible contents.
func look(dir string, possible []history.Model) error {
	now := history.Latest(possible)
	content, err := history.Look(dir, now)
	if err == nil && !history.Holds(possible, now, content) {
		err = fmt.Errorf("the file holds none of the %d possible contents", len(possible))
	}
	return err
}

// count returns the number of calls of a class that a history without faults makes up to each of
// its calls.
func count(p *iotrace.Process, req history.Request, c iotrace.Class) (upTo []int, err error) {
	if req.Dir, err = history.Scratch(); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(req.Dir)) }()
	calls := 0
	upTo = make([]int, len(req.Ops))
	var broken error // a message that cannot be read
	_, err = history.Run(p, req, nil, func(e iotrace.Event) {
		if class, ok := iotrace.ClassOf(e.Kind); ok && class == c {
			calls++
		}
		if e.Kind != iotrace.Note {
			return
		}
		n, err := history.ReadNote(e.Data)
		switch {
		case err != nil:
			broken = err
		case n.Answer != nil && n.Op != history.Final:
			upTo[n.Op] = calls
		}
	})
	return upTo, errors.Join(err, broken)
}

// describe tells the fault, the history and its answers.
func (f *finding) describe(fault iotrace.Fault) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%v\n%v\nhistory:\n", f.err, fault)
	for _, n := range f.notes {
		op := "close"
		if n.Op != history.Final {
			op = f.ops[n.Op].String()
		}
		fmt.Fprintf(&b, "  %d %s: %+v\n", n.Op, op, *n.Answer)
	}
	return b.String()
}
