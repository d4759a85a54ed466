package spend

import (
	"math"
	"math/bits"
	"slices"
	"strings"
)

// Crossing is a share of a limit that a decision has crossed; see [Rule.Thresholds]. Usage has the
// figures of the rule after the decision.
type Crossing struct {
	Usage
	Share int `json:"share"` // in percent
}

// Thresholds returns a rule whose decisions tell that an account has used or held shares of its
// limit, in percent: at most 10 numbers from 1 to 100. [Decision.Crossed] names each share once:
//
//   - In a period of a [Calendar] or [CountPer] rule, a share is told once, also if a refund or a void
//     makes room and the account crosses the share again.
//   - In a [Lifetime] rule, a share is told once.
//   - In a [Rolling], [Count] or [Leaky] rule, a share is told once a rise. It is told again after the
//     account had used and held less.
//
// The first decision of any kind that finds a share reached tells it. So the next decision tells the
// shares that an account has reached when a rule gets thresholds, when a limit was lowered, or when
// a process without the rule has decided. After a share, no lower one is told. The limit is the
// account's own if it has one. With [Rule.Per], each value has shares of its own; if more than 1,000
// values have told some, the account forgets those of values that have nothing used and held.
// PerTransaction cannot have thresholds. Of several calls, the last one counts.
func (r Rule) Thresholds(percent ...int) Rule {
	r.thresholds = slices.Compact(slices.Sorted(slices.Values(percent)))
	return r
}

// mostThresholds is the largest number of thresholds of a rule.
const mostThresholds = 10

// told is the highest share that decisions have told.
type told struct {
	value string // of a rule with Per
	share int64
}

func (u *tally) findTold(value string) (int, bool) {
	return slices.BinarySearchFunc(u.told, value, func(t told, value string) int { return strings.Compare(t.value, value) })
}

// arm lets decisions tell shares again. The last decision with the rule was at before.
func (u *tally) arm(before, now int64) {
	switch {
	case len(u.told) == 0 || u.rule.kind == lifetime:
	case !u.rule.periodic():
		for i := range u.told {
			t := &u.told[i]
			t.share = min(t.share, u.at(t.value).share(now))
		}
		u.told = slices.DeleteFunc(u.told, func(t told) bool { return t.share == 0 })
	case u.edgeAt(before) < u.edgeAt(now):
		u.told = nil
	}
}

// share returns the used and held part of the limit in percent, rounded down. For a rule with Per, u
// is a tally that at has made.
func (u *tally) share(now int64) int64 {
	used := u.used
	if u.rule.kind == leaky {
		used = u.level(now)
	}
	if u.amounts.now <= 0 {
		return 0
	}
	limit := uint64(u.amounts.now)
	high, low := bits.Mul64(uint64(max(0, used))+uint64(max(0, u.held)), 100)
	if high >= limit {
		return math.MaxInt64
	}
	share, _ := bits.Div64(high, low, limit)
	return int64(min(share, math.MaxInt64))
}

// cross adds the shares to out that its decision tells. out has the figures of the rules.
func (t *attempt) cross(out *Decision) {
	figures := out.Remaining
	for _, a := range t.accounts {
		for _, u := range a.tallies {
			if u.rule.each && t.upkeeps() {
				continue // the request has no value
			}
			for _, share := range u.cross(figures[0].Value, a.time) {
				out.Crossed = append(out.Crossed, Crossing{figures[0], share})
			}
			figures = figures[1:]
		}
	}
}

// cross returns the shares that the rule has reached and that no decision has told, and notes them.
func (u *tally) cross(value string, now int64) []int {
	if len(u.rule.thresholds) == 0 {
		return nil
	}
	before := int64(0)
	i, found := u.findTold(value)
	if found {
		before = u.told[i].share
	}
	share := u.at(value).share(now)
	crossed := slices.DeleteFunc(slices.Clone(u.rule.thresholds), func(p int) bool { return int64(p) <= before || int64(p) > share })
	if len(crossed) == 0 {
		return nil
	}
	if !found {
		if len(u.told) >= mostValues {
			u.told = slices.DeleteFunc(u.told, func(t told) bool { return u.at(t.value).zero() })
			i, _ = u.findTold(value)
		}
		u.told = slices.Insert(u.told, i, told{value: value})
	}
	u.told[i].share = int64(crossed[len(crossed)-1])
	return crossed
}

func (e encoder) told(list []told) {
	e.Int(int64(len(list)))
	for _, t := range list {
		e.String(t.value)
		e.Int(t.share)
	}
}

func (d decoder) told() (list []told) {
	for range d.Count() {
		list = append(list, told{d.String(), d.Int()})
	}
	return list
}
