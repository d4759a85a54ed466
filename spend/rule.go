package spend

import (
	"fmt"
	"hash/fnv"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/brimgo/brim/store"
)

// Rule is one limit of a [Budget]. [Leaky], [Rolling], [Calendar],
// [PerTransaction], [Lifetime] and [Count] make a Rule, and [Rule.Matching]
// narrows it. A Rule is a value and never changes. [New] reports mistakes in a
// Rule.
//
// The name of a rule is 1 to 64 bytes of UTF-8, unique in its budget. Amounts
// are positive, in the currency of the budget. Windows and periods last from a
// microsecond to 100 years.
type Rule struct {
	name   string
	kind   kind
	limit  Money // without a currency for Count
	length time.Duration
	period Period
	zone   *time.Location
	week   time.Weekday // first day of a week
	filter []match
}

type kind uint8

const (
	leaky kind = iota + 1
	rolling
	calendar
	perTransaction
	lifetime
	count
)

var kindNames = [...]string{
	leaky: "leaky", rolling: "rolling", calendar: "calendar",
	perTransaction: "per transaction", lifetime: "lifetime", count: "count",
}

// match requires that a tag has one of the values.
type match struct {
	tag    string
	values []string // sorted
}

// Leaky is a leaky bucket of that amount, which drains in period once it is
// full. Room returns evenly, so nobody waits for a boundary. In the worst period
// about twice the amount goes through: all of it at once, and the same again as
// the bucket leaks. Held money does not leak; it begins to leak when it is
// captured. The amount is at most 2^53 minor units.
func Leaky(name string, amount Money, period time.Duration) Rule {
	return Rule{name: name, kind: leaky, limit: amount, length: period}
}

// Rolling never allows more than amount in any window (now - window, now]. It is
// exact to the minor unit and the microsecond.
func Rolling(name string, amount Money, window time.Duration) Rule {
	return Rule{name: name, kind: rolling, limit: amount, length: window}
}

// Calendar allows amount in each day, week, month or year of zone. A week starts
// on Monday, unless [Rule.WeekStarting] sets another day. Around a boundary up
// to twice the amount goes through in a short time.
//
// A period starts at the first instant after which local time never returns to
// an earlier date. If clocks jump over midnight, the period starts after the
// jump. If clocks repeat the hour before midnight, the period starts at the
// second midnight.
func Calendar(name string, amount Money, period Period, zone *time.Location) Rule {
	return Rule{name: name, kind: calendar, limit: amount, period: period, zone: zone, week: time.Monday}
}

// PerTransaction allows no spend of more than amount. The total of a hold
// includes its increases.
func PerTransaction(name string, amount Money) Rule {
	return Rule{name: name, kind: perTransaction, limit: amount}
}

// Lifetime allows amount in all. It never resets.
func Lifetime(name string, amount Money) Rule { return Rule{name: name, kind: lifetime, limit: amount} }

// Count allows n spends in any window (now - window, now]. A spend does not
// count if it was voided, or expired, before anything was captured. A refunded
// spend counts.
func Count(name string, n int64, window time.Duration) Rule {
	return Rule{name: name, kind: count, limit: Money{Minor: n}, length: window}
}

// Matching returns a rule that applies only to spends whose tag has one of the
// values. After several calls a spend must match all of them. The rule neither
// limits nor counts other spends.
func (r Rule) Matching(tag string, values ...string) Rule {
	values = slices.Clone(values)
	sort.Strings(values)
	r.filter = append(slices.Clone(r.filter), match{tag, slices.Compact(values)})
	slices.SortStableFunc(r.filter, func(a, b match) int { return strings.Compare(a.tag, b.tag) })
	return r
}

// WeekStarting returns a [Calendar] rule whose weeks start on day. It has no
// effect on other periods than [Week].
func (r Rule) WeekStarting(day time.Weekday) Rule {
	r.week = day
	return r
}

// matches reports whether the rule applies to a spend with these tags.
func (r *Rule) matches(tags map[string]string) bool {
	for _, m := range r.filter {
		v, ok := tags[m.tag]
		if _, found := slices.BinarySearch(m.values, v); !ok || !found {
			return false
		}
	}
	return true
}

// maxWindow keeps the sums of times in range.
const maxWindow = 100 * 366 * 24 * time.Hour

func (r *Rule) validate(currency string) error {
	if r.kind == 0 || int(r.kind) >= len(kindNames) {
		return fmt.Errorf("spend: %w: a rule is empty; make it with Rolling, Calendar or another function of the package",
			ErrBudget)
	}
	bad := func(format string, args ...any) error {
		return fmt.Errorf("spend: %w: %s rule %q: "+format, append([]any{ErrBudget, kindNames[r.kind], r.name}, args...)...)
	}
	switch {
	case !validName(r.name):
		return bad("its name must be 1 to 64 bytes of UTF-8 without control characters")
	case r.kind == count && r.limit.Minor <= 0:
		return bad("its number of spends is %d; it must be positive", r.limit.Minor)
	case r.kind != count && r.limit.Currency != currency:
		return bad("its currency is %.8q and the budget's is %q: %w", r.limit.Currency, currency, ErrCurrency)
	case r.limit.Minor <= 0:
		return bad("its amount is %v; it must be positive: %w", r.limit, ErrAmount)
	case r.kind == leaky && r.limit.Minor > store.MaxAmount:
		return bad("its amount is %v; a leaky bucket holds at most 2^53 minor units: %w", r.limit, ErrAmount)
	}
	switch r.kind {
	case leaky, rolling, count:
		if r.length < time.Microsecond || r.length > maxWindow {
			return bad("its window or period is %v; it must be from a microsecond to 100 years", r.length)
		}
		if r.kind == leaky {
			if err := r.bucket().Validate(); err != nil {
				return bad("%w", err)
			}
		}
	case calendar:
		if r.period < Day || r.period > Year || r.zone == nil || r.week < time.Sunday || r.week > time.Saturday {
			return bad("it needs a period of Day, Week, Month or Year, a *time.Location, " +
				"and a day of the week on which weeks start")
		}
	}
	for _, m := range r.filter {
		if m.tag == "" || len(m.values) == 0 {
			return bad("a filter needs a tag and at least one value")
		}
	}
	return nil
}

// rolls reports whether entries leave the rule one by one.
func (r *Rule) rolls() bool { return r.kind == rolling || r.kind == count }

// counts reports whether the rule counts entries by date.
func (r *Rule) counts() bool { return r.rolls() || r.kind == calendar || r.kind == lifetime }

// bucket returns the limit of a Leaky rule.
func (r *Rule) bucket() store.Limit { return store.Over(float64(r.limit.Minor), r.length) }

// fingerprint identifies the entries that the rule counts, whatever its amount.
// A rule whose fingerprint changes counts the ledger's entries anew. The leak
// rate of a Leaky rule is no part of the fingerprint, because the units stay in
// the bucket.
func (r *Rule) fingerprint() uint64 {
	h := fnv.New64a()
	part := func(s string) { _, _ = h.Write(append([]byte(s), 0)) }
	part(strconv.Itoa(int(r.kind)))
	switch r.kind {
	case rolling, count:
		part(strconv.FormatInt(r.length.Microseconds(), 10))
	case calendar:
		part(strconv.Itoa(int(r.period)))
		part(r.zone.String())
		if r.period == Week {
			part(r.week.String())
		}
	}
	for _, m := range r.filter {
		part(m.tag)
		part(strconv.Itoa(len(m.values)))
		for _, v := range m.values {
			part(v)
		}
	}
	return h.Sum64()
}
