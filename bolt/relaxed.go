package bolt

import (
	"context"
	"io"

	"github.com/brimgo/brim/internal/kv"
	"github.com/brimgo/brim/store"
)

// Relaxed keeps buckets in a bbolt file and decides in memory: it answers before the decision is
// on the disk, so a lone caller gets tens of times as many answers a second as from a [Store]. It is
// for limits that may forget the last moments when the machine or the program is killed. It
// implements [store.Store].
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
type Relaxed struct{ s *Store }

var _ store.Store = (*Relaxed)(nil)

// OpenRelaxed opens the file as [Open] does, for a store that answers before it writes. A nil o
// means all defaults.
func OpenRelaxed(path string, o *Options) (*Relaxed, error) {
	s, err := open(path, o, kv.Window)
	if err != nil {
		return nil, err
	}
	r := &Relaxed{s}
	s.startPruner(r.Prune)
	return r, nil
}

// change runs fn, whose changes show at once.
func (r *Relaxed) change(ctx context.Context, op string, fn func(v *view, now int64) error) error {
	err := r.s.check(ctx)
	if err == nil {
		err = r.s.db.Lock(ctx)
	}
	if err != nil {
		return store.Wrap(backend, op, err)
	}
	defer r.s.db.Unlock()
	return store.Wrap(backend, op, r.s.update(func(v *view) error { return fn(v, r.s.clock.Now()) }))
}

// Fill decides one operation in memory.
func (r *Relaxed) Fill(ctx context.Context, op store.Op) (st store.State, err error) {
	if op.Mode == store.Ask { // it changes nothing, so it waits for no write
		if err = r.s.check(ctx); err == nil {
			st, _, err = r.s.ask(&op)
		}
		return st, store.Wrap(backend, "fill", err)
	}
	var own error // of the operation, beside which a record that is dated ahead may have been set right
	err = r.change(ctx, "fill", func(v *view, now int64) error {
		st, own = v.fill(&op, now)
		return nil
	})
	if err == nil {
		err = store.Wrap(backend, "fill", own)
	}
	if err != nil {
		return store.State{}, err
	}
	return st, nil
}

// Apply decides transactions in memory.
func (r *Relaxed) Apply(ctx context.Context, txns ...store.Txn) (results []store.Result, err error) {
	err = r.change(ctx, "apply", func(v *view, now int64) error {
		results = v.apply(txns, now)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return results, nil
}

// Read returns states as of now, from memory or from the file.
func (r *Relaxed) Read(ctx context.Context, buckets ...store.Bucket) ([]store.State, error) {
	return r.s.Read(ctx, buckets...)
}

// Delete removes buckets, damaged buckets included. A crash within two windows may bring them back.
func (r *Relaxed) Delete(ctx context.Context, keys ...string) error {
	return r.change(ctx, "delete", func(v *view, _ int64) error { return v.remove(keys) })
}

// Sync makes all decisions durable that were acknowledged before the call.
func (r *Relaxed) Sync(ctx context.Context) error {
	err := r.s.check(ctx)
	if err == nil {
		err = r.s.db.Checkpoint(ctx)
	}
	return store.Wrap(backend, "sync", err)
}

// Visit writes all changes to the file, and visits the buckets in it. Changes that come later may
// not show.
func (r *Relaxed) Visit(ctx context.Context, prefix string, f func(store.Entry) bool) error {
	return r.s.Visit(ctx, prefix, f)
}

// Size returns the bytes of the file. Changes that are not yet written do not count.
func (r *Relaxed) Size(ctx context.Context) (int64, error) { return r.s.Size(ctx) }

// Prune removes expired buckets, and writes all changes to the file.
func (r *Relaxed) Prune(ctx context.Context) (int64, error) {
	n, err := r.s.Prune(ctx)
	if serr := r.Sync(ctx); err == nil {
		err = serr
	}
	return n, err
}

// Backup writes all changes to the file, and a copy of it to w: see [Store.Backup].
func (r *Relaxed) Backup(ctx context.Context, w io.Writer) (int64, error) { return r.s.Backup(ctx, w) }

// Compact writes all changes to the file and rewrites it: see [Store.Compact].
func (r *Relaxed) Compact(ctx context.Context) (before, after int64, err error) {
	return r.s.Compact(ctx)
}

// Verify checks the file: see [Store.Verify].
func (r *Relaxed) Verify(ctx context.Context) error { return r.s.Verify(ctx) }

// Close ends pruning, writes all changes to the file and closes it. After an error of Close, the
// decisions since the last successful write may be lost.
func (r *Relaxed) Close() error { return r.s.Close() }
