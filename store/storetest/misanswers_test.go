package storetest

import (
	"math"
	"strings"
	"time"

	"github.com/brimgo/brim/store"
)

// misread applies a fault to the operation and to the record before the decision.
func (s *refStore) misread(op store.Op, r *store.Record, now int64) store.Op {
	switch s.fault {
	case rewindsTime, believesNoTime, timeBeforeLock:
		r.Time = min(r.Time, now)
	case rewindsMicroseconds:
		if r.Time-now < 1000 {
			r.Time = min(r.Time, now)
		}
	case clampsLowered:
		r.Level = min(r.Level, op.Capacity)
	case leaksWholeUnits:
		if now > r.Time {
			r.Level = max(0, r.Level-math.Floor(op.LeakRate*float64(now-r.Time)/1e6))
			r.Time = now
		}
	case roundsTinyLeaks:
		if now > r.Time && r.Limit != (store.Limit{}) && op.Amount != 0 {
			r.Level = max(0, r.Level-float64(op.LeakRate*(float64(now-r.Time)/1e6)))
			r.Time = now
		}
	case holdsLeak:
		r.Held = max(0, r.Held-float64(op.LeakRate*(float64(max(now-r.Time, 0))/1e6)))
	case releasesAnything:
		op.Hold = max(op.Hold, -r.Held)
	case modeIgnored:
		if op.Mode == store.Clamp {
			op.Mode = store.IfFits
		}
	case unknownModeFits:
		if op.Mode > store.Unblock {
			op.Mode = store.IfFits
		}
	case ignoresBlocks:
		r.BlockedUntil = 0
	case ignoresCeiling:
		op.Ceiling, op.CeilingAt = 0, time.Time{}
	case ceilingLowers:
		op.Ceiling = min(op.Ceiling, op.Capacity)
	case ceilingStays:
		op.CeilingAt = time.Time{}
	case askWrites:
		if op.Mode == store.Ask {
			op.Mode = store.IfFits
		}
	case askMendsSkew:
		if op.Mode == store.Ask && r.Time-now > s.maxSkew().Microseconds() {
			r.Time = now
		}
	case askFromRead:
		if op.Mode == store.Ask && now > r.Time {
			r.Level, r.Time = r.LevelAt(now), now
		}
	case askAtCallersRate:
		if at := max(r.Time, now); op.Mode == store.Ask && r.BlockedUntil <= at && r.Limit != (store.Limit{}) {
			r.Level, r.Time, r.Limit = r.LevelAt(at), at, op.Limit
		}
	case askIgnoresHeld:
		if op.Mode == store.Ask {
			op.Capacity += r.Held
		}
	case blockShortens:
		if op.Mode == store.Block {
			r.BlockedUntil = 0
		}
	case unblockKeepsOld:
		if op.Mode == store.Unblock && r.BlockedUntil <= now {
			op.Mode, op.Limit = store.Always, r.Limit
		}
	case storesCeiling:
		if op.Ceiling != 0 {
			op.Capacity = op.Ceiling
		}
	case alwaysClamps:
		if op.Mode == store.Always && op.Amount > 0 && op.Hold == 0 {
			op.Mode = store.Clamp
		}
	case callersRate:
		if r.Limit != (store.Limit{}) {
			r.LeakRate = op.LeakRate
		}
	}
	return op
}

// misanswer applies a fault to the outcome of the decision.
func (s *refStore) misanswer(op store.Op, st store.State, e store.Effect, err error,
	before store.Record, r *store.Record, now int64,
) (store.State, store.Effect, error) {
	if err != nil {
		return st, e, err
	}
	refused := !st.Accepted && op.Mode == store.IfFits
	switch s.fault {
	case leaksAfterAdding:
		if e&store.Write != 0 && op.Amount > 0 && now > before.Time {
			leak := op.LeakRate * float64(now-before.Time) / 1e6
			r.Level = max(0, before.Level+op.Amount-leak)
			st.Level = r.Level
		}
	case acceptedByLevel:
		st.Accepted = st.Level != before.Level || st.Held != before.Held
	case fullByNearness:
		st.Full = math.Abs(st.Level+st.Held-st.Capacity) < 0.01
	case finiteWaits:
		if st.RetryAfter == store.Never && op.LeakRate > 0 {
			st.RetryAfter = time.Duration(max(1, (st.Level+op.Amount-op.Capacity)/op.LeakRate*1e6)) * time.Microsecond
		}
	case waitsWholeWindow:
		if st.RetryAfter > 0 && st.RetryAfter != store.Never {
			st.RetryAfter = time.Duration(op.Capacity / op.LeakRate * float64(time.Second))
		}
	case refusalsWrite:
		if refused {
			r.Level, r.Time = st.Level, max(before.Time, now)
			e |= store.Write
		}
	case refusalsStoreLimit:
		if refused && before.Limit != (store.Limit{}) {
			r.Limit = op.Limit
			e |= store.Write
		}
	case refusalLeavesSkew:
		if refused {
			*r, e = before, 0
		}
	case captureInTwo:
		if op.Amount+op.Hold == 0 {
			return st, 0, nil
		}
	case retryEarly:
		if st.RetryAfter > time.Microsecond && st.RetryAfter != store.Never {
			st.RetryAfter -= time.Microsecond
		}
	case retryLate:
		if st.RetryAfter > 0 && st.RetryAfter != store.Never {
			st.RetryAfter += time.Millisecond
		}
	case retryIgnoresSkew:
		if st.RetryAfter > 0 && st.RetryAfter != store.Never && r.Time > now {
			st.RetryAfter -= time.Duration(r.Time-now) * time.Microsecond
		}
	case zeroCreatesRow:
		if op.Amount == 0 && op.Hold == 0 {
			r.Limit = op.Limit
			e |= store.Write
		}
	case drainCreatesRow:
		if op.Amount < 0 {
			r.Limit = op.Limit
			e |= store.Write
		}
	case drainBelowZero:
		if op.Mode == store.Always && op.Amount < 0 && e&store.Write != 0 && st.Level == 0 {
			r.Level += before.Level + op.Amount
			st.Level = r.Level
		}
	case askCreatesRow:
		if op.Mode == store.Ask {
			r.Limit = op.Limit
			e |= store.Write
		}
	case askMendsSkew:
		if op.Mode == store.Ask && before.Time != r.Time {
			e |= store.Write
		}
	case showsCallersRate:
		if op.Limit != (store.Limit{}) {
			st.SetLimit(op.Limit)
		}
	case askFills:
		if op.Mode == store.Ask && st.Accepted {
			st.Level += op.Amount
		}
	case blockStoresLimit:
		if op.Mode == store.Block {
			r.Limit = op.Limit
		}
	case blockStoresLevel:
		if op.Mode == store.Block {
			r.Level, r.Time = st.Level, max(r.Time, now)
		}
	case unblockResets:
		if op.Mode == store.Unblock {
			r.Level, r.Held = 0, 0
		}
	case unblockCreatesRow:
		if op.Mode == store.Unblock {
			e |= store.Write
		}
	case prolongsPenalties:
		until := max(before.Time, now) + op.BlockFor.Microseconds()
		if op.Mode < store.Always && op.BlockFor > 0 && before.BlockedUntil > now && until > before.BlockedUntil {
			r.BlockedUntil, st.BlockedUntil = until, time.UnixMicro(until)
			e |= store.Write
		}
	case settlesBlocked:
		if at := max(before.Time, now); refused && before.BlockedUntil > at && before.LeakRate != op.LeakRate {
			r.Level, r.Time, r.Limit = r.LevelAt(at), at, op.Limit
			e |= store.Write
		}
	case spilledLost:
		st.Spilled = 0
	case drainedLost:
		st.Drained = 0
	case refusalKeepsRate:
		if refused && before.LeakRate != op.LeakRate {
			*r, e = before, 0
		}
	case refusalPutsRateOff:
		if refused && before.Limit != (store.Limit{}) && op.Amount+op.Hold > op.Capacity {
			r.Level, r.Time, r.Limit, e = st.Level, max(before.Time, now), op.Limit, store.Write
		}
	case losesAmounts:
		if level := before.LevelAt(now); st.Accepted && op.Amount > 0 && level+op.Amount == level {
			r.Level, st.Level = level, level
		}
	case holdsToTheBit:
		if op.Hold < 0 {
			if r.Held = before.Held + op.Hold; r.Held < 0 {
				*r = before
				return store.State{}, 0, store.ErrNotHeld
			}
			st.Held = r.Held
		}
	}
	return st, e, err
}

// misreport applies a fault to the result of a transaction.
func (s *refStore) misreport(res store.Result) store.Result {
	for i := range res.States {
		st := &res.States[i]
		switch s.fault {
		case finiteWaitsInTxns:
			if st.RetryAfter == store.Never && len(res.States) > 1 {
				st.RetryAfter = time.Second
			}
		case refusedTrialShows:
			st.Accepted = st.RetryAfter == 0
		case waitsForAll:
			if !res.Accepted && st.RetryAfter == 0 {
				st.RetryAfter = time.Second
			}
		}
	}
	return res
}

// misreadTxn applies a fault to the operations of a transaction.
func (s *refStore) misreadTxn(txn store.Txn) store.Txn {
	if s.fault != askMembersGoIn || txn.Asks() {
		return txn
	}
	return tried(txn)
}

// limitOf returns the limit by which the store reads b.
func (s *refStore) limitOf(b store.Bucket) store.Limit {
	if s.fault == zeroLimitIsEmpty && b.Limit == (store.Limit{}) {
		return store.Limit{Capacity: 1}
	}
	return b.Limit
}

// afterRead applies a fault that writes after a read.
func (s *refStore) afterRead(b store.Bucket, r store.Record, now int64) {
	switch s.fault {
	case readCreatesRow:
		s.disk.records[b.Key] = r
	case readMendsSkew:
		if r.Time-now > s.maxSkew().Microseconds() {
			r.Time = now
			s.disk.records[b.Key] = r
		}
	}
}

// remove deletes the record of key.
func (s *refStore) remove(key string) {
	if s.fault == deleteKeepsBlock {
		if r, ok := s.disk.records[key]; ok && r.BlockedUntil > 0 {
			s.disk.records[key] = store.Record{Time: r.Time, Limit: r.Limit, BlockedUntil: r.BlockedUntil}
			return
		}
	}
	delete(s.disk.records, s.keyed(key))
}

// matches reports whether a visit of prefix visits key.
func (s *refStore) matches(key, prefix string) bool {
	switch s.fault {
	case visitsAnyPrefix:
		return true
	case foldsPrefix:
		return strings.HasPrefix(strings.ToLower(key), strings.ToLower(prefix))
	}
	return strings.HasPrefix(key, prefix)
}

// misvisited applies a fault to the buckets of a visit.
func (s *refStore) misvisited(entries []store.Entry) []store.Entry {
	switch s.fault {
	case fullOnRead:
		for i := range entries {
			entries[i].Full = entries[i].Level+entries[i].Held >= entries[i].Capacity
		}
	case visitsTwice:
		if len(entries) > 1000 {
			entries = append(entries, entries[0])
		}
	case visitLeavesOut:
		if len(entries) > 1000 {
			entries = entries[1:]
		}
	}
	return entries
}

// expired reports whether the store prunes r.
func (s *refStore) expired(r store.Record, now int64) bool {
	long := now - store.DefaultMaxSkew.Microseconds()
	switch s.fault {
	case prunesByLastTouch:
		return r.Time < long
	case prunesHeld:
		r.Held = 0
	case prunesBlocked:
		r.BlockedUntil = 0
	case prunesAtOnce:
		return r.Expired(now, 0)
	case prunesNoLeak:
		return r.Expired(now, s.maxSkew()) || r.LeakRate == 0 && r.Held == 0 && r.Level == 0 && r.Time < long
	case neverPrunes:
		return false
	}
	return r.Expired(now, s.maxSkew())
}

// reopened returns the store after a restart.
func (s *refStore) reopened(now func() time.Time) *refStore {
	s.disk.mu.Lock()
	defer s.disk.mu.Unlock()
	s.closed = true
	next := s.peer(now)
	for k, r := range s.disk.records {
		switch s.fault {
		case losesAtRestart:
			delete(s.disk.records, k)
			continue
		case losesHoldsAtRestart:
			r.Held = 0
		case losesBlocksAtRestart:
			r.BlockedUntil = 0
		case losesTimeAtRestart:
			r.Time = next.now()
		}
		s.disk.records[k] = r
	}
	return next
}
