package lin

import (
	"hash/maphash"
	"maps"
	"slices"
	"time"

	"github.com/brimgo/brim/internal/differ"
	"github.com/brimgo/brim/spend"
	"github.com/brimgo/brim/spend/spendtest"
	"github.com/brimgo/brim/store"
)

// accounts are three cards and their team.
const accounts = 4

// spendModel is the model of a ledger: that of package spendtest, at some reading of the ledger's
// clock during the call, with the first answers.
//
// In a history with a clock of the ledger's own, the decision's At tells the reading, or its entry
// if nobody has the decision. No hold expires there, and no window ends.
type spendModel struct {
	*budget
	began time.Time // no decision is earlier
}

func newSpendModel(b *budget) *spendModel {
	return &spendModel{budget: b, began: time.Now()}
}

// book is a state of a spendModel. It never changes.
type book struct {
	*spendtest.Model
	first map[int]*firstAnswer // by number of request
	rules inForce
	past  []pastRules     // in their order
	used  [accounts]int64 // the revision that the last decision on each account went by
}

// pastRules are rules in whose place others came, by a call that was over at a stamp.
type pastRules struct {
	Rules
	team bool
	over int64
}

// inForce are the newest rules of both budgets.
type inForce struct{ card, team Rules }

// of returns the rules of the budget of an account.
func (f *inForce) of(account int) *Rules {
	if account == team {
		return &f.team
	}
	return &f.card
}

// set sets the rules of a budget, or returns the error of rules that cannot take the place of those
// in force.
func (f *inForce) set(q spendRequest) error {
	switch has := f.of(q.Account); {
	case q.Rules.Revision > has.Revision:
		*has = q.Rules
	case q.Rules == *has: // nothing changes
	case q.Starts && q.Rules.Revision < has.Revision: // those in force are newer
	default:
		return spend.ErrBudget
	}
	return nil
}

// firstAnswer is the decision about a request.
type firstAnswer struct {
	spend.Decision
	lost   bool // nobody has the answer: the model's
	when   bool // the time of the decision is known
	unborn bool // the request was canceled before it began a spend: money that has moved is taken
}

// of returns the answer that a request gets again, or nil if it is decided.
func (b book) of(q spendRequest) *firstAnswer {
	if f := b.first[q.Number]; f != nil && !(f.unborn && q.moves()) {
		return f
	}
	return nil
}

func (b book) equal(other state) bool {
	o, ok := other.(book)
	return ok && b.rules == o.rules && b.used == o.used && slices.Equal(b.past, o.past) && maps.EqualFunc(b.first, o.first, (*firstAnswer).equal) && b.Model.Equal(o.Model)
}

func (f *firstAnswer) equal(o *firstAnswer) bool {
	return f == o || f.At.Equal(o.At) && f.unborn == o.unborn && f.same(o.Decision)
}

func (b book) hash() (h uint64) {
	h = maphash.Comparable(hashSeed, b.rules)
	for number, f := range b.first {
		h ^= maphash.Comparable(hashSeed, [2]int64{int64(number), f.At.UnixMicro()})
	}
	return h
}

// same reports whether two decisions are the same, apart from their times and all that follows
// from them.
func (f *firstAnswer) same(d spend.Decision) bool {
	return f.Approved == d.Approved && f.Canceled == d.Canceled && f.Amount.Minor == d.Amount.Minor &&
		slices.EqualFunc(f.Remaining, d.Remaining, func(x, y spend.Usage) bool {
			return x.Rule == y.Rule && x.Name == y.Name && x.Used == y.Used && x.Held == y.Held && x.Limit == y.Limit
		})
}

// repeated reports whether a decision repeats the first one.
func (f *firstAnswer) repeated(d spend.Decision) bool {
	if f.lost {
		return d.Replayed && f.same(d) && (!f.when || f.At.Equal(d.At))
	}
	want := f.Decision
	want.Replayed = true
	return differ.Fields(d, want) == ""
}

func (m *spendModel) start() state {
	return book{Model: spendtest.NewModel(), rules: inForce{m.First, m.First}}
}

func (m *spendModel) step(before state, c *call) (after []state) {
	b, _ := before.(book)
	q, _ := c.in.(spendRequest)
	if q.Verb == setRules {
		return b.set(q, c)
	}
	if c.out == nil {
		return m.unknown(b, q, c)
	}
	a, _ := c.out.(spendAnswer)
	if first := b.of(q); first != nil {
		if a.Mistake == "" && first.repeated(a.Decision) {
			return []state{b}
		}
		return nil
	}
	if a.Replayed {
		return nil
	}
	for _, by := range b.choices(q, c.began) {
		for _, clock := range m.clocks(a.At, c.readings) {
			if next, err := m.decide(b, q, by, clock, &a, true); err == nil {
				after = append(after, next)
				break
			}
		}
	}
	return after
}

// set returns the states after rules were set.
func (b book) set(q spendRequest, c *call) (after []state) {
	next := b
	err := next.rules.set(q)
	if next.rules != b.rules {
		next.past = append(slices.Clip(b.past), pastRules{*b.rules.of(q.Account), q.Account == team, c.over})
	}
	if c.out == nil {
		if after = []state{b}; next.rules != b.rules {
			after = append(after, next)
		}
		return after
	}
	if a, _ := c.out.(spendAnswer); a.mistake() != err {
		return nil
	}
	return []state{next}
}

// choices returns the rules that a decision may go by which began at a stamp: the newest at its
// place in the order, and those in whose place others came since it began. A ledger reads the rules
// when it has locked the accounts, and commits later. Meanwhile, a question may get figures by
// newer rules, but no decision on one of the accounts goes by them. A question reads all at once.
func (b book) choices(q spendRequest, began int64) (all []inForce) {
	all = []inForce{b.rules}
	if q.Verb == remaining {
		return all
	}
	for _, account := range q.touches() {
		for _, by := range slices.Clone(all) {
			for _, old := range b.past {
				if old.team == (account == team) && old.over > began && old.Revision >= b.used[account] {
					*by.of(account) = old.Rules
					all = append(all, by)
				}
			}
		}
	}
	return all
}

// rulesOf returns rules by account.
func (m *spendModel) rulesOf(by inForce) spendtest.Rules {
	card, all := by.card.list(), by.team.list()
	return func(account string) []spendtest.Rule {
		if account == m.account(team) {
			return all
		}
		return card
	}
}

// clocks returns the possible readings of the clock at a decision.
func (m *spendModel) clocks(at time.Time, readings []int64) (all []time.Time) {
	for _, r := range readings {
		all = append(all, time.UnixMicro(r))
	}
	switch {
	case readings != nil:
		return all
	case at.IsZero():
		return []time.Time{m.began}
	}
	return []time.Time{at}
}

// unknown returns the states after a request that may have been decided.
func (m *spendModel) unknown(b book, q spendRequest, c *call) (after []state) {
	after = []state{b}
	if b.of(q) != nil || q.Verb == remaining {
		return after
	}
	for _, by := range b.choices(q, c.began) {
		for _, clock := range m.clocks(time.Time{}, c.readings) {
			next, _ := m.decide(b, q, by, clock, nil, c.readings != nil)
			if !slices.ContainsFunc(after, next.equal) {
				after = append(after, next)
			}
		}
	}
	return after
}

// decide returns the state after a new request, by some rules. a is nil, or the answer: an error
// tells how it differs from the model's. when tells whether the clock is known.
func (m *spendModel) decide(b book, q spendRequest, by inForce, clock time.Time, a *spendAnswer, when bool) (book, error) {
	rules := m.rulesOf(by)
	if q.Verb == remaining {
		return b, b.Remaining(rules, m.account(q.Account), clock, a.Remaining)
	}
	next := b
	if a == nil || a.Mistake == "" { // else nothing changes
		next.Model = b.Clone()
	}
	var got *spendtest.Answer
	if a != nil {
		got = &spendtest.Answer{Decision: a.Decision, Err: a.mistake()}
	}
	want, err := next.Decide(rules, m.request(q), clock, got)
	if err != nil || want.Err != nil {
		return b, err
	}
	for _, account := range q.touches() {
		next.used[account] = by.of(account).Revision
	}
	next.first = maps.Clone(b.first)
	if next.first == nil {
		next.first = make(map[int]*firstAnswer)
	}
	next.note(q, firstAnswer{Decision: want.Decision, lost: a == nil, when: when})
	return next, nil
}

// note notes the first answer to a request, and the one that a canceled request gets from then on.
func (b book) note(q spendRequest, f firstAnswer) {
	switch n := max(q.Number, -q.Number); {
	case q.Verb == cancelID:
		was, c := b.first[n], f
		if c.Approved, c.Amount, c.RetryAfter, c.unborn = false, (spend.Money{}), store.Never, was == nil || !was.Approved; was != nil {
			c.Declines, c.lost = was.Declines, c.lost || was.lost
		}
		b.first[n] = &c
	case q.moves(): // maybe in the place of a cancellation
		delete(b.first, -n)
	case q.Verb == capture && q.Force && b.first[q.Spend] != nil: // maybe of a canceled spend
		begun := *b.first[q.Spend]
		begun.unborn = false
		b.first[q.Spend] = &begun
	}
	b.first[q.Number] = &f
}
