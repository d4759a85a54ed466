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
			r.trim()
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
	if err := r.check(ctx); err != nil {
		return store.Wrap(backend, "verify", err)
	}
	return r.s.Verify(ctx)
}

// change is the state of a bucket when it was collected.
type change struct {
	*cached
	rec     store.Record
	present bool
}

// write commits all changes at once.
func (r *Relaxed) write() error {
	r.writing.Lock()
	defer r.writing.Unlock()
	changes := r.collect()
	if len(changes) == 0 {
		return nil
	}
	start := time.Now()
	done := r.watch()
	err := r.commit(changes)
	for _, c := range changes {
		p := r.section(c.key)
		p.mu.Lock()
		c.writing = false
		if err != nil {
			p.change(c.cached)
		}
		p.mu.Unlock()
	}
	done(err)
	if tell := r.s.options.Trace.Flush; tell != nil {
		tell(store.Flush{Backend: backend, Requests: len(changes), Took: time.Since(start), Err: err})
	}
	return err
}

// commit writes changes to the file in one transaction.
func (r *Relaxed) commit(changes []change) error {
	if err := r.s.file.Lock(context.Background()); err != nil {
		return err
	}
	defer r.s.file.Unlock()
	defer r.view.forget()
	return r.s.write(&r.view, func() error {
		for _, c := range changes {
			r.view.set(c.key, &c.rec, c.present)
		}
		return nil
	})
}

// collect takes all changes. No transaction is under way meanwhile, so collect takes all buckets
// of a transaction or none.
func (r *Relaxed) collect() (changes []change) {
	r.several.Lock()
	defer r.several.Unlock()
	for i := range r.sections {
		p := &r.sections[i]
		p.mu.Lock()
		for _, c := range p.changed {
			c.changed, c.writing = false, true
			changes = append(changes, change{cached: c, rec: c.rec, present: c.present})
		}
		clear(p.changed)
		p.changed = p.changed[:0]
		p.mu.Unlock()
	}
	return changes
}

// set puts rec in the place of the stored record, or removes the record if present is false.
func (v *view) set(key string, rec *store.Record, present bool) {
	e := v.entry(key)
	v.drop(e)
	if present {
		e.present, e.rec = true, *rec
	}
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

// trim forgets buckets of sections that hold more than they should keep.
func (r *Relaxed) trim() {
	for i := range r.sections {
		p := &r.sections[i]
		p.mu.Lock()
		excess := len(p.buckets) - r.most
		p.mu.Unlock()
		if excess > 0 {
			p.evict(func(*cached) bool { excess--; return excess >= 0 })
		}
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
		rec, _, err = decodeRecord(k, value)
		return err
	})
	return rec, present, err
}
