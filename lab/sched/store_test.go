package sched

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime"
	"sync"
	"time"

	"github.com/brimgo/brim/memory"
	"github.com/brimgo/brim/store"
	"github.com/brimgo/brim/store/storetest"
)

// below is the store below a wrapper: a memory store on the time of the bubble, with random pauses
// before and after each call. All fills go into one log, in the order in which they took effect.
type below struct {
	store.Store
	*fillLog
	closed bool
	slow   time.Duration // the longest pause
	fails  int           // the number of the fill of this store that fails, from 1; 0: none
	lost   bool          // the fill that fails takes effect
	fills  int
}

// fillLog is the history of the buckets. Its mutex guards the fields of all stores that share it.
type fillLog struct {
	start   time.Time
	mu      sync.Mutex
	rand    *rand.Rand // of the pauses
	entries []*fillEntry
	order   int
}

// fillEntry is a call that took effect.
type fillEntry struct {
	call     int // or -1: no call of an actor asked for it
	at       time.Duration
	answered time.Duration // when the answer arrived
	op       store.Op
	state    store.State
	deleted  bool
	foreign  bool // another process did it
}

func newBelow(p program) *below {
	s := memory.New(&memory.Options{Clock: time.Now})
	return &below{Store: s, fillLog: &fillLog{start: time.Now(), rand: rand.New(rand.NewPCG(p.pauses, 0))}}
}

// another returns the same store as another process sees it.
func (b *below) another() *below { return &below{Store: b.Store, fillLog: b.fillLog} }

// since returns the time since the schedule began.
func (l *fillLog) since() time.Duration { return time.Since(l.start) }

// awakeKey is the key of a context's value for calls that do not sleep, because their callers hold
// a mutex. The time of a bubble stands still while a goroutine waits for a mutex.
type awakeKey struct{}

// pause has other goroutines run for a random time.
func (b *below) pause(ctx context.Context) {
	b.mu.Lock()
	d := b.slow * time.Duration(b.rand.IntN(3)) / 2
	b.mu.Unlock()
	runtime.Gosched()
	if ctx.Value(awakeKey{}) == nil {
		time.Sleep(d)
	}
}

// call carries out a call of this Store as one step, between two pauses. effect tells what has
// happened to the buckets.
func (b *below) call(ctx context.Context, effect func() ([]*fillEntry, error)) error {
	b.pause(ctx)
	entries, err := b.step(ctx, effect)
	b.pause(ctx)
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, e := range entries {
		e.answered = b.since()
	}
	return err
}

func (b *below) step(ctx context.Context, effect func() ([]*fillEntry, error)) ([]*fillEntry, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return nil, store.ErrClosed
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	entries, err := effect()
	for _, e := range entries {
		e.call, e.at = -1, b.since()
		if i, ok := ctx.Value(callKey{}).(int); ok {
			e.call = i
		}
	}
	b.entries = append(b.entries, entries...)
	return entries, err
}

func (b *below) Fill(ctx context.Context, op store.Op) (st store.State, err error) {
	err = b.call(ctx, func() ([]*fillEntry, error) {
		b.fills++
		failed := b.fills == b.fails
		if failed && !b.lost {
			return nil, store.ErrUnavailable
		}
		filled, err := b.Store.Fill(ctx, op)
		if err != nil {
			return nil, err
		}
		if failed {
			err = store.ErrUnknownOutcome
		} else {
			st = filled
		}
		return []*fillEntry{{op: op, state: filled}}, err
	})
	return st, err
}

// Apply carries out transactions of this Store's own calls. It never fails by itself.
func (b *below) Apply(ctx context.Context, txns ...store.Txn) (results []store.Result, err error) {
	err = b.call(ctx, func() (entries []*fillEntry, err error) {
		results, err = b.Store.Apply(ctx, txns...)
		for i, r := range results {
			for j, st := range r.States {
				entries = append(entries, &fillEntry{op: txns[i][j], state: st})
			}
		}
		return entries, err
	})
	return results, err
}

func (b *below) Delete(ctx context.Context, keys ...string) error {
	return b.call(ctx, func() (entries []*fillEntry, err error) {
		if err := b.Store.Delete(ctx, keys...); err != nil { // ctx may have ended at this moment
			return nil, err
		}
		for _, key := range keys {
			entries = append(entries, &fillEntry{op: store.Op{Bucket: store.Bucket{Key: key}}, deleted: true})
		}
		return entries, nil
	})
}

// Close leaves the memory store open, for a look at it in the end.
func (b *below) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	return nil
}

// foreign carries out op as another process would.
func (b *below) foreign(ctx context.Context, op store.Op) (st store.State, err error) {
	_, err = b.another().step(ctx, func() ([]*fillEntry, error) {
		if st, err = b.Store.Fill(ctx, op); err != nil {
			return nil, err
		}
		return []*fillEntry{{op: op, state: st, foreign: true}}, nil
	})
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

// time writes the beginning of a call to t, carries out the call by f, and writes its end and its
// answer to t.
func (l *fillLog) time(t *timed, f func() (store.State, error)) {
	l.mu.Lock()
	l.order++
	*t = timed{begun: l.since(), from: len(l.entries), first: l.order}
	l.mu.Unlock()
	st, err := f()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.order++
	t.ended, t.to, t.last, t.given, t.state, t.err = l.since(), len(l.entries), l.order, true, st, err
}

// of returns the entries of a call.
func (l *fillLog) of(call int) (entries []*fillEntry) {
	for _, e := range l.entries {
		if e.call == call {
			entries = append(entries, e)
		}
	}
	return entries
}

// contents returns the content of the buckets after each entry. Every answer must be that of the
// model.
func (l *fillLog) contents() (all []storetest.Model, err error) {
	m := storetest.Model{Buckets: make(map[string]storetest.Bucket), Rounds: true, Slack: rounding}
	for i, e := range l.entries {
		m.Buckets = maps.Clone(m.Buckets)
		if e.deleted {
			delete(m.Buckets, e.op.Key)
		} else if _, err := m.Fill(e.op, l.start.Add(e.at), &store.Result{Accepted: e.state.Accepted, States: []store.State{e.state}}); err != nil {
			return nil, fmt.Errorf("entry %d of the store: %w", i, err)
		}
		all = append(all, m)
	}
	return all, nil
}

// ended reports whether err is that of a context.
func ended(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}
