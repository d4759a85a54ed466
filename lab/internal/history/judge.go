package history

import (
	"fmt"
	"slices"
)

// Judge follows a history whose calls may fail, and knows every content that the store can have.
type Judge struct {
	ops   []Op
	lazy  bool
	begun int // the index of the call under way, or -1

	seconds int     // that the clock shows
	now     []Model // the possible contents that the store decides by
	// kept holds the possible contents after a power cut. Only those of a [Lazy] store differ.
	kept []Model
}

// NewJudge returns a judge of the history of a request. The history begins with a file that has one
// of the given contents, or with an empty store if there are none. A power cut may take back the
// calls of a [Lazy] store after its last sync.
func NewJudge(req Request, start ...Model) *Judge {
	if len(start) == 0 {
		start = make([]Model, 1)
	}
	return &Judge{
		ops: req.Ops, lazy: req.Subject == Lazy, begun: -1, seconds: req.Seconds, now: start, kept: slices.Clone(start),
	}
}

// See takes a note. It returns an error if an answer is false: a call that
// succeeded must have been applied, a call that failed must not, and a call with an unknown outcome
// may have been.
func (j *Judge) See(n Note) error {
	switch {
	case n.Answer == nil && n.Op != Final:
		j.begun = n.Op
		return nil
	case n.Answer == nil:
		return nil
	case n.Op == Final:
		if n.Answer.Err == "" {
			j.Synced()
		}
		return nil
	}
	j.begun = -1
	return j.answered(n.Op, *n.Answer)
}

func (j *Judge) answered(n int, a Answer) error {
	op, before := j.ops[n], j.now
	if op.Kind == Tick {
		j.seconds += op.Seconds
		return nil
	}
	var wrong error
	j.now = nil
	for _, m := range before {
		if op.Kind == Together && a.Err == "" {
			j.now = add(j.now, j.interleaved(m, op, a.Each)...)
			continue
		}
		switch a.Err {
		case "":
			next, err := m.next(op, j.seconds, &a)
			if wrong = err; err == nil {
				j.now = add(j.now, next)
			}
		case Unknown:
			next, _ := m.next(op, j.seconds, nil)
			j.now = add(j.now, m, next)
		default:
			j.now = add(j.now, m)
		}
	}
	if len(j.now) == 0 {
		return fmt.Errorf("call %d (%v) answered %+v in %d possible contents; in the last one: %w", n, op, a, len(before), wrong)
	}
	switch {
	case !j.lazy, op.Lasts() && a.Err == "":
		j.Synced()
	case op.Kind == Together: // the first callers may be durable, and the others not
		for _, m := range before {
			j.kept = add(j.kept, j.interleaved(m, op, nil)...)
		}
	default:
		j.kept = add(j.kept, j.now...)
	}
	return nil
}

// Undecided reports whether so many contents are possible that it would take too long to follow
// them. Each call of unknown outcome doubles their number, and SQLite goes on after a sync that
// failed.
func (j *Judge) Undecided() bool { return len(j.now) > 64 }

// add adds models that are not there yet.
func add(all []Model, more ...Model) []Model {
	for _, m := range more {
		if !slices.ContainsFunc(all, m.equal) {
			all = append(all, m)
		}
	}
	return all
}

// Synced tells that all calls that were answered are durable.
func (j *Judge) Synced() { j.kept = slices.Clone(j.now) }

// Seconds returns the time that the clock shows, in seconds since the histories' clocks began.
func (j *Judge) Seconds() int { return j.seconds }

// Possible returns the contents that the file may have if the power goes now.
func (j *Judge) Possible() []Model { return j.after(j.kept) }

// Alive returns the contents that the file may have if the program is killed now.
func (j *Judge) Alive() []Model { return j.after(j.now) }

// after adds the contents after the call under way.
func (j *Judge) after(contents []Model) []Model {
	all := slices.Clone(contents)
	if j.begun >= 0 {
		for _, m := range j.now {
			if op := j.ops[j.begun]; op.Kind == Together {
				all = add(all, j.interleaved(m, op, nil)...)
			} else {
				next, _ := m.next(op, j.seconds, nil)
				all = add(all, next)
			}
		}
	}
	return all
}
