package spend

import (
	"math"
	"math/bits"
	"slices"
)

// Crossing is a share of a limit that a decision has crossed; see [Rule.Thresholds]. Usage has the
// figures of the rule after the decision.
type Crossing struct {
	Usage
	Share int `json:"share"` // in percent
}

// Thresholds returns a rule whose decisions tell that an account has used or held shares of its
// limit, in percent: at most 10 numbers from 1 to 100. [Decision.Crossed] names each share that the
// account had not reached before the decision and has reached after it. So a share is told again
// after the account had used and held less: in a new period, after a refund, and when entries have
// left the window.
//
// The limit is the account's own if it has one. A limit that was lowered makes the used share
// larger: [Budgets.SetLimits] tells it, and where the raise of a limit has ended, the next
// decision tells it. The first decision of a rule that is new to an account, or that got its
// thresholds, tells all shares that the account has reached. With [Rule.Per], a decision tells the
// shares of its own value alone. PerTransaction cannot have thresholds. Of several calls, the last
// one counts.
func (r Rule) Thresholds(percent ...int) Rule {
	r.thresholds = slices.Compact(slices.Sorted(slices.Values(percent)))
	return r
}

// mostThresholds is the largest number of thresholds of a rule.
const mostThresholds = 10

// share returns the used and held part of a limit in percent, rounded down. For a rule with Per, u
// is a tally that at has made.
func (u *tally) share(limit, now int64) int64 {
	used := u.used
	if u.rule.kind == leaky {
		used = u.level(now)
	}
	if limit <= 0 {
		return 0
	}
	high, low := bits.Mul64(uint64(max(0, used))+uint64(max(0, u.held)), 100)
	if high >= uint64(limit) {
		return math.MaxInt64
	}
	share, _ := bits.Div64(high, low, uint64(limit))
	return int64(min(share, math.MaxInt64))
}

// note notes the shares of the accounts before the decision, under the limits of the last decision.
func (t *attempt) note() {
	for _, a := range t.accounts {
		for _, u := range a.tallies {
			t.shares = append(t.shares, u.of(t.tags).share(u.limit, a.time))
		}
	}
}

// cross adds the shares to out that its decision tells. out has the figures of the rules.
func (t *attempt) cross(out *Decision) {
	figures, before := out.Remaining, t.shares
	for _, a := range t.accounts {
		for _, u := range a.tallies {
			was := before[0]
			before = before[1:]
			switch {
			case len(u.rule.thresholds) == 0:
				u.limit = 0
			case u.amounts.now > 0:
				u.limit = u.amounts.now
			}
			if u.rule.each && t.upkeeps() {
				continue // the request has no value
			}
			is := u.of(t.tags).share(u.amounts.now, a.time)
			for _, p := range u.rule.thresholds {
				if was < int64(p) && int64(p) <= is {
					out.Crossed = append(out.Crossed, Crossing{figures[0], p})
				}
			}
			figures = figures[1:]
		}
	}
}
