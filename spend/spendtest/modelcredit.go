package spendtest

import (
	"slices"

	"github.com/brimgo/brim/spend"
)

// modelMove is a change of the used money of an account, or a credit.
type modelMove struct {
	account string
	tags    map[string]string
	first   int64 // the amount with which the spend began, or that of the credit
	at      int64 // of the decision
	date    int64 // at which it counts
	used    int64
	counted map[string]int64 // of a credit, by the names of the rules that have counted it
	expiry  bool             // of a hold that spends its money
}

// move notes a change of the used money of a spend.
func (m *model) move(s *modelSpend, used, t, date int64) {
	for _, account := range s.accounts {
		m.moves = append(m.moves, modelMove{account: account, tags: s.tags, first: s.first, at: t, date: date, used: used})
	}
}

// credit adds a credit to the accounts. Rules match it by the amount first.
func (m *model) credit(rules []modelRule, accounts []string, tags map[string]string, n, first, t int64) {
	for _, account := range accounts {
		c := modelMove{account: account, tags: tags, first: first, at: t, date: t, counted: make(map[string]int64)}
		for _, r := range rules {
			if !r.credits || !r.matches(tags, first) {
				continue
			}
			used, _, _ := m.usage(r.of(tags), account, t)
			c.counted[r.name] = min(n, used)
		}
		m.moves = append(m.moves, c)
		for _, r := range rules {
			m.pourInto(r, account, -c.counted[r.name])
		}
	}
}

// counted returns the parts of the last credit of an account that rules have counted.
func (m *model) counted(account string) map[string]spend.Money {
	list := make(map[string]spend.Money)
	for _, v := range slices.Backward(m.moves) {
		if v.account == account {
			for rule, n := range v.counted {
				if n > 0 {
					list[rule] = money(n)
				}
			}
			break
		}
	}
	return list
}

// net returns the used money of a rule in an account at t, which refunds and credits lower, and never
// below zero. It goes through all moves of the period from the first one on.
func (m *model) net(r modelRule, account string, t int64) (used int64) {
	moves := slices.Clone(m.moves)
	for _, s := range m.spending(t) {
		for _, p := range s.parts {
			for _, to := range s.accounts {
				moves = append(moves, modelMove{account: to, tags: s.tags, first: s.first, date: p.at, used: p.held})
			}
		}
	}
	for _, v := range moves {
		if v.account == account && r.matches(v.tags, v.first) && r.in(v.date, t) {
			used = max(0, used+v.used-v.counted[r.name])
		}
	}
	return used
}
