//go:build linux && amd64

package kill

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/brimgo/brim/internal/attack"
	"github.com/brimgo/brim/torture/internal/history"
	"github.com/brimgo/brim/torture/internal/iotrace"
)

// lives is the number of children that one after the other use the same file.
const lives = 8

// attacker kills children.
type attacker struct {
	subject history.Subject
	defect  history.Defect
	kills   int      // so far
	story   []string // what happened to the file at hand
}

// attack runs some children on one file, and kills them. It returns a broken promise as found.
func (a *attacker) attack(seed attack.Seed) (found, err error) {
	dir, err := history.Scratch()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	r := seed.Rand()
	a.story = nil
	var possible []history.Model
	for range lives {
		now := history.Latest(possible)
		req := history.Request{
			Dir: dir, Subject: a.subject, Defect: a.defect, Seconds: now,
			Ops:    history.Random(r, a.subject, 4+r.IntN(12), 25),
			Region: history.Regions[r.IntN(len(history.Regions))], Free: r.IntN(2) == 0,
		}
		j := history.NewJudge(req, possible...)
		f := iotrace.Fault{
			Class: iotrace.Any, N: 1 + r.IntN(80),
			Kill: [...]iotrace.Kill{iotrace.Before, iotrace.Within, iotrace.After}[r.IntN(3)],
		}
		if r.IntN(3) == 0 {
			f.N = 1 + r.IntN(12) // while the file is made or opened
		}
		if found, err = a.live(req, j, f); found != nil || err != nil {
			return found, err
		}
		if possible = j.Possible(); r.IntN(2) == 0 {
			continue // the next child opens the file that this one has left
		}
		if possible, found = a.look(dir, possible); found != nil {
			return found, nil
		}
	}
	return nil, nil
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

// describe tells the last calls and kills of the file at hand.
func (a *attacker) describe(found error) string {
	return fmt.Sprintf("%v\n  %s", found, strings.Join(a.story[max(0, len(a.story)-30):], "\n  "))
}
