package crash

import (
	"fmt"
	"math/rand/v2"
	"os"
	"time"

	"github.com/brimgo/brim/lab/internal/child"
	"github.com/brimgo/brim/lab/internal/harness"
	"github.com/brimgo/brim/lab/internal/history"
)

// killed is the work of a child that is killed: it carries out a history.
type killed struct{ *history.Runner }

// Open begins a history.
func (k *killed) Open(req history.Request, _ *struct{}) error {
	k.Runner = history.NewRunner(req)
	return nil
}

// Do carries out a call.
func (k *killed) Do(op history.Op, a *history.Answer) error {
	*a = k.Runner.Do(op)
	return nil
}

// End carries out the final call.
func (k *killed) End(_ struct{}, a *history.Answer) error {
	*a = k.Runner.Close()
	return nil
}

// Close closes nothing: the parent kills the process.
func (k *killed) Close() error { return nil }

// life runs a history in a child, and kills the child a moment after the call with that index has
// begun. It returns the notes up to the kill.
func life(req history.Request, last int, moment time.Duration) (notes []history.Note, err error) {
	p, err := child.Start("crash", req)
	if err != nil {
		return nil, err
	}
	defer p.Kill()
	for i := range len(req.Ops) + 1 {
		if i == last {
			time.AfterFunc(moment, func() { _ = p.Signal(os.Kill) })
		}
		n := history.Note{Op: i}
		if i == len(req.Ops) {
			n.Op = history.Final
		}
		notes = append(notes, n)
		n.Answer = new(history.Answer)
		if n.Op == history.Final {
			err = p.Call("End", struct{}{}, n.Answer)
		} else {
			err = p.Call("Do", req.Ops[i], n.Answer)
		}
		switch {
		case err != nil && i < last:
			return nil, fmt.Errorf("the child ended before it was killed: %w", err)
		case err != nil:
			return notes, nil
		}
		notes = append(notes, n)
	}
	return notes, nil
}

// lives kills one child after the other over the same file. It returns the number of kills, and the
// first broken promise.
func lives(seed harness.Seed, subject history.Subject, defect history.Defect) (kills int, err error) {
	r := seed.Rand()
	dir, err := history.Scratch()
	if err != nil {
		return 0, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	possible, seconds := make([]history.Model, 1), 0
	for range 1 + r.IntN(4) {
		req := history.Request{
			Dir: dir, Subject: subject, Defect: defect, Seconds: seconds, Free: true,
			Segment: history.Segments[r.IntN(len(history.Segments))], Ops: history.Random(r, subject, 10+r.IntN(30), 12),
		}
		notes, err := life(req, r.IntN(len(req.Ops)+1), pause(r))
		if err != nil {
			return kills, err
		}
		kills++
		j := history.NewJudge(req, possible...)
		for _, n := range notes {
			if err := j.See(n); err != nil {
				return kills, err
			}
		}
		possible, seconds = j.Alive(), j.Seconds()
		content, err := history.Look(dir, subject, seconds)
		if err != nil {
			return kills, err
		}
		if possible = history.Matching(possible, seconds, content); len(possible) == 0 {
			return kills, fmt.Errorf("after kill %d the file holds no possible content", kills)
		}
	}
	return kills, nil
}

func pause(r *rand.Rand) time.Duration {
	return time.Duration(r.IntN(1+r.IntN(1000))) * time.Microsecond
}
