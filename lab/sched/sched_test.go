package sched

import (
	"errors"
	"fmt"
	"math"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/brimgo/brim/lab/internal/harness"
)

// subjects returns all subjects.
func subjects() []*subject {
	return []*subject{combineSubject, refusalsSubject, leaseSubject, shaperSubject, syncSubject}
}

// TestSched plays new schedules of each subject.
func TestSched(t *testing.T) {
	seed, err := harness.NewSeed()
	if err != nil {
		t.Fatal(err)
	}
	all := subjects()
	for i, u := range all {
		t.Run(u.name, func(t *testing.T) {
			budget := harness.Pick(t, harness.Budget{Count: math.MaxInt, Time: 700 * time.Millisecond})
			budget.Time = min(budget.Time, share(t, len(all)-i))
			done, p, err := u.explore(t, seed, budget)
			t.Logf("seed %d: %d schedules", seed, done)
			if err != nil {
				p, err = u.shrink(t, p, err)
				t.Errorf("%v\n%vrepeat: %s", err, p, seed.Part(done).Repeat("sched", "TestSched/"+u.name))
			}
		})
	}
}

// share returns the time that a subject may take of the time that "go test -timeout" leaves to so
// many subjects.
func share(t *testing.T, subjects int) time.Duration {
	deadline, ok := t.Deadline()
	if !ok {
		return time.Hour
	}
	return time.Until(deadline) * 9 / 10 / time.Duration(subjects)
}

// explore plays the programs of the seed until one fails, and returns the number of those that have
// not failed. One thread, two, and more in turns run the goroutines.
func (u *subject) explore(t *testing.T, seed harness.Seed, b harness.Budget) (done int, failed program, err error) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	meter := b.Start()
	for ; !meter.Spent(); meter.Done++ {
		if meter.Done%threadsEvery == 0 {
			runtime.GOMAXPROCS(1 << (meter.Done / threadsEvery % 3))
		}
		p := u.random(seed.Part(meter.Done).Rand())
		if err := u.play(t, p); err != nil {
			return meter.Done, p, err
		}
	}
	return meter.Done, failed, nil
}

const threadsEvery = 10

// play runs a program.
func (u *subject) play(t *testing.T, p program) (err error) {
	defer func() {
		// A schedule that failed leaves goroutines behind, and its bubble ends with a panic.
		if caught := recover(); caught != nil && err == nil {
			err = fmt.Errorf("the bubble: %v", caught)
		}
	}()
	synctest.Test(t, func(*testing.T) {
		w := u.begin(p)
		if err = w.setup(); err != nil {
			return
		}
		var actors sync.WaitGroup
		last := 0
		for _, c := range p.calls {
			last = max(last, c.actor)
		}
		for a := range last + 1 {
			actors.Go(func() { p.act(w, a) })
		}
		done := make(chan struct{})
		go func() {
			actors.Wait()
			w.finish()
			close(done)
		}()
		select {
		case <-done:
			err = w.check()
		case <-time.After(time.Hour):
			err = errNoAnswer
		}
	})
	return err
}

var errNoAnswer = errors.New("a call has no answer after an hour")

// shrink returns a program with fewer calls that fails, and its error. Where goroutines race, a
// program does not always fail, so each has some tries.
func (u *subject) shrink(t *testing.T, p program, err error) (program, error) {
	p.calls = harness.Shrink(p.calls, 50, func(calls []call) bool {
		shorter := p
		shorter.calls = calls
		for range 20 {
			if failed := u.play(t, shorter); failed != nil {
				err = failed
				return true
			}
		}
		return false
	})
	return p, err
}
