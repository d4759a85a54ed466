// Package figures has the figures of the rules of one account: their sums, windows, periods and
// buckets. It knows no ledger: a [Tally] asks its [Past] for entries. Times are microseconds since
// the Unix epoch.
package figures

import (
	"fmt"
	"hash/fnv"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/brimgo/brim/internal/calendar"
	"github.com/brimgo/brim/spend/internal/money"
	"github.com/brimgo/brim/spend/ledger"
	"github.com/brimgo/brim/store"
)

// Dates before and after all entries.
const (
	MinTime = math.MinInt64
	MaxTime = math.MaxInt64
)

// Kinds of requests and of the entries that they cause.
const (
	KindSpend     = "spend"     // used rises
	KindRecord    = "record"    // used rises, whatever the rules say
	KindAuthorize = "authorize" // held rises
	KindIncrease  = "increase"  // held rises
	KindCapture   = "capture"   // held becomes used; used rises by money that was not held
	KindRelease   = "release"   // held falls by the rest of a final capture
	KindVoid      = "void"      // held falls
	KindDecrease  = "decrease"  // held falls
	KindExtend    = "extend"    // nothing changes but the expiry
	KindExpire    = "expire"    // held falls
	KindRefund    = "refund"    // used falls
	KindReverse   = "reverse"   // used rises by money that was refunded
	KindCredit    = "credit"    // the used amount of rules that count credits falls
	KindDecline   = "decline"   // nothing changes
	KindLimits    = "limits"    // the account's own limits change
	KindPlan      = "plan"      // the account has another set of rules
	KindFreeze    = "freeze"    // the account declines from now on
	KindUnfreeze  = "unfreeze"  // the account declines no longer
	KindMend      = "mend"      // the account goes by the clock again
	KindMove      = "move"      // the account has another name
	KindCancel    = "cancel"    // held and used fall by all that a request has moved
)

// Span tells when units leave a rule.
type Span uint8

// The spans of rules.
const (
	Alone   Span = iota // the rule judges each spend alone, and counts nothing
	Leaks               // units leak from a bucket
	Rolls               // each unit leaves the window at its date and the length of the rule
	Repeats             // all units leave at the end of a period
	Forever             // no unit leaves
)

// Kind is a kind of rules.
type Kind uint8

// The kinds of rules. Fingerprints have their numbers.
const (
	Leaky Kind = iota + 1
	Rolling
	Calendar
	PerTransaction
	Lifetime
	Count
	CountPer
)

// Kinds describe the kinds of rules. All that differs between them follows from these fields.
var Kinds = [...]struct {
	Name   string // in messages
	Limit  string // the field of the JSON form with the limit
	Span   Span
	Spends bool // the rule counts spends instead of money
}{
	Leaky:          {"leaky", "leaky", Leaks, false},
	Rolling:        {"rolling", "rolling", Rolls, false},
	Calendar:       {"calendar", "calendar", Repeats, false},
	PerTransaction: {"per transaction", "per_transaction", Alone, false},
	Lifetime:       {"lifetime", "lifetime", Forever, false},
	Count:          {"count", "count", Rolls, true},
	CountPer:       {"calendar count", "count", Repeats, true},
}

// Rule is one limit of a budget. Its methods need a rule without mistakes.
type Rule struct {
	Name       string
	Kind       Kind
	Limit      money.Money   // without a currency if the rule counts spends
	AtMost     money.Money   // of an account's own limit; zero means Limit
	Length     time.Duration // of a window, or until a full bucket is empty
	Period     calendar.Unit
	Zone       *time.Location
	Anchor     calendar.Anchor
	Filter     []Match // sorted by tag
	Bounds     []Bound
	Each       bool   // the limit holds for each value of a tag
	Per        string // the tag
	Credits    bool   // credits make room
	Declines   bool   // a rule that counts spends counts declines, too
	Voids      bool   // such a rule counts spends that took nothing, too
	Thresholds []int  // in percent, ascending
	Shadow     bool   // the rule counts, and refuses nothing
}

// Match requires that a tag has one of the values, or that it has none of them.
type Match struct {
	Tag    string
	Values []string // sorted
	Not    bool
}

// Bound requires that a spend begins with at least an amount, or with at most that amount.
type Bound struct {
	Amount money.Money
	Most   bool
}

// Span tells when units leave the rule.
func (r *Rule) Span() Span { return Kinds[r.Kind].Span }

// Spends reports whether the rule counts spends instead of money.
func (r *Rule) Spends() bool { return Kinds[r.Kind].Spends }

// Counts reports whether the rule counts entries by date.
func (r *Rule) Counts() bool { return r.Span() >= Rolls }

// Windowed reports whether entries leave the rule as time passes.
func (r *Rule) Windowed() bool { return r.Span() == Rolls || r.Span() == Repeats }

// Recountable reports whether the entries of an account can give all figures of the rule. They
// cannot tell at which rates a bucket has leaked, what Prune has removed, nor when a period began
// in a zone that the rule no longer has.
func (r *Rule) Recountable() bool { return r.Span() == Alone || r.Span() == Rolls }

// based reports whether the figures have a base, because no entry leaves the rule by its date.
func (r *Rule) based() bool { return r.Span() == Leaks || r.Span() == Forever }

// netted reports whether credits lower the units that the rule has counted.
func (r *Rule) netted() bool { return !r.Spends() && r.Span() >= Repeats }

// Most returns the largest limit that an account may have for the rule.
func (r *Rule) Most() int64 {
	if r.AtMost.Minor != 0 {
		return r.AtMost.Minor
	}
	return r.Limit.Minor
}

// Matches reports whether the rule applies to a spend with these tags, which began with amount.
func (r *Rule) Matches(tags map[string]string, amount int64) bool {
	for _, b := range r.Bounds {
		if amount < b.Amount.Minor && !b.Most || amount > b.Amount.Minor && b.Most {
			return false
		}
	}
	for _, m := range r.Filter {
		v, ok := tags[m.Tag]
		_, found := slices.BinarySearch(m.Values, v)
		if (ok && found) == m.Not {
			return false
		}
	}
	return true
}

// Reach returns how far back from now the rule needs entries, or MaxTime if it needs all.
func (r *Rule) Reach() int64 {
	switch r.Span() {
	case Rolls:
		return r.Length.Microseconds()
	case Repeats:
		return r.Period.Longest().Microseconds()
	case Forever:
		return MaxTime
	}
	return 0
}

// edge returns the edge of the rule at a time: entries dated after it count.
func (r *Rule) edge(t int64) int64 {
	switch r.Span() {
	case Rolls:
		return t - r.Length.Microseconds()
	case Repeats:
		start, _ := r.PeriodAt(t)
		return start - 1
	}
	return MinTime
}

// edgeIn returns the edge of the rule in an account at a time. It is not before the time up to
// which Prune has removed entries: a refund or a release that is left counts only together with the
// entry that it corrects, or it would make room. Prune leaves the entries that the newest rules
// need, so this matters to rules that begin later.
func (r *Rule) edgeIn(p Past, t int64) int64 { return max(r.edge(t), p.Removed()) }

// Bucket returns the limit of a Leaky rule in an account where its amount is n. If that is 0,
// nothing passes, and the units in the bucket leak as usual.
func (r *Rule) Bucket(n int64) store.Limit {
	if n == 0 {
		return store.Limit{LeakRate: r.Bucket(r.Limit.Minor).LeakRate}
	}
	return store.Over(float64(n), r.Length)
}

// countOf returns the spends that an entry adds to a rule that counts spends: for good, and until
// its hold ends.
func (r *Rule) countOf(e *ledger.Entry) (used, held int64) {
	switch {
	case r.Declines && e.Kind == KindDecline && e.SpendID == "":
		return 1, 0
	case !r.Voids:
		return e.Count, e.Pending
	case e.Kind == KindSpend, e.RequestID == e.SpendID && (e.Kind == KindRecord || e.Kind == KindAuthorize):
		return 1, 0
	}
	return 0, 0
}

// Fingerprint identifies the entries that the rule counts, whatever its amount.
// A rule whose fingerprint changes counts the ledger's entries anew. The leak
// rate of a Leaky rule is no part of the fingerprint, because the units stay in
// the bucket. The zone of a Calendar rule is no part of the fingerprint: the account stores the
// instant at which its period began, which tells more than the name of a zone, whose rules change.
func (r *Rule) Fingerprint() uint64 {
	h := fnv.New64a()
	part := func(s string) { _, _ = h.Write(append([]byte(s), 0)) }
	flag := func(is bool, s ...string) {
		for _, s := range s {
			if is {
				part(s)
			}
		}
	}
	part(strconv.Itoa(int(r.Kind)))
	switch r.Span() {
	case Rolls:
		part(strconv.FormatInt(r.Length.Microseconds(), 10))
	case Repeats:
		part(strconv.Itoa(int(r.Period)))
		flag(r.Period == calendar.Week, r.Anchor.Week.String())
		flag(r.Period == calendar.Month && r.Anchor.Day != calendar.Midnight.Day, "day "+strconv.Itoa(r.Anchor.Day))
		flag(r.Anchor.Clock != calendar.Midnight.Clock, "at "+r.Anchor.Clock.String())
	}
	part(strconv.Itoa(len(r.Filter)))
	for _, m := range r.Filter {
		part(m.Tag)
		flag(m.Not, "not")
		part(strconv.Itoa(len(m.Values)))
		flag(true, m.Values...)
	}
	flag(r.Each, "per", r.Per)
	flag(r.Declines, "declines")
	flag(r.Voids, "voids")
	for _, b := range r.Bounds {
		part(fmt.Sprint("amount ", b.Most, b.Amount.Minor))
	}
	return h.Sum64()
}

// PeriodAt returns the start of the period that contains now, and the start of the next period. All
// times are microseconds since the Unix epoch.
func (r *Rule) PeriodAt(now int64) (start, end int64) {
	p := calendar.Periods{Unit: r.Period, Anchor: r.Anchor, Zone: r.Zone}
	return p.At(now)
}
