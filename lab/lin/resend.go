package lin

import "context"

// resend sends each request of unknown outcome to a ledger again, when nothing can decide the first
// one any more. A ledger answers as it did the first time, if there was a first time: resolved uses
// these answers.
func (h *played) resend() error {
	sent := make(map[int]bool)
	for _, c := range h.rec.all() {
		q, ok := c.in.(spendRequest)
		if !ok || c.out != nil || q.Verb == setRules { // sent again, it does not tell
			continue
		}
		if err := h.date(c, q); err != nil {
			return err
		}
		if sent[q.Number] {
			continue
		}
		sent[q.Number] = true
		if err := h.insist(step{in: q}); err != nil {
			return err
		}
	}
	return nil
}

// date notes the times at which a request of unknown outcome made entries, where the server's clock
// decides. The waits of later answers depend on them.
func (h *played) date(c *call, q spendRequest) error {
	w, ok := h.world.(*remote)
	if !ok || w.clk != nil {
		return nil
	}
	return eventually("the ledger tells its entries", func() (_ bool, err error) {
		c.readings, err = w.spends.times(context.Background(), q)
		return true, err
	})
}

// resolved returns a history that the model of a ledger allows if and only if it allows calls, with
// fewer calls of unknown outcome. The answer to a later call with the same request tells whether
// the request was decided, and how.
func resolved(calls []*call) []*call {
	requests, moved := make(map[int]*attempts), make(map[int]bool)
	for _, c := range calls {
		q, ok := c.in.(spendRequest)
		if !ok || q.Number == 0 {
			continue
		}
		a := requests[q.Number]
		if a == nil {
			a = new(attempts)
			requests[q.Number] = a
		}
		a.add(c)
		moved[q.Number] = moved[q.Number] || q.moves()
	}
	var all []*call
	for _, c := range calls {
		q, _ := c.in.(spendRequest) // a cancellation whose place was taken may be decided twice
		if a := requests[q.Number]; a != nil && c.out == nil && !moved[-q.Number] {
			c = a.resolve(c)
		}
		if c != nil {
			all = append(all, c)
		}
	}
	return all
}

// attempts are the calls with one request.
type attempts struct {
	unknown int
	over    int64 // when none of unknown outcome can take effect any more
	decided bool  // by a call with an answer
	last    *call // with an answer
}

func (a *attempts) add(c *call) {
	if c.out == nil {
		a.unknown++
		a.over = max(a.over, c.over)
		return
	}
	answer, _ := c.out.(spendAnswer)
	a.decided = a.decided || !answer.Replayed && answer.Mistake == ""
	if a.last == nil || c.began > a.last.began {
		a.last = c
	}
}

// resolve returns the call in the place of one of unknown outcome, or nil if that had no effect.
func (a *attempts) resolve(c *call) *call {
	if a.decided {
		return nil
	}
	if a.last == nil || a.last.began < a.over {
		return c
	}
	answer, _ := a.last.out.(spendAnswer)
	switch {
	case !answer.Replayed:
		return nil
	case a.unknown > 1: // nobody knows which of them was the first
		return c
	case answer.Canceled && !answer.Approved: // nobody knows the first answer
		return c
	}
	answer.Replayed = false
	known := *c
	known.out, known.learned = answer, true
	return &known
}
