package bolt

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"

	"github.com/brimgo/brim/store"
)

// Relaxed keeps buckets in a bbolt file and decides in memory: it answers before the decision is
// on the disk, and makes tens of times as many decisions a second as a [Store]. It is for limits
// that may forget the last moments when the machine or the program is killed. It implements
// [store.Store].
//
// # Losses in a crash
//
// The store writes to the file once in a window, see [Options.RelaxedWindow]. A crash loses at
// most the decisions that were acknowledged in two windows. Of two fills in that time the earlier
// may be lost and the later kept; a transaction of several buckets is kept wholly or not at all.
// A lost fill gives its room back: the bucket may let in once more the amounts of the last two
// windows. The file itself is as safe as the file of a [Store], because each commit is synced.
//
// If a write takes longer than a window, calls that would change a bucket wait for it. If a write
// fails, they fail with [store.ErrUnavailable] until a later write succeeds. So the bound above
// holds on a slow disk, too. [Relaxed.Sync] and Close make all acknowledged decisions durable.
//
// Package spend does not take a Relaxed store, because money must not be forgotten.
//
// Options.Trace is told of each write; its Requests are the buckets that were written. Any number
// of goroutines may use a Relaxed store at once. The store runs one goroutine of its own until
// Close, and one more for [Options.PruneEvery].
type Relaxed struct {
	s       *Store
	mem     *resident
	window  time.Duration
	stalled atomic.Pointer[stall] // set while changes must wait
	end     chan struct{}         // closed to end the goroutine
	ended   chan struct{}         // closed when the goroutine has ended
	once    sync.Once
	closed  atomic.Bool
}

// stall makes changes wait for a slow write, or refuses them after a failed write.
type stall struct {
	over chan struct{} // closed when the stall is over
	err  error         // of the failed write; nil for a slow write
}

// OpenRelaxed opens the file as [Open] does, for a store that answers before it writes. A nil o
// means all defaults.
func OpenRelaxed(path string, o *Options) (*Relaxed, error) {
	s, err := open(path, o, false)
	if err != nil {
		return nil, err
	}
	r := &Relaxed{
		s:      s,
		mem:    newResident(s),
		window: s.options.RelaxedWindow,
		end:    make(chan struct{}),
		ended:  make(chan struct{}),
	}
	go r.run()
	s.startPruner(r.Prune)
	return r, nil
}

func (r *Relaxed) check(ctx context.Context) error {
	if r.closed.Load() {
		return store.ErrClosed
	}
	return r.s.check(ctx)
}

// getOpen is get for calls that may change the bucket. Close collects the changes of each section
// a last time under its lock, so a later change would be lost.
func (r *Relaxed) getOpen(p *section, key string) (*cached, error) {
	if r.closed.Load() {
		return nil, store.ErrClosed
	}
	return r.mem.get(p, key)
}

// admit waits until a call may change buckets, or returns the reason to refuse the call.
func (r *Relaxed) admit(ctx context.Context) error {
	for {
		if err := r.check(ctx); err != nil {
			return err
		}
		st := r.stalled.Load()
		switch {
		case st == nil:
			return nil
		case st.err != nil:
			return fmt.Errorf("%w: acknowledged changes could not be written: %w", store.ErrUnavailable, st.err)
		}
		select {
		case <-st.over:
		case <-ctx.Done(): // check answers the error of ctx
		}
	}
}

// Fill decides one operation in memory.
func (r *Relaxed) Fill(ctx context.Context, op store.Op) (st store.State, err error) {
	ready := r.admit
	if op.Mode == store.Ask { // it changes nothing, so it waits for no write
		ready = r.check
	}
	if err := ready(ctx); err != nil {
		return st, store.Wrap(backend, "fill", err)
	}
	p := r.mem.section(op.Key)
	p.mu.Lock()
	c, err := r.getOpen(p, op.Key)
	if err == nil {
		now := r.s.clock.Now() // under the lock, so that it is no older than the record
		var effect store.Effect
		st, effect, err = c.at(now).Fill(&op, now, r.s.options.MaxSkew)
		r.mem.note(p, c, effect)
	}
	p.mu.Unlock()
	return st, store.Wrap(backend, "fill", err)
}

// Apply decides transactions in memory, each by itself.
func (r *Relaxed) Apply(ctx context.Context, txns ...store.Txn) ([]store.Result, error) {
	results := make([]store.Result, len(txns))
	for i, txn := range txns {
		if err := r.admit(ctx); err != nil {
			if i > 0 {
				results[i].Err = store.Wrap(backend, "apply", err) // the transactions before it are decided
				continue
			}
			return nil, store.Wrap(backend, "apply", err)
		}
		results[i] = r.transact(txn)
		results[i].Err = store.Wrap(backend, "apply", results[i].Err)
	}
	if len(txns) == 0 {
		return nil, store.Wrap(backend, "apply", r.check(ctx))
	}
	return results, nil
}

func (r *Relaxed) transact(txn store.Txn) store.Result {
	r.mem.several.RLock()
	defer r.mem.several.RUnlock()
	defer r.lock(txn)()
	buckets, records := make([]*cached, len(txn)), make([]*store.Record, len(txn))
	now := r.s.clock.Now()
	for i := range txn {
		c, err := r.getOpen(r.mem.section(txn[i].Key), txn[i].Key)
		if err != nil {
			return store.Result{Err: err}
		}
		buckets[i], records[i] = c, c.at(now)
	}
	res, effects := store.Decide(txn, records, now, r.s.options.MaxSkew)
	for i, c := range buckets {
		r.mem.note(r.mem.section(c.key), c, effects[i])
	}
	return res
}

// lock locks the sections of a transaction in order, so no two transactions wait for each other.
func (r *Relaxed) lock(txn store.Txn) (unlock func()) {
	var in [sectionCount]bool
	for i := range txn {
		in[maphash.String(r.s.seed, txn[i].Key)%sectionCount] = true
	}
	for i := range in {
		if in[i] {
			r.mem.sections[i].mu.Lock()
		}
	}
	return func() {
		for i := range in {
			if in[i] {
				r.mem.sections[i].mu.Unlock()
			}
		}
	}
}

// Read returns states as of now, from memory or from the file. Each bucket is read by itself:
// several buckets are not one snapshot.
func (r *Relaxed) Read(ctx context.Context, buckets ...store.Bucket) ([]store.State, error) {
	if err := r.check(ctx); err != nil {
		return nil, store.Wrap(backend, "read", err)
	}
	states, err := r.mem.read(buckets, false)
	return states, store.Wrap(backend, "read", err)
}

// Delete removes buckets, damaged buckets included. A crash within two windows may bring them
// back.
func (r *Relaxed) Delete(ctx context.Context, keys ...string) error {
	if err := r.admit(ctx); err != nil {
		return store.Wrap(backend, "delete", err)
	}
	r.mem.several.RLock()
	defer r.mem.several.RUnlock()
	for _, key := range keys {
		p := r.mem.section(key)
		p.mu.Lock()
		if r.closed.Load() {
			p.mu.Unlock()
			return store.Wrap(backend, "delete", store.ErrClosed)
		}
		c := p.buckets[key]
		if c == nil { // reading the bucket would fail if it is damaged
			c = r.mem.add(p, key)
		}
		c.present = false
		p.change(c)
		p.mu.Unlock()
	}
	return nil
}

// Visit writes all changes to the file, and visits the buckets in it. Changes that come later may
// not show.
func (r *Relaxed) Visit(ctx context.Context, prefix string, f func(store.Entry) bool) error {
	if err := r.Sync(ctx); err != nil {
		return err
	}
	return r.s.Visit(ctx, prefix, f)
}

// Size returns the bytes of the file. Changes that are not yet written do not count.
func (r *Relaxed) Size(ctx context.Context) (int64, error) { return r.s.Size(ctx) }

// Prune writes all changes to the file, and removes expired buckets from memory and from the
// file.
func (r *Relaxed) Prune(ctx context.Context) (int64, error) {
	if err := r.Sync(ctx); err != nil {
		return 0, err
	}
	r.mem.expire()
	return r.s.pruneFile(ctx)
}

// Close ends pruning, writes all changes to the file and closes it. After an error of Close, the
// decisions since the last successful write may be lost.
func (r *Relaxed) Close() error {
	var err error
	r.once.Do(func() {
		r.s.pruner.Stop()
		r.closed.Store(true)
		close(r.end)
		<-r.ended
		err = errors.Join(store.Wrap(backend, "close", r.write()), r.s.Close())
		r.mem.clear()
	})
	return err
}
