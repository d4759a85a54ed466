package store

import (
	"math"
	"time"
)

// upTo is Fill for an operation of mode [UpTo]: Fill in mode IfFits, with the largest whole number
// of units that fits.
func (r *Record) upTo(op *Op, clock int64, maxSkew time.Duration) (st State, effect Effect, err error) {
	seen := *r
	seen.unskew(clock, maxSkew)
	before := seen.LevelAt(max(seen.Time, clock))
	try := op.least()
	if n := min(op.Amount, math.Floor(op.Capacity-(before+r.Held))); n > op.Least {
		try.Amount = n
		if before+r.Held+n > op.Capacity { // rounding has raised the difference to a whole number
			try.Amount--
		}
	}
	if effect, err = r.FillTo(&st, &try, clock, maxSkew); st.Accepted {
		st.Taken = try.Amount
	}
	return st, effect, err
}

// least returns the operation that puts in the smallest amount of an operation of mode UpTo, in
// mode IfFits.
func (o *Op) least() Op {
	least := *o
	least.Mode, least.Amount, least.Least = IfFits, o.Least, 0
	return least
}

// refusable reports whether the operation goes in only if it fits, or asks whether it does.
func (o *Op) refusable() bool { return o.Mode == IfFits || o.Mode == Ask || o.Mode == UpTo }

// needs returns the units that must fit.
func (o *Op) needs() float64 {
	if o.Mode == UpTo {
		return o.Least
	}
	return o.Amount + o.Hold
}
