package spendtest

import (
	"fmt"
	"slices"

	"github.com/brimgo/brim/internal/differ"
	"github.com/brimgo/brim/spend"
)

// thresholds returns the shares that decisions tell of the rule.
func (r modelRule) thresholds() []int {
	if r.kind == "single" {
		return nil
	}
	return [][]int{nil, {50, 80, 100}, {30, 90}}[r.tells]
}

// share returns the used and held part of a limit in percent, rounded down.
func (m *model) share(r modelRule, account string, limit, t int64) int64 {
	used, held, _ := m.usage(r, account, t)
	if limit == 0 {
		return 0
	}
	return int64(float64(used+held) / float64(limit) * 100)
}

// note notes the shares of accounts before a decision at t, under the limits of the last decision.
func (m *model) note(rules []modelRule, accounts []string, t int64) {
	m.noted = accounts
	for _, account := range accounts {
		for _, r := range rules {
			limit := m.told[account+" "+r.name]
			for _, category := range []string{"", "food", "travel"} {
				one := r.of(map[string]string{"category": category})
				m.before[account+" "+r.name+" "+one.one] = m.share(one, account, limit, t)
			}
		}
	}
}

// crossed compares the shares that a decision tells, and notes the limits under which it has done so.
func (s *sequence) crossed(d spend.Decision) error {
	var want []spend.Crossing
	for _, u := range d.Remaining {
		r := s.rules[slices.IndexFunc(s.rules, func(r modelRule) bool { return r.name == u.Rule })]
		m, account := s.model, u.Account.Name
		is := m.share(r.of(map[string]string{"category": u.Value}), account, m.limit(r, account, s.now()), s.now())
		for _, p := range r.thresholds() {
			if int64(p) > m.before[account+" "+r.name+" "+u.Value] && int64(p) <= is {
				want = append(want, spend.Crossing{Usage: u, Share: p})
			}
		}
	}
	if diff := differ.Fields(d.Crossed, want); diff != "" {
		return fmt.Errorf("the shares that the decision tells:\n%s", diff)
	}
	for _, account := range s.model.noted {
		for _, r := range s.rules {
			switch limit := s.model.limit(r, account, s.now()); {
			case r.thresholds() == nil:
				delete(s.model.told, account+" "+r.name)
			case limit > 0:
				s.model.told[account+" "+r.name] = limit
			}
		}
	}
	return nil
}
