//go:build linux && amd64

package ioerr

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/brimgo/brim/lab/internal/history"
	"github.com/brimgo/brim/lab/internal/iotrace"
)

// finding is an answer that was not so.
type finding struct {
	err   error
	req   history.Request // with the calls up to the last
	notes []history.Note  // with answers
}

// after is the number of calls that follow the call in which a fault strikes.
const after = 12

// run runs a history with a fault, and ends it some calls after the fault. It returns the number of
// calls of the system that failed and the first false answer, or nil.
func run(p *iotrace.Process, req history.Request, f *iotrace.Fault) (failed int, found *finding, err error) {
	if req.Dir, err = history.Scratch(); err != nil {
		return 0, nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(req.Dir)) }()
	j := history.NewJudge(req)
	found = &finding{req: req}
	more, struck := after, false
	var broken error // a message that cannot be read
	failed, err = history.Run(p, req, f, func(e iotrace.Event) bool {
		struck = struck || e.Kind == iotrace.Failed
		if e.Kind != iotrace.Note {
			return true
		}
		n, err := history.ReadNote(e.Data)
		switch {
		case err != nil:
			broken = err
			return true
		case n.Answer != nil:
			found.notes = append(found.notes, n)
		case n.Op != history.Final:
			if struck {
				more--
			}
			if more < 0 {
				return false
			}
			found.req.Ops = req.Ops[:n.Op+1]
		}
		found.see(j, n)
		return true
	})
	if err = errors.Join(err, broken); err != nil {
		return failed, nil, err
	}
	if found.err == nil && failed == 0 {
		found.err = found.groundless()
	}
	if found.err == nil {
		found.err = look(req, j.Possible())
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
		if text := n.Answer.Failure(); text != "" {
			return fmt.Errorf("call %d failed without a cause: %s", n.Op, text)
		}
	}
	return nil
}

// look compares the content of the file of a request with the possible contents.
func look(req history.Request, possible []history.Model) error {
	now := history.Latest(possible)
	content, err := history.Look(req.Dir, req.Subject, now)
	if err == nil && !history.Holds(possible, now, content) {
		err = fmt.Errorf("the file holds none of the %d possible contents", len(possible))
	}
	return err
}

// describe tells the fault, the history and its answers.
func (f *finding) describe(fault iotrace.Fault) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%v\n%v\nhistory:\n", f.err, fault)
	for _, n := range f.notes {
		op := "close"
		if n.Op != history.Final {
			op = f.req.Ops[n.Op].String()
		}
		fmt.Fprintf(&b, "  %d %s: %+v\n", n.Op, op, *n.Answer)
	}
	return b.String()
}
