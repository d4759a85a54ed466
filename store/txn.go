package store

import "time"

// Decide decides a transaction at time clock: all of its operations go in, or none does.
// recs[i] is the record of txn[i], and operations on one key share one record. The backend
// stores each record of which an element of effects contains [Write].
//
// A refused transaction changes only the blocks of the operations that were refused, and times
// that were more than maxSkew ahead of clock; see [Record.Fill]. The RetryAfter of a refused
// operation is the wait until all operations of the transaction on the same bucket fit, one
// after the other.
//
// A transaction in mode [Ask] changes no record. It is accepted if the same transaction in mode
// IfFits would be, and has the same waits.
func Decide(txn Txn, recs []*Record, clock int64, maxSkew time.Duration) (res Result, effects []Effect) {
	if txn.Asks() {
		return askAll(txn, recs, clock, maxSkew), make([]Effect, len(txn))
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
	res = Result{Accepted: true, States: make([]State, len(txn))}
	effects = make([]Effect, len(txn))
	for i := range txn {
		st, effect, err := recs[i].Fill(&txn[i], clock, maxSkew)
		if err != nil {
			restore()
			return Result{Err: err}, make([]Effect, len(txn))
		}
		res.States[i], effects[i] = st, effect
		if txn[i].Mode == IfFits && !st.Accepted {
			res.Accepted = false
		}
	}
	if res.Accepted {
		return res, effects
	}
	restore()
	waits := make(map[*Record]time.Duration)
	for i, r := range recs {
		op := &txn[i]
		if effects[i] = 0; op.Amount != 0 || op.Hold != 0 {
			effects[i] = r.unskew(clock, maxSkew)
		}
		if op.BlockFor != 0 && op.Mode == IfFits && !res.States[i].Accepted {
			effects[i] |= r.block(op, max(r.Time, clock))
		}
	}
	for i, r := range recs {
		refusal := time.Duration(0)
		if txn[i].Mode == IfFits && !res.States[i].Accepted {
			var known bool
			if refusal, known = waits[r]; !known {
				refusal = together(txn, recs, r, clock, maxSkew)
				waits[r] = refusal
			}
		}
		res.States[i] = r.State(txn[i].Limit, clock, maxSkew)
		res.States[i].RetryAfter = refusal
	}
	return res, effects
}

// Asks reports whether the transaction only asks: all of its operations are in mode [Ask].
func (t Txn) Asks() bool { return len(t) > 0 && t[0].Mode == Ask }

// askAll is Decide for a transaction that asks. It decides on copies of the records.
func askAll(txn Txn, recs []*Record, clock int64, maxSkew time.Duration) Result {
	tries := make(Txn, len(txn))
	trials := make([]*Record, len(txn))
	copies := make(map[*Record]*Record, len(txn))
	for i, r := range recs {
		tries[i] = txn[i]
		tries[i].Mode = IfFits
		if copies[r] == nil {
			trial := *r
			copies[r] = &trial
		}
		trials[i] = copies[r]
	}
	res, _ := Decide(tries, trials, clock, maxSkew)
	for i, would := range res.States {
		st := recs[i].State(txn[i].Limit, clock, maxSkew)
		st.Accepted, st.RetryAfter = would.Accepted, would.RetryAfter
		res.States[i] = st
	}
	return res
}

// together returns the wait until all operations of the transaction on the record r fit, one
// after the other. The waits that Fill returned in Decide are of no use here: Fill counted the
// units of earlier operations as units in the bucket, which leak during the wait. Such a wait
// is finite even if the sum of the operations exceeds the capacity.
func together(txn Txn, recs []*Record, r *Record, clock int64, maxSkew time.Duration) time.Duration {
	var ops []*Op
	for i := range txn {
		if recs[i] == r {
			ops = append(ops, &txn[i])
		}
	}
	if len(ops) == 1 {
		return r.Refusal(ops[0], clock, maxSkew).RetryAfter
	}
	fits := func(us int64) bool {
		trial := *r
		for _, op := range ops {
			st, _, err := trial.Fill(op, clock+us, maxSkew)
			if err != nil || op.Mode == IfFits && !st.Accepted {
				return false
			}
		}
		return true
	}
	if !fits(maxWait) {
		return Never
	}
	lo, hi := int64(0), int64(1)
	for step := int64(1); !fits(hi); step *= 2 {
		lo, hi = hi, min(hi+step, maxWait)
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
