package storetest

import (
	"context"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/brimgo/brim/store"
)

// faultState is the memory of some faults.
type faultState struct {
	cancelled bool
	failed    bool
	locks     map[string]*sync.Mutex // of keys
	timed     atomic.Int64           // times taken before the lock
	loads     int                    // of records
}

func (s *refStore) now() int64 {
	if s.fault == clockStands {
		return start
	}
	return s.clock.Now()
}

func (s *refStore) nowLocked(early int64) int64 {
	if s.fault == timeBeforeLock {
		return early
	}
	return s.now()
}

func (s *refStore) maxSkew() time.Duration {
	if s.fault == ignoresMaxSkew {
		return 1000 * time.Hour
	}
	return store.DefaultMaxSkew
}

// keyed returns the key under which the store keeps a record.
func (s *refStore) keyed(key string) string {
	switch s.fault {
	case foldsCase:
		return strings.ToLower(key)
	case trimsKeys:
		return strings.TrimSpace(key)
	case truncatesKeys:
		return key[:min(len(key), 255)]
	}
	return key
}

// kept returns the record that the store keeps of a written one.
func (s *refStore) kept(key string, r store.Record) store.Record {
	switch s.fault {
	case forgetsHolds:
		r.Held = 0
	case updatesEveryRow:
		for k := range s.disk.records {
			s.disk.records[k] = r
		}
	}
	return r
}

// brokenFill carries out a Fill with a fault of its own. If done is false, the fault lies
// elsewhere.
func (s *refStore) brokenFill(ctx context.Context, op store.Op, early int64) (st store.State, err error, done bool) {
	switch s.fault {
	case timeBeforeLock:
		// Every other call waits here, so that calls with a later time overtake it.
		if s.disk.fault.timed.Add(1)%2 == 0 {
			s.dawdle()
		}
	case decidesFromSnapshot:
		if ctx.Err() != nil || s.enter(ctx) != nil {
			return st, nil, false
		}
		r := s.load(op.Key, early)
		s.leave()
		s.dawdle()
		st, effect, err := r.Fill(&op, early, s.maxSkew())
		s.disk.mu.Lock()
		defer s.disk.mu.Unlock()
		if effect&store.Write != 0 {
			now := s.load(op.Key, early)
			now.Level += op.Amount
			now.Time = r.Time
			now.Limit = r.Limit
			s.disk.records[op.Key] = now
		}
		return st, err, true
	case unlocksBeforeWrite, findsThenInserts:
		if s.enter(ctx) != nil {
			return st, nil, false
		}
		defer s.leave()
		res := s.decideThenWrite(store.Txn{op})
		if res.Err != nil {
			return st, res.Err, true
		}
		return res.States[0], nil, true
	case failsOnFirstUse:
		if s.enter(ctx) != nil {
			return st, nil, false
		}
		_, there := s.disk.records[op.Key]
		s.leave()
		s.dawdle()
		if s.enter(ctx) != nil {
			return st, nil, false
		}
		_, thereNow := s.disk.records[op.Key]
		s.leave()
		if there != thereNow {
			return st, store.ErrUnavailable, true
		}
	case timeoutNotApplied:
		// The call is applied, and its context is examined only afterwards.
		if ctx.Err() == nil {
			defer func() {
				if err == nil && done && ctx.Err() != nil {
					err = ctx.Err()
				}
			}()
			st, err = s.plainFill(context.WithoutCancel(ctx), op)
			s.cancelledSoon(ctx)
			return st, err, true
		}
	case cancelsNeighbours:
		cancelled := func() bool { return ctx.Done() != nil && s.cancelledSoon(ctx) }
		err := s.neighbour(ctx, func(f *faultState) *bool { return &f.cancelled }, cancelled, context.Canceled)
		if err != nil {
			return st, err, true
		}
	case badFailsNeighbours:
		failing := func() bool { return op.Hold < 0 }
		err := s.neighbour(ctx, func(f *faultState) *bool { return &f.failed }, failing, store.ErrNotHeld)
		if err != nil && op.Hold >= 0 {
			return st, err, true
		}
	case cancelLeavesLock:
		if ctx.Err() == nil && s.cancelledSoon(ctx) {
			s.disk.mu.Lock() // and never unlocks it
			return st, ctx.Err(), true
		}
	}
	return st, nil, false
}

// pruneUnasked removes empty buckets at each 256th load of a record, or the bucket that is loaded.
func (s *refStore) pruneUnasked(key string, now int64) {
	switch s.fault {
	case prunesUnasked:
		if s.disk.fault.loads++; s.disk.fault.loads%256 == 0 {
			maps.DeleteFunc(s.disk.records, func(_ string, r store.Record) bool { return r.Expired(now, 0) })
		}
	case expiresKeys:
		if r, ok := s.disk.records[key]; ok && r.Expired(now, 0) {
			delete(s.disk.records, key)
		}
	}
}

// dawdle waits until a few other calls have passed, if there are any, so that the race is
// surely lost.
func (s *refStore) dawdle() {
	mine := s.disk.calls.Add(1)
	for i := 0; i < 200 && s.disk.calls.Load() < mine+4; i++ {
		runtime.Gosched()
	}
}

// plainFill fills without a fault.
func (s *refStore) plainFill(ctx context.Context, op store.Op) (store.State, error) {
	return s.plain().Fill(ctx, op)
}

// plain returns a handle on the same data without a fault.
func (s *refStore) plain() *refStore {
	return &refStore{clock: s.clock, fault: none, disk: s.disk, closed: s.closed}
}

// cancelledSoon waits until a context with a deadline is done, and reports whether the context
// had one.
func (s *refStore) cancelledSoon(ctx context.Context) bool {
	if _, ok := ctx.Deadline(); !ok {
		return false
	}
	<-ctx.Done()
	return true
}

// neighbour lets the failure of one call hit the next call.
func (s *refStore) neighbour(ctx context.Context, flag func(*faultState) *bool, fails func() bool, err error) error {
	own := fails()
	if s.enter(context.WithoutCancel(ctx)) != nil {
		return nil
	}
	defer s.leave()
	f := flag(&s.disk.fault)
	if own {
		*f = true
		return nil
	}
	if *f {
		*f = false
		return err
	}
	return nil
}

// brokenApply carries out an Apply with a fault of its own. If done is false, the fault lies
// elsewhere.
func (s *refStore) brokenApply(ctx context.Context, txns []store.Txn) (res []store.Result, err error, done bool) {
	if ctx.Err() != nil {
		return nil, nil, false
	}
	switch s.fault {
	case undoes:
		// It fills one bucket after the other, and undoes the fills if one is refused.
		for _, txn := range txns {
			r := store.Result{Accepted: true}
			for _, op := range txn {
				st, err := s.plainFill(ctx, op)
				if err != nil {
					r.Err, r.Accepted = err, false
				}
				r.States = append(r.States, st)
				s.dawdle()
				if err != nil || op.Mode == store.IfFits && !st.Accepted {
					r.Accepted = false
					break
				}
			}
			if !r.Accepted {
				for i, st := range r.States {
					if st.Accepted {
						op := txn[i]
						op.Mode, op.Amount, op.Hold = store.Always, -op.Amount, -op.Hold
						if _, err := s.plainFill(ctx, op); err != nil {
							return nil, err, true
						}
					}
				}
			}
			res = append(res, r)
		}
		return res, nil, true
	case locksInCallersOrder, locksWithoutPause:
		if len(txns) == 1 {
			defer s.lockOneByOne(txns[0])()
			res, err := s.plain().Apply(ctx, txns...)
			return res, err, true
		}
	case unlocksBeforeWrite, findsThenInserts:
		if s.enter(ctx) != nil {
			return nil, nil, false
		}
		defer s.leave()
		for _, txn := range txns {
			res = append(res, s.decideThenWrite(txn))
		}
		return res, nil, true
	case askSeparately:
		for _, txn := range txns {
			if !txn.Asks() {
				one, err := s.plain().Apply(ctx, txn)
				if err != nil {
					return nil, err, true
				}
				res = append(res, one...)
				continue
			}
			r := store.Result{Accepted: true}
			for _, op := range txn {
				st, err := s.plainFill(ctx, op)
				if err != nil {
					return nil, err, true
				}
				r.Accepted = r.Accepted && st.Accepted
				r.States = append(r.States, st)
			}
			res = append(res, r)
		}
		return res, nil, true
	case badFailsBatch:
		res, err := s.plain().Apply(ctx, txns...)
		for _, r := range res {
			if r.Err != nil {
				return nil, r.Err, true
			}
		}
		return res, err, true
	}
	return nil, nil, false
}

// lockOneByOne locks the keys in the caller's order, and returns the function that unlocks them.
func (s *refStore) lockOneByOne(txn store.Txn) (unlock func()) {
	var mine []*sync.Mutex
	for _, op := range txn {
		l := s.lockOf(op.Key)
		if slices.Contains(mine, l) {
			continue
		}
		l.Lock()
		mine = append(mine, l)
		if s.fault == locksInCallersOrder {
			s.dawdle()
		}
	}
	return func() {
		for _, l := range mine {
			l.Unlock()
		}
	}
}

// lockOf returns the lock of a key.
func (s *refStore) lockOf(key string) *sync.Mutex {
	s.disk.mu.Lock()
	defer s.disk.mu.Unlock()
	f := &s.disk.fault
	if f.locks == nil {
		f.locks = make(map[string]*sync.Mutex)
	}
	if f.locks[key] == nil {
		f.locks[key] = new(sync.Mutex)
	}
	return f.locks[key]
}

// decideThenWrite decides a transaction, and then writes the records. In between it releases the
// lock for a moment: always, or if it has not found a record.
func (s *refStore) decideThenWrite(txn store.Txn) store.Result {
	now := s.now()
	held := make(map[string]*store.Record)
	recs := make([]*store.Record, len(txn))
	unlocks := s.fault == unlocksBeforeWrite
	for j, op := range txn {
		if _, found := s.disk.records[op.Key]; !found {
			unlocks = true
		}
		if held[op.Key] == nil {
			r := s.load(op.Key, now)
			held[op.Key] = &r
		}
		recs[j] = held[op.Key]
	}
	res, effects := store.Decide(txn, recs, now, s.maxSkew())
	if unlocks {
		s.leave()
		s.disk.mu.Lock()
	}
	for j, op := range txn {
		if effects[j]&store.Write != 0 {
			s.save(op.Key, *recs[j])
		}
	}
	return res
}
