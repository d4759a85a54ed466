package postgres

import (
	"github.com/brimgo/brim/internal/pgrun"
	"github.com/brimgo/brim/store"
)

// answerTries answers the TryFillups of one key, in ascending order of amount: the longest
// prefix that fits has gone in. It returns the requests to decide under a lock.
func answerTries(s *Store, g group, r row) (open []*fillRequest) {
	if !r.written {
		return answerUnwritten(s, g, r)
	}
	op := g.op()
	r.rec.Limit = op.Limit
	accepted := store.State{
		Level: r.rec.Level, Held: r.rec.Held,
		At:   pgrun.Timestamp(max(r.rec.Time, r.clock)).UTC(),
		Full: r.rec.Level+r.rec.Held >= op.Capacity, Accepted: true,
	}
	accepted.SetLimit(op.Limit)
	if len(g.reqs) == 1 { // no other amount went in
		g.reqs[0].Out = accepted
		return nil
	}
	sum := 0.0
	for _, req := range g.reqs {
		sum += req.In.Amount
		if r.pre+r.rec.Held+sum <= g.rim() { // the test of the statement, on the same doubles
			req.Out = accepted
			req.Out.Level, req.Out.Full = r.pre+sum, r.pre+sum+r.rec.Held >= op.Capacity
			continue
		}
		// A sum rounds in another way than one amount after the other: an amount that the sum
		// refused may fit by itself.
		if req.Out = r.rec.Refusal(&req.In, r.clock, s.maxSkew); req.Out.RetryAfter == 0 {
			open = append(open, req)
		}
	}
	return open
}

// answerUnwritten answers requests from the row as it was read after the UPDATE had left it alone,
// also because the row is damaged. It returns all of them if one of them changes the row: it fits
// by now, or the smallest amounts of the group do, or its refusal changes the rate of the bucket.
// Package store then decides under a lock.
func answerUnwritten(s *Store, g group, r row) []*fillRequest {
	for _, req := range g.reqs {
		if req.Err = r.damage; r.damage != nil {
			continue
		}
		rec := r.rec
		st, effect, err := rec.Fill(&req.In, r.clock, s.maxSkew)
		if err != nil || effect != 0 {
			return g.reqs
		}
		req.Out = st
	}
	return nil
}
