package serverload

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/brimgo/brim/store"
)

// Span tells how many steps of a call can have been applied, by the answers to them.
type Span struct{ Least, Most int }

// Load is a run of calls, with an attack amid them.
type Load struct {
	Calls   []Call
	Callers int           // that share the calls
	Timeout time.Duration // of a step; 0 means none
	At      int           // the number of answers before the attack
	// Retry has callers send a step again that was not applied, as a program would. An error that
	// this does not end within a minute is false.
	Retry bool
	// Attack does its damage and mends it. Callers that get an error meanwhile wait a little before
	// their next call.
	Attack func() error
}

// Result tells of a run.
type Result struct {
	Spans   []Span // of the calls, in their order
	Counts  [Wrong + 1]atomic.Int64
	Slowest time.Duration // answer to a step
	False   error         // an answer that no store may give, if there was one
	mu      sync.Mutex
}

// pause is the wait of a caller after an error, while the attack goes on.
const pause = 50 * time.Millisecond

// Run carries out the calls and the attack. The error is the attack's.
func (l Load) Run(ctx context.Context, s Subject) (*Result, error) {
	res := &Result{Spans: make([]Span, len(l.Calls))}
	begin, mended := make(chan struct{}), make(chan struct{})
	var once sync.Once
	var failure error
	var attack, callers sync.WaitGroup
	attack.Go(func() {
		<-begin
		failure = l.Attack()
		close(mended)
	})
	var next, answers atomic.Int64
	for range l.Callers {
		callers.Go(func() {
			for n := next.Add(1) - 1; n < int64(len(l.Calls)); n = next.Add(1) - 1 {
				c := l.Calls[n]
				for step := range s.Steps(c.Kind) {
					told := l.retried(ctx, s, c, step, res, &res.Spans[n])
					if answers.Add(1) >= int64(l.At) {
						once.Do(func() { close(begin) })
					}
					if told != Applied {
						select {
						case <-mended:
						case <-time.After(pause):
						}
						break
					}
				}
			}
		})
	}
	callers.Wait()
	once.Do(func() { close(begin) })
	attack.Wait()
	return res, failure
}

// patience is the longest time for which a step is sent again.
const patience = time.Minute

// retried carries out a step, and again if the load says so.
func (l Load) retried(ctx context.Context, s Subject, c Call, step int, res *Result, span *Span) Told {
	deadline := time.Now().Add(patience)
	for tries := 1; ; tries++ {
		told := l.step(ctx, s, c, step, res, span)
		switch {
		case told != NotApplied || !l.Retry:
			return told
		case tries > 100 && time.Now().After(deadline): // the machine may have stood still for a minute
			res.mu.Lock()
			defer res.mu.Unlock()
			res.False = fmt.Errorf("%v, step %d: not applied in %v of retries", c, step+1, patience)
			return Wrong
		}
		time.Sleep(pause / 10)
	}
}

// step carries out a step and notes its answer.
func (l Load) step(ctx context.Context, s Subject, c Call, step int, res *Result, span *Span) Told {
	if l.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, l.Timeout)
		defer cancel()
	}
	began := time.Now()
	err := s.Do(ctx, c, step)
	told := Meaning(err)
	res.Counts[told].Add(1)
	span.Note(step, told)
	res.mu.Lock()
	defer res.mu.Unlock()
	res.Slowest = max(res.Slowest, time.Since(began))
	if told == Wrong && res.False == nil {
		res.False = fmt.Errorf("%v, step %d: %w", c, step+1, err)
	}
	return told
}

// Note takes the answer to a step.
func (s *Span) Note(step int, told Told) {
	switch told {
	case Applied:
		*s = Span{step + 1, step + 1}
	case Unknown:
		s.Most = step + 1
	}
}

// Verdict is the promise that a store has broken.
type Verdict string

// The verdicts.
const (
	Lost   Verdict = "lost"    // an acknowledged step is missing
	Minted Verdict = "minted"  // a step is there that was not applied, by its answer
	Twice  Verdict = "doubled" // a step was applied twice, or in a part of its places
	False  Verdict = "false"   // an answer that no store may give
)

// Finding is a call whose mark is not what the answers allow.
type Finding struct {
	Verdict Verdict
	Text    string
}

func (f *Finding) String() string { return fmt.Sprintf("%s: %s", f.Verdict, f.Text) }

// Check compares the subject with the answers. It returns nil if every call is where its answers
// allow it to be. Where steps can be sent again without a second effect, it then sends all calls
// again, after which every step must be there once.
func Check(ctx context.Context, s Subject, calls []Call, res *Result) (*Finding, error) {
	if res.False != nil {
		return &Finding{False, res.False.Error()}, nil
	}
	f, err := check(ctx, s, calls, res.Spans)
	if f != nil || err != nil || !s.Once() {
		return f, err
	}
	var again []Call
	for i, c := range calls {
		if res.Spans[i].Least < s.Steps(c.Kind) {
			again = append(again, c)
		}
	}
	// A connection that the attack has broken may fail the first requests that are sent again.
	for range 100 {
		second, err := Load{Calls: again, Callers: 4, Attack: func() error { return nil }}.Run(ctx, s)
		switch {
		case err != nil:
			return nil, err
		case second.False != nil:
			return &Finding{False, "sent again: " + second.False.Error()}, nil
		case second.Counts[NotApplied].Load()+second.Counts[Unknown].Load() == 0:
			return check(ctx, s, again, second.Spans)
		}
	}
	return &Finding{False, "requests that are sent again when all is well get no answer"}, nil
}

func check(ctx context.Context, s Subject, calls []Call, spans []Span) (*Finding, error) {
	stages, err := s.Look(ctx, calls)
	for deadline := time.Now().Add(30 * time.Second); errors.Is(err, store.ErrUnavailable) && time.Now().Before(deadline); {
		stages, err = s.Look(ctx, calls) // the attack has broken the connections of this store, too
	}
	if err != nil {
		return nil, err
	}
	for i, c := range calls {
		if v := spans[i].Judge(stages[i]); v != "" {
			text := fmt.Sprintf("%v: %d to %d steps by the answers, %d are there", c, spans[i].Least, spans[i].Most, stages[i])
			return &Finding{v, text}, nil
		}
	}
	return nil, nil
}

// Judge returns the promise that is broken if so many steps were applied, or "".
func (s Span) Judge(stage int) Verdict {
	switch {
	case stage == Doubled:
		return Twice
	case stage < s.Least:
		return Lost
	case stage > s.Most:
		return Minted
	}
	return ""
}
