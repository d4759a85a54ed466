package postgres

import (
	"github.com/brimgo/brim/internal/pgrun"
	"github.com/brimgo/brim/store"
)

// answerTries answers the TryFillups of one key, in ascending order of amount: the longest
// prefix that fits has gone in. It returns the requests to ask again.
func answerTries(s *Store, g group, r row) (open []*fillRequest) {
	if !r.written {
		return answerUnwritten(s, g, r)
	}
	op := g.op()
	r.rec.Limit = op.Limit
	accepted := store.State{
		Level: r.rec.Level, Held: r.rec.Held, Capacity: op.Capacity, LeakRate: op.LeakRate,
		At:   pgrun.Timestamp(max(r.rec.Time, r.clock)).UTC(),
		Full: r.rec.Level+r.rec.Held >= op.Capacity, Accepted: true,
	}
	if len(g.reqs) == 1 { // no other amount went in
		g.reqs[0].Out = accepted
		return nil
	}
	sum := 0.0
	for _, req := range g.reqs {
		sum += req.In.Amount
		if r.pre+r.rec.Held+sum <= op.Capacity { // the test of the statement, on the same doubles
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

// clamp puts n units on top of x, up to the rim: the rule of Fillup.
func clamp(x, held, n, capacity float64) float64 {
	switch {
	case n == 0:
		return x
	case x+held+n <= capacity:
		return x + n
	}
	return max(x, capacity-held)
}

// answerPuts answers the amounts that went in whether they fit or not, in the order of kinds.
// It returns the requests to ask again.
func answerPuts(s *Store, g group, r row) []*fillRequest {
	if !r.written {
		return answerUnwritten(s, g, r)
	}
	op := g.op()
	r.rec.Limit = op.Limit
	held := r.rec.Held
	now := pgrun.Timestamp(max(r.rec.Time, r.clock)).UTC()
	drained, added, clamped := 0.0, 0.0, 0.0
	level := r.pre
	for _, req := range g.reqs {
		n := req.In.Amount
		before := level
		st := store.State{Held: held, Capacity: op.Capacity, LeakRate: op.LeakRate, At: now, Accepted: true}
		switch kindOf(&req.In) {
		case drains:
			drained -= n
			level = max(0, r.pre-drained)
		case adds:
			added += n
			level = max(0, r.pre-drained) + added
			st.Full = level+held >= op.Capacity
		default:
			x := max(0, r.pre-drained) + added
			clamped += n
			level = clamp(x, held, clamped, op.Capacity)
			if x+held+clamped <= op.Capacity {
				st.Full = level+held >= op.Capacity
			} else {
				st = r.rec.Refusal(&req.In, r.clock, s.maxSkew)
				st.Spilled, st.Full = max(0, before+n-level), true
			}
		}
		if n < 0 {
			st.Drained = before - level
		}
		st.Level = level
		req.Out = st
	}
	return nil
}

// answerUnwritten answers requests from the snapshot of a statement that wrote nothing. If the
// snapshot would have accepted one of them, answerUnwritten returns all of them: the locked row has
// refused that one, or another statement has to decide.
func answerUnwritten(s *Store, g group, r row) []*fillRequest {
	for _, req := range g.reqs {
		rec := r.rec
		st, effect, err := rec.Fill(&req.In, r.clock, s.maxSkew)
		if err != nil || effect != 0 {
			return g.reqs
		}
		req.Out = st
	}
	return nil
}
