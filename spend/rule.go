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

// Rule is one limit of a [Budget]. Make it with [Leaky], [Rolling], [Calendar], [PerTransaction], [Lifetime] or [Count], and
// narrow it with [Rule.Matching]. A Rule is a value and never changes; New says what is wrong with it.
type Rule struct {
	name   string
	kind   kind
	limit  Money // of a Count: a plain number
	length time.Duration
	period Period
	zone   *time.Location
	week   time.Weekday // on which weeks start
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
	leaky: "leaky", rolling: "rolling", calendar: "calendar", perTransaction: "per transaction", lifetime: "lifetime", count: "count",
}

// match wants a tag to have one of some values.
type match struct {
	tag    string
	values []string // sorted
}

// Leaky is a leaky bucket of that amount, which drains in period when it is full. It refills evenly, so nobody waits for a
// boundary; but in the worst period it lets about twice the amount through: all of it at once, and as much again as it leaks.
// Held money does not leak; captured money begins to when it is captured. The amount is at most 2^53 minor units.
func Leaky(name string, amount Money, period time.Duration) Rule {
	return Rule{name: name, kind: leaky, limit: amount, length: period}
}

// Rolling allows never more than amount in any window of that length, (now - window, now], exactly.
func Rolling(name string, amount Money, window time.Duration) Rule {
	return Rule{name: name, kind: rolling, limit: amount, length: window}
}

// Calendar allows amount in each local day, week, month or year. A week starts on Monday; see [Rule.WeekStarting]. Around a
// boundary up to twice the amount goes through in a short time.
//
// A period starts at the first instant after which its first local date is not left again: where clocks jump over midnight
// that is later, and where they repeat the hour before midnight it is the second time.
func Calendar(name string, amount Money, period Period, zone *time.Location) Rule {
	return Rule{name: name, kind: calendar, limit: amount, period: period, zone: zone, week: time.Monday}
}

// PerTransaction allows no spend of more than amount. Increases count with what they increase.
func PerTransaction(name string, amount Money) Rule {
	return Rule{name: name, kind: perTransaction, limit: amount}
}

// Lifetime allows amount in all, and never resets.
func Lifetime(name string, amount Money) Rule { return Rule{name: name, kind: lifetime, limit: amount} }

// Count allows n spends in any window of that length. A spend that was voided or has expired with nothing captured does not
// count.
func Count(name string, n int64, window time.Duration) Rule {
	return Rule{name: name, kind: count, limit: Money{Minor: n}, length: window}
}

// Name returns the rule's name.
func (r Rule) Name() string { return r.name }

// Matching returns the rule for those spends only whose tag has one of the values. Several calls must all match. Spends that
// do not match are neither limited nor counted by it.
func (r Rule) Matching(tag string, values ...string) Rule {
	values = slices.Clone(values)
	sort.Strings(values)
	r.filter = append(slices.Clone(r.filter), match{tag, slices.Compact(values)})
	slices.SortStableFunc(r.filter, func(a, b match) int { return strings.Compare(a.tag, b.tag) })
	return r
}

// WeekStarting returns a [Calendar] rule whose weeks start on another day than Monday.
func (r Rule) WeekStarting(day time.Weekday) Rule {
	r.week = day
	return r
}

// matches reports whether the rule is about a spend with these tags.
func (r *Rule) matches(tags map[string]string) bool {
	for _, m := range r.filter {
		v, ok := tags[m.tag]
		if _, found := slices.BinarySearch(m.values, v); !ok || !found {
			return false
		}
	}
	return true
}

// maxWindow keeps sums of times far from overflowing.
const maxWindow = 100 * 366 * 24 * time.Hour

func (r *Rule) validate(currency string) error {
	if r.kind == 0 || int(r.kind) >= len(kindNames) {
		return fmt.Errorf("spend: %w: a rule is empty; make it with Rolling, Calendar or their like", ErrBudget)
	}
	bad := func(format string, args ...any) error {
		return fmt.Errorf("spend: %w: %s rule %q: "+format, append([]any{ErrBudget, kindNames[r.kind], r.name}, args...)...)
	}
	switch {
	case !validName(r.name):
		return bad("a name is 1 to 64 bytes of UTF-8 without control characters")
	case r.kind == count && r.limit.Minor <= 0:
		return bad("the number of spends is %d; it must be positive", r.limit.Minor)
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
			return bad("its time is %v; it must be from a microsecond to 100 years", r.length)
		}
		if r.kind == leaky {
			if err := r.bucket().Validate(); err != nil {
				return bad("%w", err)
			}
		}
	case calendar:
		if r.period < Day || r.period > Year || r.zone == nil || r.week < time.Sunday || r.week > time.Saturday {
			return bad("it needs Day, Week, Month or Year, a *time.Location, and weeks that start on a day of the week")
		}
	}
	for _, m := range r.filter {
		if m.tag == "" || len(m.values) == 0 {
			return bad("a filter needs a tag and at least one value")
		}
	}
	return nil
}

// bucket is the limit of a Leaky rule.
func (r *Rule) bucket() store.Limit { return store.Over(float64(r.limit.Minor), r.length) }

// print identifies what a rule counts, whatever it allows: a rule with another print counts anew, from the ledger. How fast
// a Leaky rule leaks is not in it, because what is in the bucket stays there.
func (r *Rule) print() uint64 {
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

func validName(s string) bool {
	return s != "" && len(s) <= 64 && validText(s)
}
