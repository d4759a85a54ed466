package bolt

import (
	"context"
	"sync"
	"time"

	"go.etcd.io/bbolt"

	"github.com/brimgo/brim/store"
)

// run writes to the file once in a window.
func (r *Relaxed) run() {
	defer close(r.ended)
	ticker := time.NewTicker(r.window)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			if err := r.write(); err != nil {
				r.s.options.Logger.Error("bolt: acknowledged changes could not be written; "+
					"the store refuses changes until it has written them", "error", err)
			}
			r.mem.trim()
		case <-r.end:
			return
		}
	}
}

// Sync makes all decisions durable that were acknowledged before the call.
func (r *Relaxed) Sync(ctx context.Context) error {
	err := r.check(ctx)
	if err == nil {
		err = r.write()
	}
	return store.Wrap(backend, "sync", err)
}

// Compact writes all changes to the file and rewrites it: see [Store.Compact].
func (r *Relaxed) Compact(ctx context.Context) (before, after int64, err error) {
	if err := r.Sync(ctx); err != nil {
		return 0, 0, err
	}
	return r.s.Compact(ctx)
}

// Verify checks the file: see [Store.Verify].
func (r *Relaxed) Verify(ctx context.Context) error {
	return r.s.Verify(ctx)
}

// write commits all changes at once.
func (r *Relaxed) write() error {
	_ = r.mem.writing.take(context.Background())
	defer r.mem.writing.give()
	changes, _ := r.mem.collect(func() {})
	if len(changes) == 0 {
		return nil
	}
	start := time.Now()
	done := r.watch()
	err := r.mem.commit(changes, nil)
	r.mem.settled(changes, err)
	done(err)
	if tell := r.s.options.Trace.Flush; tell != nil {
		tell(store.Flush{Backend: backend, Requests: len(changes), Took: time.Since(start), Err: err})
	}
	return err
}

// watch makes changes wait if a write takes longer than a window. The caller calls done with the
// error of the write.
func (r *Relaxed) watch() (done func(error)) {
	var mu sync.Mutex
	over := false
	timer := time.AfterFunc(r.window, func() {
		mu.Lock()
		defer mu.Unlock()
		if !over {
			r.stall(&stall{over: make(chan struct{})})
		}
	})
	return func(err error) {
		timer.Stop()
		mu.Lock()
		over = true
		mu.Unlock()
		if err != nil {
			r.stall(&stall{over: make(chan struct{}), err: err})
		} else {
			r.stall(nil)
		}
	}
}

// stall replaces the stall that changes wait for; nil lets them go on.
func (r *Relaxed) stall(st *stall) {
	if old := r.stalled.Swap(st); old != nil {
		close(old.over)
	}
}

// stored returns the record of key in the newest commit; present is false if there is none.
func (s *Store) stored(key string) (rec store.Record, present bool, err error) {
	err = s.read(func(records *bbolt.Bucket) error {
		k := []byte(key)
		value := records.Get(k)
		if value == nil {
			return nil
		}
		present = true
		rec, _, err = s.layout.decodeRecord(k, value)
		return err
	})
	return rec, present, err
}
