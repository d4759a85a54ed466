package history

import (
	"context"
	"errors"
	"runtime"
	"sync"

	"github.com/brimgo/brim/bolt"
	"github.com/brimgo/brim/store"
)

// errQueued ends an Update that was there to have callers queue.
var errQueued = errors.New("all callers queue")

// together has a goroutine for each fill of op. An Update, which changes nothing, makes all of them
// queue, so that they share a commit.
func together(ctx context.Context, s store.Store, b Bucket, op Op) Answer {
	each := make([]Answer, len(op.Txns))
	var callers sync.WaitGroup
	begin := func() {
		for i := range op.Txns {
			callers.Go(func() { each[i] = put(ctx, s, b, op.Txns[i][0]) })
			for range 20 { // the child has one processor, so the caller waits by then
				runtime.Gosched()
			}
		}
	}
	began := false
	if updater, ok := s.(*bolt.Store); ok {
		_ = updater.Update(ctx, func(store.Store) error {
			begin()
			began = true
			return errQueued
		})
	}
	if !began { // s is no store of bolt that writes at once, or it refuses all work
		begin()
	}
	callers.Wait()
	return Answer{Each: each}
}

// alone returns the fill of one caller of a [Together].
func (o Op) alone(caller int) Op { return Op{Kind: Fill, Txns: o.Txns[caller : caller+1]} }

// interleaved returns the contents after the fills of a [Together] in every order that agrees with
// the answers. each is nil while nobody has an answer: then any of the fills may have happened.
func (j *Judge) interleaved(m Model, op Op, each []Answer) (all []Model) {
	var visit func(m Model, done uint)
	visit = func(m Model, done uint) {
		missing := false
		for i := range op.Txns {
			if done>>i&1 == 1 || each != nil && each[i].Err == NotApplied {
				continue
			}
			var answer *Answer
			if each != nil && each[i].Err == "" {
				missing, answer = true, &each[i]
			}
			if next, err := m.next(op.alone(i), j.seconds, answer); err == nil {
				visit(next, done|1<<i)
			}
		}
		if !missing {
			all = add(all, m)
		}
	}
	visit(m, 0)
	return all
}
