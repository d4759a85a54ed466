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

// share returns the used and held part of the limit in percent, rounded down.
func (m *model) share(r modelRule, account string, t int64) int64 {
	used, held, _ := m.usage(r, account, t)
	limit := m.limit(r, account, t)
	if limit == 0 {
		return 0
	}
	return int64(float64(used+held) / float64(limit) * 100)
}

// arm lets decisions tell the shares again below which rules have fallen, or those of a new period.
func (m *model) arm(rules []modelRule, accounts []string, t int64) {
	for _, account := range accounts {
		for _, r := range rules {
			for _, category := range []string{"", "food", "travel"} {
				key := account + " " + r.name + " " + category
				switch one := r.of(map[string]string{"category": category}); {
				case r.kind == "lifetime":
				case r.kind != "day" && r.kind != "counted":
					m.told[key] = min(m.told[key], m.share(one, account, t))
				case !r.in(m.figures[account+" "+r.name], t):
					m.told[key] = 0
				}
			}
		}
	}
}

// crossed compares the shares that a decision tells.
func (s *sequence) crossed(d spend.Decision) error {
	var want []spend.Crossing
	for _, u := range d.Remaining {
		r := s.rules[slices.IndexFunc(s.rules, func(r modelRule) bool { return r.name == u.Rule })]
		key := u.Account.Name + " " + u.Rule + " " + u.Value
		share := s.model.share(r.of(map[string]string{"category": u.Value}), u.Account.Name, s.now())
		for _, p := range r.thresholds() {
			if p := int64(p); p > s.model.told[key] && p <= share {
				want, s.model.told[key] = append(want, spend.Crossing{Usage: u, Share: int(p)}), p
			}
		}
	}
	if diff := differ.Fields(d.Crossed, want); diff != "" {
		return fmt.Errorf("the shares that the decision tells:\n%s", diff)
	}
	return nil
}
