package sched

import (
	"context"
	"errors"
	"time"

	"github.com/brimgo/brim/lab/sched/turn"
	"github.com/brimgo/brim/memory"
	"github.com/brimgo/brim/store"
)

// below is the store below a wrapper: a memory store on the time of the bubble, with points around
// each call. All fills go into one log, in the order in which they took effect.
type below struct {
	store.Store
	log    *fillLog
	closed bool
	slow   time.Duration // that a call takes
	fails  int           // the number of the fill of this store that fails, from 1; 0: none
	lost   bool          // the fill that fails takes effect
	fills  int
}

// fillLog is what happened to the buckets.
type fillLog struct {
	entries []fillEntry
	doing   map[int]int // by goroutine: the index of its call
	order   int
}

// fillEntry is a call that took effect.
type fillEntry struct {
	call    int // or -1: no call of an actor asked for it
	at      time.Duration
	op      store.Op
	state   store.State
	deleted bool
	foreign bool // another process did it
}

func newBelow() (*below, error) {
	s, err := memory.New(&memory.Options{Clock: time.Now})
	return &below{Store: s, log: &fillLog{doing: make(map[int]int)}}, err
}

// another returns the same store as another process sees it.
func (b *below) another() *below { return &below{Store: b.Store, log: b.log, slow: b.slow} }

func (l *fillLog) add(e fillEntry) {
	i, ok := l.doing[turn.Current()]
	if !ok {
		i = -1
	}
	e.call, e.at = i, turn.Since()
	l.entries = append(l.entries, e)
}

func (b *below) Fill(ctx context.Context, op store.Op) (store.State, error) {
	turn.Point("store: fill")
	if b.slow > 0 {
		turn.Sleep("store: slow", b.slow)
	}
	if b.closed {
		return store.State{}, store.ErrClosed
	}
	if err := ctx.Err(); err != nil {
		return store.State{}, err
	}
	b.fills++
	failed := b.fills == b.fails
	if failed && !b.lost {
		return store.State{}, store.ErrUnavailable
	}
	st, err := b.Store.Fill(ctx, op)
	if err == nil {
		b.log.add(fillEntry{op: op, state: st})
	}
	turn.Point("store: filled")
	if failed {
		return store.State{}, errors.Join(store.ErrUnknownOutcome, err)
	}
	return st, err
}

// Apply carries out transactions of this Store's own calls. It never fails by itself.
func (b *below) Apply(ctx context.Context, txns ...store.Txn) ([]store.Result, error) {
	turn.Point("store: apply")
	if b.closed {
		return nil, store.ErrClosed
	}
	results, err := b.Store.Apply(ctx, txns...)
	if err != nil {
		return nil, err
	}
	for i, r := range results {
		for j, st := range r.States {
			b.log.add(fillEntry{op: txns[i][j], state: st})
		}
	}
	turn.Point("store: applied")
	return results, nil
}

func (b *below) Delete(ctx context.Context, keys ...string) error {
	turn.Point("store: delete")
	if b.closed {
		return store.ErrClosed
	}
	if err := b.Store.Delete(ctx, keys...); err != nil {
		return err
	}
	for _, key := range keys {
		b.log.add(fillEntry{op: store.Op{Bucket: store.Bucket{Key: key}}, deleted: true})
	}
	turn.Point("store: deleted")
	return nil
}

// Close leaves the memory store open, for a look at it in the end.
func (b *below) Close() error {
	turn.Point("store: close")
	b.closed = true
	return nil
}

// foreign carries out op as another process would.
func (b *below) foreign(ctx context.Context, op store.Op) (store.State, error) {
	st, err := b.Store.Fill(ctx, op)
	if err == nil {
		b.log.add(fillEntry{op: op, state: st, foreign: true})
	}
	return st, err
}

// timed is the time of a call of an actor, and its answer.
type timed struct {
	begun, ended time.Duration
	from, to     int // entries of the log when the call began, and when it had ended
	first, last  int // the order of the beginnings and the ends of all calls
	given        bool
	state        store.State
	err          error
}

// time carries out call i by f and returns its times and its answer.
func (l *fillLog) time(i int, f func() (store.State, error)) timed {
	g := turn.Current()
	l.doing[g] = i
	l.order++
	t := timed{begun: turn.Since(), from: len(l.entries), first: l.order}
	t.state, t.err = f()
	delete(l.doing, g)
	l.order++
	t.ended, t.to, t.last, t.given = turn.Since(), len(l.entries), l.order, true
	return t
}

// of returns the entries of a call.
func (l *fillLog) of(call int) (entries []fillEntry) {
	for _, e := range l.entries {
		if e.call == call {
			entries = append(entries, e)
		}
	}
	return entries
}

// milliseconds is so many of them.
func milliseconds(n int) time.Duration { return time.Duration(n) * time.Millisecond }
