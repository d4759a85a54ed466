package spend

import (
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/brimgo/brim/internal/strictjson"
	"github.com/brimgo/brim/store"
)

// Rule is one limit of a [Budget]. [Leaky], [Rolling], [Calendar], [PerTransaction], [Lifetime],
// [Count] and [CountPer] make a Rule. [Rule.Matching], [Rule.NotMatching], [Rule.MatchingAtLeast]
// and [Rule.MatchingAtMost] narrow it, and [Rule.Per] makes it a limit for each value of a tag.
// [Rule.CountsDeclines] and [Rule.CountsVoids] let a Count rule count more, [Rule.CountsCredits]
// lets credits make room in a rule, and [Rule.Thresholds] tells shares of it. A Rule is a value and
// never changes. [New] reports mistakes in a Rule.
//
// The name of a rule is 1 to 64 bytes of UTF-8, unique in its budget. Amounts are positive, but for
// PerTransaction, in the currency of the budget. Windows and periods last from a microsecond to 100
// years.
type Rule struct {
	name    string
	kind    kind
	limit   Money // without a currency for Count
	length  time.Duration
	period  Period
	zone    *time.Location
	anchor  anchor
	filter  []match
	bounds  []bound
	each    bool   // the limit holds for each value of a tag
	per     string // the tag
	atMost  Money  // of an account's own limit; zero means limit
	credits bool   // credits make room

	declines, voids bool // a Count rule counts them, too

	thresholds []int // in percent, ascending
}

type kind uint8

const (
	leaky kind = iota + 1
	rolling
	calendar
	perTransaction
	lifetime
	count
	countPer
)

// kinds describe the kinds of rules. Fields are those of the JSON form.
var kinds = [...]struct {
	name    string   // in messages
	limit   string   // the field with the limit, which names the kind; a period makes a calendar count of a count
	needs   []string // further fields that a rule has
	anchors bool     // a rule may have anchorFields
	changes []string // further fields that a rule may have, among changeFields
}{
	leaky:          {"leaky", "leaky", []string{"drains_in"}, false, []string{"counts_credits", "thresholds"}},
	rolling:        {"rolling", "rolling", []string{"window"}, false, []string{"per", "thresholds"}},
	calendar:       {"calendar", "calendar", []string{"period", "zone"}, true, []string{"counts_credits", "per", "thresholds"}},
	perTransaction: {"per transaction", "per_transaction", nil, false, nil},
	lifetime:       {"lifetime", "lifetime", nil, false, []string{"counts_credits", "per", "thresholds"}},
	count:          {"count", "count", []string{"window"}, true, []string{"counts_declines", "counts_voids", "per", "thresholds"}},
	countPer:       {"calendar count", "count", []string{"period", "zone"}, true, []string{"counts_declines", "counts_voids", "per", "thresholds"}},
}

var (
	commonFields = []string{"name", "where", "where_not", "where_amount", "at_most"}
	anchorFields = []string{"week_starts", "month_starts", "day_starts"} // without effect in a count
	changeFields = []string{"counts_credits", "counts_declines", "counts_voids", "per", "thresholds"}
)

// takes reports whether a rule of the kind may have the field.
func (k kind) takes(field string) bool {
	d := &kinds[k]
	return field == d.limit || slices.Contains(commonFields, field) || slices.Contains(d.needs, field) ||
		d.anchors && slices.Contains(anchorFields, field) || slices.Contains(d.changes, field)
}

// match requires that a tag has one of the values, or that it has none of them.
type match struct {
	tag    string
	values []string // sorted
	not    bool
}

// Leaky is a leaky bucket of that amount, which drains in period once it is
// full. Room returns evenly, so nobody waits for a boundary. In the worst period
// about twice the amount goes through: all of it at once, and the same again as
// the bucket leaks. Held money does not leak; it begins to leak when it is
// captured. The amount is at most 2^53 minor units. The bucket counts up to as
// much: a Record or a forced Capture that would make a larger sum is [ErrAmount].
//
// If the amount or the period changes, the time until the next decision on an account leaks at the
// old rate. So a rate that is raised and lowered again makes no room.
func Leaky(name string, amount Money, period time.Duration) Rule {
	return Rule{name: name, kind: leaky, limit: amount, length: period}
}

// Rolling never allows more than amount in any window (now - window, now]. It is
// exact to the minor unit and the microsecond.
func Rolling(name string, amount Money, window time.Duration) Rule {
	return Rule{name: name, kind: rolling, limit: amount, length: window}
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
	return Rule{name: name, kind: calendar, limit: amount, period: period, zone: zone, anchor: midnight}
}

// PerTransaction allows no spend of more than amount. The total of a hold includes its increases,
// and Decrease does not lower it. With an amount of 0 and a filter, the rule blocks all spends that
// match.
func PerTransaction(name string, amount Money) Rule {
	return Rule{name: name, kind: perTransaction, limit: amount}
}

// Lifetime allows amount in all. It never resets.
func Lifetime(name string, amount Money) Rule { return Rule{name: name, kind: lifetime, limit: amount} }

// Count allows n spends in any window (now - window, now]. A spend does not
// count if it was voided, or expired, before anything was captured, unless the rule has
// [Rule.CountsVoids]. A refunded spend counts.
func Count(name string, n int64, window time.Duration) Rule {
	return Rule{name: name, kind: count, limit: Money{Minor: n}, length: window}
}

// CountPer allows n spends in each day, week, month or year of zone. Periods are those of
// [Calendar], and spends count as in [Count].
func CountPer(name string, n int64, period Period, zone *time.Location) Rule {
	return Rule{name: name, kind: countPer, limit: Money{Minor: n}, period: period, zone: zone, anchor: midnight}
}

// CountsDeclines returns a [Count] or [CountPer] rule that also counts each declined Charge,
// Authorize and UpTo, whichever rule declines it, or a frozen account. It limits attempts: somebody
// who tests the numbers of cards is declined mostly. The declines of the rule count, too, so room
// comes back only to those who wait. A retry is no attempt, and neither is an increase.
func (r Rule) CountsDeclines() Rule {
	r.declines = true
	return r
}

// CountsVoids returns a [Count] or [CountPer] rule that counts a spend for good from its
// authorization on, also if it is voided, expires, or is canceled.
func (r Rule) CountsVoids() Rule {
	r.voids = true
	return r
}

// bound requires that a spend begins with at least an amount, or with at most that amount.
type bound struct {
	amount Money
	most   bool
}

// Matching returns a rule that applies only to spends whose tag has one of the
// values. After several calls a spend must match all of them. The rule neither
// limits nor counts other spends. Tags and values have the bounds of [Request.Tags].
func (r Rule) Matching(tag string, values ...string) Rule { return r.filtered(tag, values, false) }

// NotMatching returns a rule that does not apply to spends whose tag has one of the values. It
// applies to spends without the tag. After several calls of Matching and NotMatching, a spend must
// pass all of them.
func (r Rule) NotMatching(tag string, values ...string) Rule { return r.filtered(tag, values, true) }

func (r Rule) filtered(tag string, values []string, not bool) Rule {
	values = slices.Clone(values)
	sort.Strings(values)
	r.filter = append(slices.Clone(r.filter), match{tag, slices.Compact(values), not})
	slices.SortStableFunc(r.filter, func(a, b match) int { return strings.Compare(a.tag, b.tag) })
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
	r.bounds = append(slices.Clone(r.bounds), bound{amount, most})
	return r
}

// AtMost returns a rule that lets an account have a limit of its own of up to amount; see
// [Budgets.SetLimits]. Without AtMost, an account's own limit is at most the amount of the rule.
func (r Rule) AtMost(amount Money) Rule {
	r.atMost = amount
	return r
}

// WeekStarting returns a [Calendar] or [CountPer] rule whose weeks start on day. It has no
// effect on other periods than [Week].
func (r Rule) WeekStarting(day time.Weekday) Rule {
	r.anchor.week = day
	return r
}

// MonthStarting returns a [Calendar] or [CountPer] rule whose months start on a day, from 1 to 31.
// A month that has no such day starts on its last. It has no effect on other periods than [Month].
func (r Rule) MonthStarting(day int) Rule {
	r.anchor.day = day
	return r
}

// DayStarting returns a [Calendar] or [CountPer] rule whose periods, of any length, start at that
// time of their first day, as clocks show it: 4 * time.Hour is 04:00. It must be less than 24
// hours.
func (r Rule) DayStarting(clock time.Duration) Rule {
	r.anchor.clock = clock
	return r
}

// matches reports whether the rule applies to a spend with these tags, which began with amount.
func (r *Rule) matches(tags map[string]string, amount int64) bool {
	for _, b := range r.bounds {
		if amount < b.amount.Minor && !b.most || amount > b.amount.Minor && b.most {
			return false
		}
	}
	for _, m := range r.filter {
		v, ok := tags[m.tag]
		_, found := slices.BinarySearch(m.values, v)
		if (ok && found) == m.not {
			return false
		}
	}
	return true
}

// maxWindow keeps the sums of times in range.
const maxWindow = 100 * 366 * 24 * time.Hour

// scale converts the amounts of the rule to the scale of the budget's currency.
func (r *Rule) scale(currency string) error {
	amounts := []*Money{&r.limit, &r.atMost}
	r.bounds = slices.Clone(r.bounds) // the caller's rule keeps its own
	for i := range r.bounds {
		amounts = append(amounts, &r.bounds[i].amount)
	}
	for _, m := range amounts {
		if m.Currency == currency || isoCode(m.Currency) != isoCode(currency) {
			continue // validate refuses another currency
		}
		scaled, err := m.In(currency)
		if err != nil {
			return fmt.Errorf("rule %.64q: %w", r.name, err)
		}
		*m = scaled
	}
	return nil
}

func (r *Rule) validate(currency string) error {
	if r.kind == 0 {
		return errors.New("a rule is empty; make it with Rolling, Calendar or another function of the package")
	}
	bad := func(field, format string, args ...any) error {
		return strictjson.At(fmt.Errorf("%s rule %.64q: "+format, append([]any{kinds[r.kind].name, r.name}, args...)...), field)
	}
	limit := kinds[r.kind].limit
	switch {
	case !validName(r.name):
		return bad("name", "its name must be 1 to 64 bytes of UTF-8 without control characters")
	case r.spends() && r.limit.Minor <= 0:
		return bad(limit, "its number of spends is %d; it must be positive", r.limit.Minor)
	case !r.spends() && r.limit.Currency != currency:
		return bad(limit, "its currency is %.8q and the budget's is %q: %w", r.limit.Currency, currency, ErrCurrency)
	case r.limit.Minor < 0 || r.limit.Minor == 0 && r.kind != perTransaction:
		return bad(limit, "its amount is %v; it must be positive: %w", r.limit, ErrAmount)
	case r.atMost != Money{} && (r.atMost.Minor < r.limit.Minor || r.atMost.Currency != r.limit.Currency):
		return bad("at_most", "an account's own limit is at most %v; that must be the rule's %v or more", r.atMost, r.limit)
	case r.credits && r.kind == rolling:
		return bad("counts_credits", "CountsCredits has no meaning there: units leave the window whether a credit has paid for them or not; "+
			"use Calendar, Lifetime or Leaky")
	case r.credits && !r.kind.takes("counts_credits"):
		return bad("counts_credits", "CountsCredits has no meaning there: a credit takes back no spend, and belongs to none")
	case r.declines && !r.kind.takes("counts_declines"):
		return bad("counts_declines", "CountsDeclines has a meaning only for Count and CountPer")
	case r.voids && !r.kind.takes("counts_voids"):
		return bad("counts_voids", "CountsVoids has a meaning only for Count and CountPer")
	case r.each && r.kind == leaky:
		return bad("per", "it has one bucket, and Per would need one for each value, with a history of its own; "+
			"use Rolling, or give each value an account and name it in Request.Also")
	case r.each && !r.kind.takes("per"):
		return bad("per", "Per has no meaning there: the rule judges each spend alone")
	case r.each && !validTag(r.per):
		return bad("per", "Per needs a tag: 1 to %d bytes of UTF-8 without control characters", maxTag)
	case len(r.thresholds) > 0 && !r.kind.takes("thresholds"):
		return bad("thresholds", "Thresholds have no meaning there: the rule judges each spend alone")
	case len(r.thresholds) > mostThresholds:
		return bad("thresholds", "it has %d thresholds; it may have %d", len(r.thresholds), mostThresholds)
	case r.kind == leaky && r.most() > store.MaxAmount:
		return bad(limit, "its amount is %v; a leaky bucket holds at most 2^53 minor units, which are %v: %w",
			Money{r.most(), currency}, Money{store.MaxAmount, currency}, ErrAmount)
	}
	switch r.kind {
	case leaky, rolling, count:
		if r.length < time.Microsecond || r.length > maxWindow {
			return bad(kinds[r.kind].needs[0], "its window or period is %v; it must be from a microsecond to 100 years", r.length)
		}
		if r.kind == leaky {
			for _, n := range [...]int64{r.limit.Minor, r.most()} {
				if err := r.bucket(n).Validate(); err != nil {
					return bad(limit, "%w", err)
				}
			}
		}
	case calendar, countPer:
		switch a := r.anchor; {
		case r.period < Day || r.period > Year || r.zone == nil:
			return bad("period", "it needs a period of Day, Week, Month or Year, and a *time.Location")
		case a.week < time.Sunday || a.week > time.Saturday:
			return bad("week_starts", "its weeks start on day %d; that must be a day of the week", a.week)
		case a.day < 1 || a.day > 31:
			return bad("month_starts", "its months start on day %d; that must be from 1 to 31", a.day)
		case a.clock < 0 || a.clock >= 24*time.Hour || a.clock%time.Microsecond != 0:
			return bad("day_starts", "its days start at %v; that must be a time of the day in whole microseconds", a.clock)
		}
	}
	for _, m := range r.filter {
		where := "where"
		if m.not {
			where = "where_not"
		}
		if m.tag == "" || len(m.values) == 0 {
			return strictjson.At(bad(m.tag, "a filter needs a tag and at least one value"), where)
		}
		for _, value := range m.values {
			if err := checkTags(map[string]string{m.tag: value}); err != nil {
				return strictjson.At(bad(m.tag, "a filter would match nothing: %w", err), where)
			}
		}
	}
	for _, p := range r.thresholds {
		if p < 1 || p > 100 {
			return bad("thresholds", "a threshold is %d percent; it must be from 1 to 100", p)
		}
	}
	for _, b := range r.bounds {
		switch {
		case b.amount.Currency != currency:
			return bad("where_amount", "it matches amounts in %.8q and the budget is in %q: %w", b.amount.Currency, currency, ErrCurrency)
		case b.amount.Minor <= 0:
			return bad("where_amount", "it matches spends by an amount of %v; that must be positive: %w", b.amount, ErrAmount)
		}
	}
	return nil
}

// rolls reports whether entries leave the rule one by one.
func (r *Rule) rolls() bool { return r.kind == rolling || r.kind == count }

// counts reports whether the rule counts entries by date.
func (r *Rule) counts() bool { return r.rolls() || r.periodic() || r.kind == lifetime }

// netted reports whether credits lower the units that the rule has counted.
func (r *Rule) netted() bool { return r.kind == lifetime || r.kind == calendar }

// periodic reports whether the rule begins anew with each period.
func (r *Rule) periodic() bool { return r.kind == calendar || r.kind == countPer }

// spends reports whether the rule counts spends instead of money.
func (r *Rule) spends() bool { return r.kind == count || r.kind == countPer }

// reach returns how far back from now the rule needs entries, or maxTime if it needs all.
func (r *Rule) reach() int64 {
	switch r.kind {
	case rolling, count:
		return r.length.Microseconds()
	case calendar, countPer:
		return r.period.longest().Microseconds()
	case lifetime:
		return maxTime
	}
	return 0
}

// bucket returns the limit of a Leaky rule in an account where its amount is n. If that is 0,
// nothing passes, and the units in the bucket leak as usual.
func (r *Rule) bucket(n int64) store.Limit {
	if n == 0 {
		return store.Limit{LeakRate: r.bucket(r.limit.Minor).LeakRate}
	}
	return store.Over(float64(n), r.length)
}

// fingerprint identifies the entries that the rule counts, whatever its amount.
// A rule whose fingerprint changes counts the ledger's entries anew. The leak
// rate of a Leaky rule is no part of the fingerprint, because the units stay in
// the bucket. The zone of a Calendar rule is no part of the fingerprint: the account stores the
// instant at which its period began, which tells more than the name of a zone, whose rules change.
func (r *Rule) fingerprint() uint64 {
	h := fnv.New64a()
	part := func(s string) { _, _ = h.Write(append([]byte(s), 0)) }
	part(strconv.Itoa(int(r.kind)))
	switch r.kind {
	case rolling, count:
		part(strconv.FormatInt(r.length.Microseconds(), 10))
	case calendar, countPer:
		part(strconv.Itoa(int(r.period)))
		if r.period == Week {
			part(r.anchor.week.String())
		}
		if r.period == Month && r.anchor.day != midnight.day {
			part("day " + strconv.Itoa(r.anchor.day))
		}
		if r.anchor.clock != midnight.clock {
			part("at " + r.anchor.clock.String())
		}
	}
	for _, m := range r.filter {
		part(m.tag)
		if m.not {
			part("not")
		}
		part(strconv.Itoa(len(m.values)))
		for _, v := range m.values {
			part(v)
		}
	}
	if r.each {
		part("per")
		part(r.per)
	}
	if r.declines {
		part("declines")
	}
	if r.voids {
		part("voids")
	}
	for _, b := range r.bounds {
		part(fmt.Sprint("amount ", b.most, b.amount.Minor))
	}
	return h.Sum64()
}
