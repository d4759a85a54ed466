//go:build linux && amd64

package kill

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/brimgo/brim/lab/internal/attack"
	"github.com/brimgo/brim/lab/internal/history"
	"github.com/brimgo/brim/lab/internal/iotrace"
)

// lives is the number of children that one after the other use the same file.
const lives = 8

// life is the plan of one child.
type life struct {
	ops    []history.Op
	region int64 // of the journal
	free   bool
	fault  iotrace.Fault
	look   bool // the file is opened and read after the child's end
}

// plan returns the lives of a seed.
func (a *attacker) plan(seed attack.Seed) []life {
	r := seed.Rand()
	all := make([]life, lives)
	for i := range all {
		l := &all[i]
		l.ops = history.Random(r, a.subject, 4+r.IntN(12), 25)
		l.region, l.free = history.Regions[r.IntN(len(history.Regions))], r.IntN(2) == 0
		l.fault = iotrace.Fault{
			Class: iotrace.Any, N: 1 + r.IntN(80),
			Kill: [...]iotrace.Kill{iotrace.Before, iotrace.Within, iotrace.After}[r.IntN(3)],
		}
		if r.IntN(3) == 0 {
			l.fault.N = 1 + r.IntN(12) // while the file is made or opened
		}
		l.look = r.IntN(2) == 1 // otherwise, the next child opens the file that this one has left
	}
	return all
}

// attacker kills children.
type attacker struct {
	subject history.Subject
	defect  history.Defect
	kills   int      // so far
	story   []string // what happened to the file at hand
}

// finding is a broken promise, and the lives that break it.
type finding struct {
	err   error
	lives []life
	story []string
}

// attack runs the lives of a seed on one file.
func (a *attacker) attack(seed attack.Seed) (*finding, error) { return a.run(a.plan(seed)) }

// run runs children on one file, and kills them. It returns nil if no promise was broken.
func (a *attacker) run(all []life) (f *finding, err error) {
	dir, err := history.Scratch()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	a.story = nil
	var possible []history.Model
	for i, l := range all {
		req := history.Request{
			Dir: dir, Subject: a.subject, Defect: a.defect, Seconds: history.Latest(possible),
			Ops: l.ops, Region: l.region, Free: l.free,
		}
		j := history.NewJudge(req, possible...)
		found, err := a.live(req, j, l.fault)
		if err != nil {
			return nil, err
		}
		if possible = j.Possible(); found == nil && l.look {
			possible, found = a.look(dir, possible)
		}
		if found != nil {
			return &finding{found, all[:i+1], a.story}, nil
		}
	}
	return nil, nil
}

// shrink looks for fewer lives, and then for fewer calls, that break a promise, too.
func (a *attacker) shrink(f *finding) *finding {
	fails := func(all []life) bool {
		g, err := a.run(all)
		if g == nil || err != nil {
			return false
		}
		f = g
		return true
	}
	attack.Shrink(f.lives, 50, fails)
	for i := range f.lives {
		if i >= len(f.lives) {
			break // fewer lives break a promise by now
		}
		attack.Shrink(f.lives[i].ops, 100, func(ops []history.Op) bool {
			shorter := slices.Clone(f.lives)
			if i >= len(shorter) {
				return false // an earlier life breaks a promise by now
			}
			shorter[i].ops = ops
			return fails(shorter)
		})
	}
	attack.Shrink(f.lives, 50, fails) // a life without calls may not be needed
	return f
}

// live runs one child until it is killed, or until its history ends.
func (a *attacker) live(req history.Request, j *history.Judge, f iotrace.Fault) (found, err error) {
	p, err := history.Start(false)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, p.Close()) }()
	_, err = history.Run(p, req, &f, func(e iotrace.Event) bool {
		if e.Kind != iotrace.Note || found != nil {
			return true
		}
		n, err := history.ReadNote(e.Data)
		if err == nil && n.Answer != nil && n.Answer.Failure() != "" {
			err = fmt.Errorf("call %d failed without a cause: %s", n.Op, n.Answer.Failure())
		}
		if err == nil {
			err = j.See(n)
		}
		found = err
		if n.Answer != nil && n.Op != history.Final {
			a.story = append(a.story, fmt.Sprintf("%v: %+v", req.Ops[n.Op], *n.Answer))
		}
		return true
	})
	if errors.Is(err, iotrace.ErrKilled) {
		a.kills++
		a.story = append(a.story, f.String())
		err = nil
	}
	return found, err
}

// look opens the file, and returns those of the possible models that it holds.
func (a *attacker) look(dir string, possible []history.Model) (held []history.Model, found error) {
	now := history.Latest(possible)
	content, err := history.Look(dir, a.subject, now)
	if err != nil {
		return nil, err
	}
	if held = history.Matching(possible, now, content); len(held) == 0 {
		return nil, fmt.Errorf("the file holds none of the %d possible contents", len(possible))
	}
	left, err := os.ReadDir(dir)
	if err == nil && (len(left) != 1 || left[0].Name() != "limits.db") {
		err = fmt.Errorf("the directory holds %v after the file was opened", left)
	}
	return held, err
}

// String tells the calls and kills of the file.
func (f *finding) String() string {
	return fmt.Sprintf("%v\n  %s", f.err, strings.Join(f.story[max(0, len(f.story)-30):], "\n  "))
}
