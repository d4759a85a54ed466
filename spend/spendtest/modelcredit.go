package spendtest

import (
	"slices"

	"github.com/brimgo/brim/spend"
)

// modelMove is a change of the used money of an account, or a credit.
type modelMove struct {
	tags    map[string]string
	first   int64 // the amount with which the spend began, or that of the credit
	at      int64 // of the decision
	date    int64 // at which it counts
	used    int64
	counted map[string]int64 // of a credit, by the names of the rules that have counted it
	expiry  bool             // of a hold that spends its money
}

// move notes a change of the used money of a spend.
func (m *Model) move(s *modelSpend, used, t, date int64) {
	if used == 0 {
		return
	}
	for _, account := range s.accounts {
		m.moveIn(account, modelMove{tags: s.tags, first: s.first, at: t, date: date, used: used})
	}
}

// moveIn notes a change of one account. Clones share the changes before.
func (m *Model) moveIn(account string, v modelMove) {
	m.moves[account] = append(slices.Clip(m.moves[account]), v)
}

// eachMove edits all changes of an account.
func (m *Model) eachMove(account string, edit func(*modelMove)) {
	list := slices.Clone(m.moves[account])
	for i := range list {
		edit(&list[i])
	}
	if list != nil {
		m.moves[account] = list
	}
}

// credit adds a credit to the accounts. Rules match it by the amount first.
func (m *Model) credit(rules Rules, accounts []string, tags map[string]string, n, first, t int64) {
	for _, account := range accounts {
		c := modelMove{tags: tags, first: first, at: t, date: t, counted: make(map[string]int64)}
		for _, r := range rules(account) {
			if !r.Credits || !r.matches(tags, first) {
				continue
			}
			used, _, _ := m.usage(r.of(tags), account, t)
			c.counted[r.Name] = min(n, used)
		}
		m.moveIn(account, c)
		for _, r := range rules(account) {
			m.pourInto(r, account, -c.counted[r.Name])
		}
	}
}

// counted returns the parts of the last credit of an account that rules have counted.
func (m *Model) counted(account string) map[string]spend.Money {
	list := make(map[string]spend.Money)
	moves := m.moves[account]
	for rule, n := range moves[len(moves)-1].counted {
		if n > 0 {
			list[rule] = money(n)
		}
	}
	return list
}

// net returns the used money of a rule in an account at t, which refunds and credits lower, and
// never below zero. It goes through all moves of the period from the first one on.
func (m *Model) net(r Rule, account string, t int64) (used int64) {
	moves := slices.Clip(m.moves[account])
	for _, id := range m.spending(t) {
		s := m.spends[id]
		for _, p := range s.parts {
			if slices.Contains(s.accounts, account) {
				moves = append(moves, modelMove{tags: s.tags, first: s.first, date: p.at, used: p.held})
			}
		}
	}
	for _, v := range moves {
		if r.matches(v.tags, v.first) && r.in(v.date, t) {
			used = max(0, used+v.used-v.counted[r.Name])
		}
	}
	return used
}
