package storetest

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/brimgo/brim/internal/clock"
	"github.com/brimgo/brim/store"
)

// refStore is a simple store with one lock and one map. It is correct unless it has a fault.
type refStore struct {
	clock *clock.Clock
	fault fault
	disk  *refDisk
	// closed belongs to the handle: a second handle on the same disk stays open.
	closed bool
}

// refDisk contains the data that survive a handle.
type refDisk struct {
	mu      sync.Mutex
	records map[string]store.Record
	fault   faultState
	calls   atomic.Int64
}

func newRef(f fault, now func() time.Time) *refStore {
	return &refStore{clock: clock.New(clock.Options{Source: now}), fault: f, disk: &refDisk{records: make(map[string]store.Record)}}
}

// peer returns another handle on the same data.
func (s *refStore) peer(now func() time.Time) *refStore {
	return &refStore{clock: clock.New(clock.Options{Source: now}), fault: s.fault, disk: s.disk}
}

// enter locks the store. Unless it returns an error, the caller must call leave.
func (s *refStore) enter(ctx context.Context) error {
	if err := ctx.Err(); err != nil && s.fault != ignoresContext {
		return err
	}
	s.disk.mu.Lock()
	if s.closed && s.fault != usableAfterClose {
		s.disk.mu.Unlock()
		return store.ErrClosed
	}
	return nil
}

func (s *refStore) leave() { s.disk.mu.Unlock() }

func (s *refStore) load(key string, now int64) store.Record {
	s.pruneUnasked(key, now)
	if r, ok := s.disk.records[s.keyed(key)]; ok {
		return r
	}
	return store.NewRecord(now)
}

func (s *refStore) save(key string, r store.Record) { s.disk.records[s.keyed(key)] = s.kept(key, r) }

func (s *refStore) Fill(ctx context.Context, op store.Op) (store.State, error) {
	early := s.now()
	if st, err, done := s.brokenFill(ctx, op, early); done {
		return st, err
	}
	if err := s.enter(ctx); err != nil {
		return store.State{}, err
	}
	defer s.leave()
	now := s.nowLocked(early)
	r := s.load(op.Key, now)
	before := r
	op = s.misread(op, &r, now)
	st, effect, err := r.Fill(&op, now, s.maxSkew())
	st, effect, err = s.misanswer(op, st, effect, err, before, &r, now)
	if effect&store.Write != 0 {
		s.save(op.Key, r)
	}
	return st, err
}

func (s *refStore) Apply(ctx context.Context, txns ...store.Txn) ([]store.Result, error) {
	if res, err, done := s.brokenApply(ctx, txns); done {
		return res, err
	}
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.leave()
	now := s.now()
	results := make([]store.Result, len(txns))
	for i, txn := range txns {
		txn = s.misreadTxn(txn)
		held := make(map[string]*store.Record)
		recs := make([]*store.Record, len(txn))
		for j, op := range txn {
			if held[op.Key] == nil || s.fault == repeatedKeysApart {
				r := s.load(op.Key, now)
				held[op.Key] = &r
			}
			recs[j] = held[op.Key]
		}
		res, effects := store.Decide(txn, recs, now, s.maxSkew())
		for j, op := range txn {
			if effects[j]&store.Write != 0 {
				s.save(op.Key, *recs[j])
			}
		}
		results[i] = s.misreport(res)
	}
	return results, nil
}

func (s *refStore) Read(ctx context.Context, buckets ...store.Bucket) ([]store.State, error) {
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.leave()
	now := s.now()
	states := make([]store.State, len(buckets))
	for i, b := range buckets {
		r := s.load(b.Key, now)
		states[i] = r.State(s.limitOf(b), now, s.maxSkew())
		s.afterRead(b, r, now)
	}
	return states, nil
}

func (s *refStore) Delete(ctx context.Context, keys ...string) error {
	if err := s.enter(ctx); err != nil {
		return err
	}
	defer s.leave()
	for _, k := range keys {
		s.remove(k)
	}
	return nil
}

func (s *refStore) Visit(ctx context.Context, prefix string, f func(store.Entry) bool) error {
	if err := s.enter(ctx); err != nil {
		return err
	}
	now := s.now()
	var entries []store.Entry
	for k, r := range s.disk.records {
		if s.matches(k, prefix) {
			entries = append(entries, store.Entry{Key: k, State: r.State(store.Limit{}, now, s.maxSkew())})
		}
	}
	s.leave()
	if s.fault == visitHoldsLock {
		s.disk.mu.Lock()
		defer s.disk.mu.Unlock()
	}
	for _, e := range s.misvisited(entries) {
		if err := ctx.Err(); err != nil && s.fault != ignoresContext {
			return err
		}
		if !f(e) && s.fault != visitGoesOn {
			return nil
		}
	}
	return nil
}

func (s *refStore) Size(ctx context.Context) (int64, error) {
	if err := s.enter(ctx); err != nil {
		return 0, err
	}
	defer s.leave()
	size := 0
	for k := range s.disk.records {
		size += len(k)
	}
	return int64(size), nil
}

func (s *refStore) Prune(ctx context.Context) (int64, error) {
	if err := s.enter(ctx); err != nil {
		return 0, err
	}
	defer s.leave()
	now, n := s.now(), int64(0)
	for k, r := range s.disk.records {
		if s.expired(r, now) {
			delete(s.disk.records, k)
			n++
		}
	}
	return n, nil
}

func (s *refStore) Close() error {
	s.disk.mu.Lock()
	defer s.disk.mu.Unlock()
	if s.closed && s.fault == closesOnce {
		return store.ErrClosed
	}
	s.closed = true
	return nil
}
