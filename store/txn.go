package store

import (
	"slices"
	"time"
)

// Decide decides a transaction at time clock: all of its operations go in, or none does.
// recs[i] is the record of txn[i], and operations on one key share one record. The backend
// stores each record of which an element of effects contains [Write].
//
// A key of an operation of mode [UpTo] occurs once. Operations of mode [Ask] count as those of mode
// IfFits in the decision, so amounts on one key add up. If the transaction is accepted, only the
// other operations go in. A transaction that only asks changes no record.
//
// A refused transaction blocks the buckets of the operations that were refused and carry a penalty,
// and changes times that were more than maxSkew ahead of clock. It ends the time at an old rate of
// every bucket that an operation other than Ask names, as [Record.Fill] does, unless the operations
// on one bucket exceed its capacity and ceiling together. A bucket that is blocked already stays as
// it is. The RetryAfter of a refused operation is the wait until all operations of the transaction
// on the same bucket fit, one after the other, at the rate at which the refusal left the bucket.
func Decide(txn Txn, recs []*Record, clock int64, maxSkew time.Duration) (res Result, effects []Effect) {
	if times, inside := txn.times(recs, clock, maxSkew); !inside {
		return Result{Err: &PeriodError{times}}, make([]Effect, len(txn))
	}
	before := make([]Record, len(txn))
	for i, r := range recs {
		before[i] = *r
	}
	restore := func() {
		for i, r := range recs {
			*r = before[i]
		}
	}
	res, effects = fillAll(txn, recs, clock, maxSkew)
	if res.Err != nil {
		restore()
		return Result{Err: res.Err}, make([]Effect, len(txn))
	}
	if res.Accepted && !txn.asksSome() {
		return res, effects
	}
	restore()
	if !res.Accepted {
		refuse(txn, recs, res.States, effects, clock, maxSkew)
		return res, effects
	}
	for i, r := range recs {
		if effects[i] = 0; txn[i].Mode != Ask {
			res.States[i], effects[i], _ = r.Fill(&txn[i], clock, maxSkew)
		}
	}
	for i, r := range recs {
		if txn[i].Mode == Ask {
			res.States[i] = r.State(txn[i].Limit, clock, maxSkew)
			res.States[i].Accepted = true
		}
	}
	return res, effects
}

// fillAll carries out the operations one after the other, those of mode Ask in mode IfFits.
func fillAll(txn Txn, recs []*Record, clock int64, maxSkew time.Duration) (res Result, effects []Effect) {
	res = Result{Accepted: true, States: make([]State, len(txn))}
	effects = make([]Effect, len(txn))
	for i := range txn {
		op := txn[i]
		if op.Mode == Ask {
			op.Mode = IfFits
		}
		if res.States[i], effects[i], res.Err = recs[i].Fill(&op, clock, maxSkew); res.Err != nil {
			return res, effects
		}
		res.Accepted = res.Accepted && (!op.refusable() || res.States[i].Accepted)
	}
	return res, effects
}

// refuse changes the records as a refused transaction does, and sets the states and effects. The
// states are those of fillAll, which tell the operations that were refused.
func refuse(txn Txn, recs []*Record, states []State, effects []Effect, clock int64, maxSkew time.Duration) {
	refused := make([]bool, len(txn))
	sums := make(map[*Record]float64, len(txn))
	never := false // a bucket cannot take its operations, however long it leaks
	for i, r := range recs {
		op := &txn[i]
		refused[i] = op.refusable() && !states[i].Accepted
		sums[r] += op.needs()
		never = never || sums[r] > op.highest() && op.Limit != Limit{}
	}
	for i, r := range recs {
		op := &txn[i]
		if effects[i] = 0; op.Mode == Ask {
			continue
		}
		if op.Amount != 0 || op.Hold != 0 {
			effects[i] = r.unskew(clock, maxSkew)
		}
		now := max(r.Time, clock)
		if r.blocked(now) {
			continue
		}
		if !never && (op.Amount != 0 || op.Hold != 0) {
			effects[i] |= r.setRate(op.Limit, now)
		}
		if op.BlockFor != 0 && refused[i] {
			effects[i] |= r.block(op, now)
		}
	}
	waits := make(map[*Record]time.Duration)
	for i, r := range recs {
		wait := time.Duration(0)
		if refused[i] {
			var known bool
			if wait, known = waits[r]; !known {
				wait = together(txn, recs, r, clock, maxSkew)
				waits[r] = wait
			}
		}
		states[i] = r.State(txn[i].Limit, clock, maxSkew)
		states[i].RetryAfter = wait
	}
}

// Asks reports whether the transaction only asks: all of its operations are in mode [Ask].
func (t Txn) Asks() bool {
	return len(t) > 0 && !slices.ContainsFunc(t, func(op Op) bool { return op.Mode != Ask })
}

// asksSome reports whether an operation is in mode Ask.
func (t Txn) asksSome() bool {
	return slices.ContainsFunc(t, func(op Op) bool { return op.Mode == Ask })
}

// together returns the wait until all operations of the transaction on the record r fit, one after
// the other. The record is as the refusal left it. The waits that Fill returned in Decide are of no
// use here: Fill counted the units of earlier operations as units in the bucket, which leak during
// the wait. Such a wait is finite even if the sum of the operations exceeds the capacity.
func together(txn Txn, recs []*Record, r *Record, clock int64, maxSkew time.Duration) time.Duration {
	now := *r
	now.unskew(clock, maxSkew)
	var ops []Op
	for i, op := range txn {
		if recs[i] != r {
			continue
		}
		if op.Mode == UpTo {
			op = op.least()
		}
		if op.Mode == Ask {
			op.Mode = IfFits
		}
		if op.LeakRate < 0 {
			op.Begins = anyPeriod
		}
		ops = append(ops, op)
	}
	if op := &ops[0]; len(ops) == 1 {
		return now.wait(op, op.needs(), clock, op.rim(max(now.Time, clock)))
	}
	fits := func(us int64) bool {
		trial := now
		for i := range ops {
			st, _, err := trial.Fill(&ops[i], clock+us, maxSkew)
			if err != nil || ops[i].Mode == IfFits && !st.Accepted {
				return false
			}
		}
		return true
	}
	longest := min(MaxTime-clock, maxWait) - 1
	if longest <= 0 || !fits(longest) {
		return Never
	}
	lo, hi := int64(0), int64(1)
	for step := int64(1); !fits(hi); step *= 2 {
		lo, hi = hi, min(hi+step, longest)
	}
	for hi-lo > 1 {
		if mid := lo + (hi-lo)/2; fits(mid) {
			hi = mid
		} else {
			lo = mid
		}
	}
	return time.Duration(hi) * time.Microsecond
}
