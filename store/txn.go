package store

import "time"

// Transact decides a transaction at clock on the records of its operations: recs[i] is that of txn[i], and operations on one
// key share one record. All of them go in, or none does. The backend stores the records whose element of effects holds
// [Write].
//
// A refused transaction leaves the records as they were, but for the blocks of the operations that refused it and for times
// that were not believed; see [Record.Fill].
func Transact(txn Txn, recs []*Record, clock int64, maxSkew time.Duration) (res Result, effects []Effect) {
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
	for i, r := range recs {
		effects[i] = r.unskew(clock, maxSkew)
		if op := &txn[i]; op.BlockFor != 0 && op.Mode == IfFits && !res.States[i].Accepted {
			r.block(op, max(r.Time, clock))
			effects[i] |= Write
		}
	}
	for i, r := range recs {
		refusal := res.States[i].RetryAfter
		if txn[i].Mode != IfFits {
			refusal = 0
		}
		res.States[i] = r.State(txn[i].Limit, clock, maxSkew)
		res.States[i].RetryAfter = refusal
	}
	return res, effects
}
