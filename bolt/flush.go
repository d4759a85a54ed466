package bolt

import (
	"context"
	"time"

	"go.etcd.io/bbolt"

	"github.com/brimgo/brim/internal/combine"
	"github.com/brimgo/brim/store"
)

// request is a caller's request to the combiner.
type request struct {
	kind kind
	op   store.Op
	txns []store.Txn
	keys []string // to delete
}

type kind uint8

const (
	fill kind = iota
	apply
	remove
)

// reply is the answer to a request.
type reply struct {
	state   store.State
	results []store.Result
}

func newCombiner(s *Store) (*combine.Combiner[request, reply], error) {
	return combine.New(s.flush, &combine.Options{
		// While another goroutine writes, callers wait in the queue, where the end of their
		// contexts still takes them back.
		Before:  func(int) error { return s.file.Lock(context.Background()) },
		After:   func(int) { s.file.Unlock() },
		Flushed: s.flushed(),
	})
}

// flushed returns a function that tells Options.Trace of a flush, or nil if there is no Trace.
func (s *Store) flushed() func(int, time.Duration, error) {
	tell := s.options.Trace.Flush
	if tell == nil {
		return nil
	}
	return func(requests int, took time.Duration, err error) {
		tell(store.Flush{Backend: backend, Requests: requests, Took: took, Err: err})
	}
}

// flush decides a batch in one read-write transaction, and commits if anything changed. The
// combiner holds the lock of the file meanwhile.
func (s *Store) flush(_ int, batch []*combine.Request[request, reply]) {
	err := s.write(&s.view, func() error {
		now := s.clock.Now()
		for _, r := range batch {
			s.view.decide(r, now)
		}
		return nil
	})
	s.view.forget()
	if err == nil {
		return
	}
	failAll(batch, err)
}

// failAll answers a batch whose changes could not be kept. Requests that failed by themselves get
// the error, too: they were decided on changes of the same batch, such as the capture of a hold.
func failAll(batch []*combine.Request[request, reply], err error) {
	for _, r := range batch {
		r.Out, r.Err = reply{}, err
	}
}

// decide answers one request of a batch. An error of one request leaves the others alone.
func (v *view) decide(r *combine.Request[request, reply], now int64) {
	switch r.In.kind {
	case fill:
		r.Out.state, r.Err = v.fill(&r.In.op, now)
	case apply:
		r.Out.results = v.apply(r.In.txns, now)
	case remove:
		v.delete(r.In.keys)
	}
}

// write makes v a view of a new read-write transaction, runs fn, and commits the changes. The
// caller holds the lock of the file. An error of fn rolls back and is returned as it is; a panic
// of fn rolls back and goes on.
func (s *Store) write(v *view, fn func() error) error {
	return s.file.Update(func(tx *bbolt.Tx) (changed bool, err error) {
		if err := s.file.Guard(func() error { return v.reset(tx, s.layout) }); err != nil {
			return false, err
		}
		if err := fn(); err != nil {
			return false, err
		}
		if v.skewed > 0 {
			s.warnSkew(v.skewed)
		}
		err = s.file.Guard(func() (err error) { changed, err = v.write(s.clock.Now()); return err })
		return changed, err
	})
}

// warnSkew logs that the time of some buckets was not believed.
func (s *Store) warnSkew(buckets int) {
	s.options.Logger.Warn("bolt: buckets were dated further ahead of the clock than MaxSkew; "+
		"their time was set to the clock", "buckets", buckets, "max_skew", s.options.MaxSkew)
}
