package spendtest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/brimgo/brim/spend"
)

// boundedRules returns rules that filter by amount.
func boundedRules(r *rand.Rand, limit, width func() int64) []Rule {
	return []Rule{
		{Kind: "rolling", Name: "large", Limit: limit(), Width: width(), from: 1 + r.Int64N(30)},
		{Kind: "day", Name: "small", Limit: limit(), upTo: 5 + r.Int64N(30)},
		{Kind: "count", Name: "few", Limit: 1 + r.Int64N(4), Width: width(), from: 10, upTo: 10 + r.Int64N(30)},
		{Kind: "leaky", Name: "large leaky", Limit: 64, Width: leakyWidth(r), from: 1 + r.Int64N(30), upTo: 35},
	}
}

// perRules returns rules whose limits hold for each category.
func perRules(r *rand.Rand, limit, width func() int64) []Rule {
	return []Rule{
		{Kind: "rolling", Name: "rolling each", Limit: limit(), Width: width(), each: true},
		{Kind: "day", Name: "day each", Limit: limit(), offset: 3600e6, begins: 7200e6, each: true},
		{Kind: "lifetime", Name: "lifetime each", Limit: 2 * limit(), each: true, from: r.Int64N(10)},
		{Kind: "count", Name: "count each", Limit: 1 + r.Int64N(4), Width: width(), each: true},
		{Kind: "counted", Name: "counted each", Limit: 1 + r.Int64N(4), each: true, tag: "category", value: "travel", not: true},
	}
}

// attemptRules returns rules that count more than the spends that were made.
func attemptRules(r *rand.Rand, width func() int64) []Rule {
	n := func() int64 { return 2 + r.Int64N(4) }
	return []Rule{
		{Kind: "count", Name: "attempts", Limit: n(), Width: width(), declines: true, voids: r.IntN(2) == 0, from: r.Int64N(30)},
		{Kind: "counted", Name: "attempts each", Limit: n(), declines: true, each: true},
		{Kind: "count", Name: "voids each", Limit: n(), Width: width(), voids: true, each: true},
		{Kind: "counted", Name: "voids", Limit: n(), voids: true, tag: "category", value: "travel"},
	}
}

// of returns the rule for the category in tags, if its limit holds for each category.
func (r Rule) of(tags map[string]string) Rule {
	if r.each {
		r.narrowed, r.one = true, tags["category"]
	}
	return r
}

// shown returns the rules that Remaining shows, in that order: of a rule for each category, those
// that have used or held something.
func (m *Model) shown(rules Rules, account string, t int64) (list []Rule) {
	for _, r := range rules(account) {
		if !r.each {
			list = append(list, r)
			continue
		}
		for _, category := range []string{"", "food", "travel"} {
			one := r.of(map[string]string{"category": category})
			if used, held, _ := m.usage(one, account, t); used > 0 || held > 0 {
				list = append(list, one)
			}
		}
	}
	return list
}

// bounded returns rule with the bounds of amounts that r has.
func (r Rule) bounded(rule spend.Rule) spend.Rule {
	if r.from > 0 {
		rule = rule.MatchingAtLeast(money(r.from))
	}
	if r.upTo > 0 {
		rule = rule.MatchingAtMost(money(r.upTo))
	}
	return rule
}

// mayCredit reports whether the rule can count credits.
func (r Rule) mayCredit() bool { return !r.spends() && r.Kind != "single" && r.Kind != "rolling" }

// fits reports whether a rule agrees at t to n more units of a spend, which began with first and
// then amounts to total, and to so many more spends.
func (m *Model) fits(r Rule, account string, t, n, first, total, spends int64, tags map[string]string) bool {
	if !r.matches(tags, first) {
		return true
	}
	r = r.of(tags)
	used, held, level := m.usage(r, account, t)
	limit := m.limit(r, account, t)
	switch r.Kind {
	case "single":
		return total <= limit && limit > 0
	case "count", "counted":
		return used+spends <= limit
	case "leaky":
		return n == 0 || level+float64(held)+float64(n) <= float64(limit) // a bucket always takes nothing
	}
	return used+held+n <= limit
}

// fitsAll reports whether all rules agree in all accounts of a spend.
func (m *Model) fitsAll(rules Rules, s *modelSpend, t, n, total, spends int64) bool {
	return !slices.ContainsFunc(s.accounts, func(account string) bool {
		return slices.ContainsFunc(rules(account), func(r Rule) bool {
			return !r.Shadow && !m.fits(r, account, t, n, s.first, total, spends, s.tags)
		})
	})
}

// first reports whether is holds at t for the first time from now on. Between the times at which it
// looks, room only grows, or stays as it is.
func (m *Model) first(r Rule, account string, now, t int64, is func(t int64) bool) bool {
	early := func(at int64) bool { return at >= now && at < t && is(at) }
	if !is(t) || early(now) || early(t-1) {
		return false
	}
	if r.Kind != "rolling" && r.Kind != "count" {
		return true
	}
	for _, s := range m.spends {
		for _, p := range s.parts {
			if early(p.at + r.Width) {
				return false
			}
		}
		if early(s.expires) {
			return false
		}
	}
	for _, x := range m.refused {
		if early(x.at + r.Width) {
			return false
		}
	}
	return !early(m.own[account+" "+r.Name].until)
}

const year = 366 * dayLength

// grows checks that the rule has more room at that time, and none more a
// microsecond before.
func (m *Model) grows(r Rule, account string, now int64, at time.Time) error {
	room := func(t int64) int64 { return m.room(r, account, t) }
	switch {
	case at.IsZero():
		if later := room(now + year); later > room(now) {
			return fmt.Errorf("account %s, rule %s: GrowsAt is zero; within a year room grows from %d to %d",
				account, r.Name, room(now), later)
		}
	case m.first(r, account, now, at.UnixMicro(), func(t int64) bool { return room(t) > room(now) }):
	default:
		return fmt.Errorf("account %s, rule %s: GrowsAt is %d us from now; that is not the first time with more room than %d",
			account, r.Name, at.UnixMicro()-now, room(now))
	}
	return nil
}
