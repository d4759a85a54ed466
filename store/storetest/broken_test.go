package storetest

import (
	"context"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/brimgo/brim/store"
)

// faultState is the memory of some faults.
type faultState struct {
	cancelled bool
	failed    bool
	locked    map[string]bool
	timed     atomic.Int64 // times taken before the lock
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
	plain := &refStore{clock: s.clock, fault: none, disk: s.disk, closed: s.closed}
	return plain.Fill(ctx, op)
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
	case locksInCallersOrder:
		if len(txns) == 1 && len(txns[0]) > 1 && !s.lockOneByOne(ctx, txns[0]) {
			return nil, ctx.Err(), true
		}
	case badFailsBatch:
		plain := &refStore{clock: s.clock, fault: none, disk: s.disk, closed: s.closed}
		res, err := plain.Apply(ctx, txns...)
		for _, r := range res {
			if r.Err != nil {
				return nil, r.Err, true
			}
		}
		return res, err, true
	}
	return nil, nil, false
}

// lockOneByOne locks the keys in the caller's order. It gives up only when the context ends.
func (s *refStore) lockOneByOne(ctx context.Context, txn store.Txn) bool {
	var mine []string
	defer func() {
		s.disk.mu.Lock()
		defer s.disk.mu.Unlock()
		for _, k := range mine {
			delete(s.disk.fault.locked, k)
		}
	}()
	for _, op := range txn {
		for {
			s.disk.mu.Lock()
			if s.disk.fault.locked == nil {
				s.disk.fault.locked = make(map[string]bool)
			}
			taken := s.disk.fault.locked[op.Key] && !slices.Contains(mine, op.Key)
			if !taken {
				s.disk.fault.locked[op.Key] = true
				mine = append(mine, op.Key)
			}
			s.disk.mu.Unlock()
			if !taken {
				break
			}
			if ctx.Err() != nil {
				return false
			}
			runtime.Gosched()
		}
		s.dawdle()
	}
	return true
}
