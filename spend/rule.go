package spend

import (
	"cmp"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/brimgo/brim/internal/calendar"
	"github.com/brimgo/brim/spend/internal/figures"
	"github.com/brimgo/brim/spend/internal/money"
)

// Rule is one limit of a [Budget]. [Leaky], [Rolling], [Calendar], [PerTransaction], [Lifetime],
// [Count] and [CountPer] make a Rule. [Rule.Matching], [Rule.NotMatching], [Rule.MatchingAtLeast]
// and [Rule.MatchingAtMost] narrow it, and [Rule.Per] makes it a limit for each value of a tag.
// [Rule.CountsDeclines] and [Rule.CountsVoids] let a Count rule count more, [Rule.CountsCredits]
// lets credits make room in a rule, and [Rule.Thresholds] tells shares of it. A Rule is a value and
// never changes. [New] reports mistakes in a Rule.
//
// The name of a rule is 1 to 64 bytes of UTF-8, unique in its budget, and does not begin with
// "frozen: " or "shadow: ". Amounts are positive, but for PerTransaction, in the currency of the
// budget. Windows and periods last from a microsecond to 100 years.
type Rule struct{ spec figures.Rule }

// Period is the length of a [Calendar] rule's periods.
type Period uint8

// The periods of a [Calendar] rule.
const (
	Day Period = iota + 1
	Week
	Month
	Year
)

// Leaky is a leaky bucket of that amount, which drains in period once it is full. Room returns
// evenly, so nobody waits for a boundary. In the worst period about twice the amount goes through:
// all of it at once, and the same again as the bucket leaks. Held money does not leak; it begins to
// leak when it is captured. The amount is at most 2^53 minor units. The bucket counts up to as
// much: a Record or a forced Capture that would make a larger sum is [ErrAmount]. The level is a
// double: at the microsecond at which a whole unit has leaked, it may still count. A rule that is
// new to an account does not see the holds of before, nor their captures, nor refunds of earlier
// spends.
//
// If the amount or the period changes, the time until the next decision on an account leaks at the
// old rate. So a rate that is raised and lowered again makes no room.
func Leaky(name string, amount Money, period time.Duration) Rule {
	return Rule{figures.Rule{Name: name, Kind: figures.Leaky, Limit: money.Money(amount), Length: period}}
}

// Rolling never allows more than amount in any window (now - window, now]. It is
// exact to the minor unit and the microsecond.
func Rolling(name string, amount Money, window time.Duration) Rule {
	return Rule{figures.Rule{Name: name, Kind: figures.Rolling, Limit: money.Money(amount), Length: window}}
}

// Calendar allows amount in each day, week, month or year of zone. A week starts on Monday, a month
// on its first day, and every period at midnight, unless [Rule.WeekStarting], [Rule.MonthStarting]
// and [Rule.DayStarting] say otherwise. Around a boundary up to twice the amount goes through in a
// short time.
//
// A period starts at the first instant after which local time never returns to an earlier date, or
// to an earlier time of its first day. If clocks jump over midnight, the period starts after the
// jump. If clocks repeat the hour before midnight, the period starts at the second midnight.
func Calendar(name string, amount Money, period Period, zone *time.Location) Rule {
	return Rule{figures.Rule{
		Name: name, Kind: figures.Calendar, Limit: money.Money(amount),
		Period: calendar.Unit(period), Zone: zone, Anchor: calendar.Midnight,
	}}
}

// PerTransaction allows no spend of more than amount. The total of a hold includes its increases,
// and Decrease does not lower it; money that was forced belongs to it. With an amount of 0 and a
// filter, the rule blocks all spends that match, an Authorize of 0 among them.
func PerTransaction(name string, amount Money) Rule {
	return Rule{figures.Rule{Name: name, Kind: figures.PerTransaction, Limit: money.Money(amount)}}
}

// Lifetime allows amount in all. It never resets.
func Lifetime(name string, amount Money) Rule {
	return Rule{figures.Rule{Name: name, Kind: figures.Lifetime, Limit: money.Money(amount)}}
}

// Count allows n spends in any window (now - window, now]. A spend does not
// count if it was canceled, or if it was voided or expired before anything was captured, unless the
// rule has [Rule.CountsVoids]. A refunded spend counts, and so does a hold that its expiry spends.
func Count(name string, n int64, window time.Duration) Rule {
	return Rule{figures.Rule{Name: name, Kind: figures.Count, Limit: money.Money{Minor: n}, Length: window}}
}

// CountPer allows n spends in each day, week, month or year of zone. Periods are those of
// [Calendar], and spends count as in [Count].
func CountPer(name string, n int64, period Period, zone *time.Location) Rule {
	return Rule{figures.Rule{
		Name: name, Kind: figures.CountPer, Limit: money.Money{Minor: n},
		Period: calendar.Unit(period), Zone: zone, Anchor: calendar.Midnight,
	}}
}

// CountsDeclines returns a [Count] or [CountPer] rule that also counts each declined Charge,
// Authorize and UpTo, whichever rule declines it, or a frozen account. It limits attempts: somebody
// who tests the numbers of cards is declined mostly. The declines of the rule count, too, so room
// comes back only to those who wait: the figures of a Decline include the decline itself. A retry
// is no attempt, and neither is an increase.
func (r Rule) CountsDeclines() Rule {
	r.spec.Declines = true
	return r
}

// CountsVoids returns a [Count] or [CountPer] rule that counts a spend for good from its
// authorization on, also if it is voided, expires, or is canceled. A forced Capture afterwards
// counts it no second time.
func (r Rule) CountsVoids() Rule {
	r.spec.Voids = true
	return r
}

// Matching returns a rule that applies only to spends whose tag has one of the
// values. After several calls a spend must match all of them; the ledger keeps one call
// for each tag. The rule neither limits nor counts other spends. Tags and values have the
// bounds of [Request.Tags].
func (r Rule) Matching(tag string, values ...string) Rule { return r.filtered(tag, values, false) }

// NotMatching returns a rule that does not apply to spends whose tag has one of the values. It
// applies to spends without the tag. After several calls of Matching and NotMatching, a spend must
// pass all of them.
func (r Rule) NotMatching(tag string, values ...string) Rule { return r.filtered(tag, values, true) }

func (r Rule) filtered(tag string, values []string, not bool) Rule {
	values = slices.Clone(values)
	sort.Strings(values)
	r.spec.Filter = append(slices.Clone(r.spec.Filter), figures.Match{Tag: tag, Values: slices.Compact(values), Not: not})
	slices.SortStableFunc(r.spec.Filter, func(a, b figures.Match) int {
		return cmp.Or(strings.Compare(a.Tag, b.Tag), compareBools(a.Not, b.Not))
	})
	return r
}

// MatchingAtLeast returns a rule that applies only to spends of at least amount, which is positive.
// The amount of the request that began the spend decides: that of Charge, Authorize or Record, or
// the part of it that [Budgets.UpTo] approved. An increase belongs to its spend, and no capture,
// decrease or refund moves a spend into a rule or out of it. A credit matches by its own amount.
// The rule neither limits nor counts other spends.
func (r Rule) MatchingAtLeast(amount Money) Rule { return r.bounded(amount, false) }

// MatchingAtMost returns a rule that applies only to spends of at most amount. It is the
// counterpart of [Rule.MatchingAtLeast], and a rule may have both.
func (r Rule) MatchingAtMost(amount Money) Rule { return r.bounded(amount, true) }

func (r Rule) bounded(amount Money, most bool) Rule {
	r.spec.Bounds = append(slices.Clone(r.spec.Bounds), figures.Bound{Amount: money.Money(amount), Most: most})
	slices.SortStableFunc(r.spec.Bounds, func(a, b figures.Bound) int { return compareBools(a.Most, b.Most) })
	return r
}

// compareBools orders false before true.
func compareBools(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

// AtMost returns a rule that lets an account have a limit of its own of up to amount; see
// [Budgets.SetLimits]. Without AtMost, an account's own limit is at most the amount of the rule.
func (r Rule) AtMost(amount Money) Rule {
	r.spec.AtMost = money.Money(amount)
	return r
}

// WeekStarting returns a [Calendar] or [CountPer] rule whose weeks start on day. It has no
// effect on other periods than [Week].
func (r Rule) WeekStarting(day time.Weekday) Rule {
	r.spec.Anchor.Week = day
	return r
}

// MonthStarting returns a [Calendar] or [CountPer] rule whose months start on a day, from 1 to 31.
// A month that has no such day starts on its last. It has no effect on other periods than [Month].
func (r Rule) MonthStarting(day int) Rule {
	r.spec.Anchor.Day = day
	return r
}

// DayStarting returns a [Calendar] or [CountPer] rule whose periods, of any length, start at that
// time of their first day, as clocks show it: 4 * time.Hour is 04:00. It must be less than 24
// hours.
func (r Rule) DayStarting(clock time.Duration) Rule {
	r.spec.Anchor.Clock = clock
	return r
}

// Shadow returns a rule that refuses nothing. It counts as it would otherwise, and
// [Decision.Shadow] and the entry of a request name it where it would have refused. So a rule can
// be tried on live traffic. If a later revision has the rule without Shadow, its figures go on. An
// amount or a sum that the rule cannot count is [ErrAmount] all the same.
func (r Rule) Shadow() Rule {
	r.spec.Shadow = true
	return r
}

// Per returns a rule whose limit holds for each value of a tag, such as a merchant: 100.00 a day at
// each merchant. A request without the tag counts under the empty value. An account's own limit of
// the rule holds for each value, too. Of several calls, the last one counts.
//
// A decision shows the figures of its own value, in [Usage.Value]; [Budgets.Remaining] shows all
// values with used or held money. An account keeps a figure for each value in the window of the
// rule, and for each value ever in a [Lifetime] rule; a decision reads and writes all of them. So
// an account has at most 1,000 of them. Then the rule declines every further value. Money that has
// moved counts all the same, by Record, Forced and Force: all further values have one figure
// together, which [Usage.Others] marks, until it is zero again. [Leaky] and [PerTransaction] have
// no Per.
func (r Rule) Per(tag string) Rule {
	r.spec.Each, r.spec.Per = true, tag
	return r
}

// CountsCredits returns a rule in which a [Budgets.Credit] makes room. Without it, a credit changes
// nothing in the rule. [Leaky], [Calendar] and [Lifetime] rules can count credits. A [Rolling] rule
// cannot: units leave its window one by one, and a credit would also pay for units that leave soon.
//
// With and without CountsCredits, a rule keeps the credits that it has counted. If a rule gets or
// loses CountsCredits, only later credits are affected. A rule that is new to an account counts no
// earlier credit either. A rule is new if its window or a filter has changed, or if the account has
// dropped it: at a decision by a revision without the rule; see [Budgets.SetPlan] for plans.
//
// A credit may pay for no more than the rule has used, so a refund lowers the used sum to zero at
// most. If a clock was set back, an account may still hold a spend that has expired, and spent its
// money, in another account of it. A refund meanwhile makes no room for that spend in this rule.
func (r Rule) CountsCredits() Rule {
	r.spec.Credits = true
	return r
}

// Thresholds returns a rule whose decisions tell that an account has used or held shares of its
// limit, in percent: at most 10 numbers from 1 to 100. [Decision.Crossed] names each share that the
// account had not reached before the decision, and has reached after it. The shares of before are
// those of the limit, if it was above 0, of the last decision that looked at the rule, or of the
// larger limit that was in force until now. SetLimits does not look at rules with [Rule.Per]. A
// limit of 0 has no shares. So a share is told again after the account had used and held less: in a
// new period, after a refund, and when entries have left the window.
//
// The limit is the account's own if it has one. A limit that was lowered makes the used share
// larger: [Budgets.SetLimits] tells it, and where the raise of a limit has ended, the next decision
// tells it. The first decision of a rule that is new to an account, or that got its thresholds,
// tells all shares that the account has reached. With [Rule.Per], a decision tells the shares of
// its own value alone: after a lower limit, those of other values are not told. PerTransaction
// cannot have thresholds. Of several calls, the last one counts.
func (r Rule) Thresholds(percent ...int) Rule {
	r.spec.Thresholds = slices.Compact(slices.Sorted(slices.Values(percent)))
	return r
}
