package lin

import (
	"slices"
	"time"

	"github.com/anishathalye/porcupine"
)

// narrow shortens the intervals of decisions. The times of decisions about an account do not fall
// unless it is mended. So the earlier of two decisions is over before the later one is, and the
// later one begins after the earlier one has begun. A search that passes over the decision of a
// slow call would find that late.
func narrow(calls []*call, ops []porcupine.Operation) {
	for i, c := range calls {
		began, over := c.began, c.over
		for _, d := range calls {
			switch {
			case c.over < d.began || d.over < c.began: // their order is known
			case precedes(c, d, calls):
				over = min(over, d.over)
			case precedes(d, c, calls):
				began = max(began, d.began)
			}
		}
		if began < over { // else the times are false, and the model will tell
			ops[i].Call, ops[i].Return = began, over
		}
	}
}

// precedes reports whether the times of two decisions tell that a comes first.
func precedes(a, b *call, calls []*call) bool {
	before, after := decidedAt(a), decidedAt(b)
	if before.IsZero() || !before.Before(after) {
		return false
	}
	return slices.ContainsFunc(accountsOf(a), func(account string) bool {
		return slices.Contains(accountsOf(b), account) && !slices.ContainsFunc(calls, func(m *call) bool {
			q, _ := m.in.(spendRequest)
			at := decidedAt(m)
			return q.Verb == mend && b.began < m.over && m.began < a.over && !at.After(before)
		})
	})
}

// decidedAt returns the time of a decision, and 0 for any other call.
func decidedAt(c *call) time.Time {
	a, _ := c.out.(spendAnswer)
	if a.Replayed {
		return time.Time{}
	}
	return a.At
}

// accountsOf returns the accounts of a decision.
func accountsOf(c *call) (all []string) {
	a, _ := c.out.(spendAnswer)
	for _, u := range a.Remaining {
		all = append(all, u.Account.Name)
	}
	return all
}
