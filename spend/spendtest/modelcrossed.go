package spendtest

import (
	"slices"

	"github.com/brimgo/brim/spend"
)

// thresholds returns the shares that decisions tell of the rule.
func (r Rule) thresholds() []int {
	if r.Kind == "single" {
		return nil
	}
	return [][]int{nil, {50, 80, 100}, {30, 90}}[r.tells]
}

// share returns the used and held part of a limit in percent, rounded down.
func (m *Model) share(r Rule, account string, limit, t int64) int64 {
	if limit == 0 {
		return 0
	}
	used, held, _ := m.usage(r, account, t)
	return int64(float64(used+held) / float64(limit) * 100)
}

// note notes the shares of the accounts before the decision, under the limits of the last decision.
func (a *attempt) note() {
	a.shares = make(map[string]int64)
	for _, account := range a.spend.accounts {
		for _, r := range a.rules(account) {
			one, at := r.of(a.spend.tags), max(a.now, a.last[account])
			limit := max(a.told[account+" "+r.Name], a.limit(r, account, at))
			if a.told[account+" "+r.Name] == 0 {
				limit = 0
			}
			a.shares[account+" "+r.Name] = a.share(one, account, limit, at)
		}
	}
}

// crossings returns the shares that the decision tells, with its figures, and notes the limits
// under which it has done so.
func (a *attempt) crossings(figures []spend.Usage) (list []spend.Crossing) {
	for _, u := range figures {
		account, rules := u.Account.Name, a.rules(u.Account.Name)
		r := rules[slices.IndexFunc(rules, func(r Rule) bool { return r.Name == u.Rule })]
		is := a.share(r.of(a.spend.tags), account, a.limit(r, account, a.now), a.now)
		for _, p := range r.thresholds() {
			if int64(p) > a.shares[account+" "+r.Name] && int64(p) <= is {
				list = append(list, spend.Crossing{Usage: u, Share: p})
			}
		}
	}
	for _, account := range a.spend.accounts {
		for _, r := range a.rules(account) {
			if !slices.ContainsFunc(figures, func(u spend.Usage) bool { return u.Rule == r.Name && u.Account.Name == account }) {
				continue // the request has no value
			}
			switch limit := a.limit(r, account, a.now); {
			case r.thresholds() == nil:
				delete(a.told, account+" "+r.Name)
			case limit > 0:
				a.told[account+" "+r.Name] = limit
			}
		}
	}
	return list
}
