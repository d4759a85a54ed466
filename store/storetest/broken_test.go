package storetest

import (
	"context"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/brimgo/brim/store"
)

// faultState is what some faults remember.
type faultState struct {
	cancelled bool
	bad       bool
	locked    map[string]bool
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

// keyed is the key under which a record is kept.
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

// kept is what is kept of a record that is written.
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

// brokenFill is a Fill that is wrong from the start.
func (s *refStore) brokenFill(ctx context.Context, op store.Op, early int64) (st store.State, err error, done bool) {
	switch s.fault {
	case timeBeforeLock:
		s.dawdle()
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
		// The call goes through, and its context is looked at afterwards.
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
		err := s.neighbour(ctx, func(f *faultState) *bool { return &f.cancelled }, func() bool { return ctx.Done() != nil && s.cancelledSoon(ctx) }, context.Canceled)
		if err != nil {
			return st, err, true
		}
	case badFailsNeighbours:
		err := s.neighbour(ctx, func(f *faultState) *bool { return &f.bad }, func() bool { return op.Hold < 0 }, store.ErrNotHeld)
		if err != nil && op.Hold >= 0 {
			return st, err, true
		}
	case cancelLeavesLock:
		if ctx.Err() == nil && s.cancelledSoon(ctx) {
			s.disk.mu.Lock() // and never unlocks
			return st, ctx.Err(), true
		}
	}
	return st, nil, false
}

// dawdle waits until a few other calls have come by, if there are any, so that a race is lost for sure.
func (s *refStore) dawdle() {
	mine := s.disk.calls.Add(1)
	for i := 0; i < 200 && s.disk.calls.Load() < mine+4; i++ {
		runtime.Gosched()
	}
}

func (s *refStore) plainFill(ctx context.Context, op store.Op) (store.State, error) {
	plain := &refStore{clock: s.clock, fault: none, disk: s.disk, closed: s.closed}
	return plain.Fill(ctx, op)
}

// cancelledSoon waits for a context that has a deadline, and says whether it had.
func (s *refStore) cancelledSoon(ctx context.Context) bool {
	if _, ok := ctx.Deadline(); !ok {
		return false
	}
	<-ctx.Done()
	return true
}

// neighbour lets one call's trouble hit the next one.
func (s *refStore) neighbour(ctx context.Context, flag func(*faultState) *bool, trouble func() bool, err error) error {
	is := trouble()
	if s.enter(context.WithoutCancel(ctx)) != nil {
		return nil
	}
	defer s.leave()
	f := flag(&s.disk.fault)
	if is {
		*f = true
		return nil
	}
	if *f {
		*f = false
		return err
	}
	return nil
}

// brokenApply is an Apply that is wrong from the start.
func (s *refStore) brokenApply(ctx context.Context, txns []store.Txn) (res []store.Result, err error, done bool) {
	if ctx.Err() != nil {
		return nil, nil, false
	}
	switch s.fault {
	case undoes:
		// One after the other, and back again where one refuses.
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

// lockOneByOne takes a lock per key in the caller's order, and gives up only when its context ends.
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
