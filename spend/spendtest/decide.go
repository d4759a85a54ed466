package spendtest

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/brimgo/brim/internal/differ"
	"github.com/brimgo/brim/spend"
)

// Answer is the answer to a request: a decision, or an error.
type Answer struct {
	Decision spend.Decision
	Err      error
}

// attempt is a request on its way through the model.
type attempt struct {
	*Model
	Request
	rules Rules
	clock int64       // from which waits count
	now   int64       // of the decision
	spend *modelSpend // that the request begins or is about; or just its accounts
	n     int64       // units that it moves
	do    func()      // carries it out

	asks          bool  // rules may refuse it
	least         int64 // it may be approved with as few units
	base          int64 // the total of the spend before it
	more          int64 // 1 if it is one more spend
	notesDeclines bool
	shares        map[string]int64 // before it, by account and rule; see note
	shadows       []string         // rules that would have refused it, by account and rule
	alone         bool             // it is about accounts alone, and has no tags
}

// Decide carries out a request that was not decided before, or that takes the place of a
// cancellation, at a reading of the ledger's clock. The time of the decision is later if an
// account has decided later. rules are those of the process that decides.
//
// got is the answer of the ledger. The error tells the fields that differ from the model's answer;
// the model must not be used any more then. got may be nil: a caller who lost the answer goes on
// with a clone of the model before the request, and with the model after it. The answer of the
// model has no waits and no Declines; it has those of got. A request that fails changes nothing.
func (m *Model) Decide(rules Rules, r Request, clock time.Time, got *Answer) (want Answer, wrong error) {
	a := &attempt{Model: m, Request: r, rules: rules, clock: clock.UnixMicro(), n: r.Amount.Minor}
	a.now, a.least = a.clock, a.n
	accounts := r.accounts()
	if s := m.spends[r.Of]; s != nil {
		accounts = s.accounts
	}
	for _, account := range accounts {
		if r.Method != "mend" {
			a.now = max(a.now, m.last[account])
		}
	}
	m.expire(rules, a.now)
	if a.spend = m.spends[r.Of]; r.Account != "" {
		a.spend = &modelSpend{accounts: accounts, tags: r.Tags, first: a.n}
	}
	want.Err = a.prepare()
	if want.Err != nil || got != nil && got.Err != nil {
		if got != nil && !a.mayFail(got.Err) {
			wrong = refuses(got.Err, want.Err)
		}
		return want, wrong
	}
	d := &want.Decision
	if d.At = time.UnixMicro(a.now); got != nil && !got.Decision.At.Equal(d.At) {
		return want, fmt.Errorf("the decision was at %v; want %v", got.Decision.At, d.At)
	}
	a.noted()
	if d.Approved = true; a.asks {
		if d.Approved, wrong = a.judge(got); wrong != nil {
			return want, wrong
		}
	}
	if !a.asks && a.notesDeclines {
		a.shadow()
	}
	if d.Approved {
		a.do()
		d.Canceled, d.Amount = r.Method == "cancel", money(a.n)
	}
	if d.Remaining, wrong = a.figures(got); wrong != nil {
		return want, wrong
	}
	d.Crossed, d.Shadow = a.crossings(d.Remaining), a.shaded(d.Remaining)
	m.known[r.ID] = known{a.spend.accounts[0], d.Approved}
	if d.Canceled {
		m.canceled[r.ID] = *d
	}
	if got == nil {
		return want, nil
	}
	if d.Amount.Minor == 0 && got.Decision.Amount.Minor == 0 {
		d.Amount = got.Decision.Amount // with a currency or without
	}
	d.Declines, d.RetryAfter, d.AtLeast = got.Decision.Declines, got.Decision.RetryAfter, got.Decision.AtLeast // judge has seen them
	return want, told(differ.Fields(got.Decision, *d))
}

// able compares the answer to the question about a payment. It writes nothing.
func (m *Model) able(rules Rules, r Request, clock int64, d spend.Decision) (wrong error) {
	m.expire(rules, clock)
	s := &modelSpend{accounts: r.accounts(), tags: r.Tags, first: r.Amount.Minor}
	a := &attempt{Model: m, Request: r, rules: rules, clock: clock, now: clock, spend: s, n: s.first, least: s.first, more: 1}
	defer m.asked(rules, s.accounts, clock)()
	want := spend.Decision{At: time.UnixMicro(clock), Declines: d.Declines, RetryAfter: d.RetryAfter, AtLeast: d.AtLeast, Amount: d.Amount}
	if want.Approved, wrong = a.judge(&Answer{Decision: d}); wrong != nil {
		return wrong
	}
	if want.Remaining, wrong = a.figures(&Answer{Decision: d}); wrong != nil {
		return wrong
	}
	want.Shadow = a.shaded(want.Remaining)
	return told(differ.Fields(d, want))
}

// Remaining compares the figures that [spend.Budgets.Remaining] answers at a reading of the clock.
func (m *Model) Remaining(rules Rules, account string, clock time.Time, got []spend.Usage) error {
	now := max(clock.UnixMicro(), m.last[account])
	m.expire(rules, now)
	defer m.asked(rules, []string{account}, now)()
	var want []spend.Usage
	for i, r := range m.shown(rules, account, now) {
		u := m.figure(r, account, now)
		if i < len(got) {
			u.Account.Budget, u.GrowsAt = got[i].Account.Budget, got[i].GrowsAt
		}
		want = append(want, u)
	}
	if diff := differ.Fields(got, want); diff != "" {
		return fmt.Errorf("the figures of account %s:\n%s", account, diff)
	}
	for i, r := range m.shown(rules, account, now) {
		if err := m.grows(r, account, now, got[i].GrowsAt); err != nil {
			return err
		}
	}
	return nil
}

// told returns an error with a text, or nil if it is empty.
func told(text string) error {
	if text == "" {
		return nil
	}
	return errors.New("the decision:\n" + text)
}

// mayFail reports whether the request may fail although the model knows no reason.
func (a *attempt) mayFail(err error) bool {
	return !a.Dated.IsZero() && a.mayBeGone(a.spend.accounts, a.Dated.UnixMicro()) && errors.Is(err, spend.ErrRequest)
}

// noted notes that the accounts are decided about.
func (a *attempt) noted() {
	accounts := a.spend.accounts
	a.decided(a.rules, accounts, a.now)
	a.note()
	a.counts(a.rules, accounts)
	for _, account := range accounts {
		a.last[account] = a.now
	}
}

// prepare finds the effect of the request, and the error with which it must fail.
func (a *attempt) prepare() error {
	switch a.Method {
	case "charge", "authorize", "record", "upTo":
		return a.begin()
	case "increase", "decrease", "extend", "capture", "void":
		return a.follow()
	case "refund":
		return a.refunds()
	case "reverse":
		return a.reverses()
	case "cancel":
		return a.cancels()
	case "credit":
		a.do = func() { a.Model.credit(a.rules, a.spend.accounts, a.Tags, a.n, a.n, a.now) }
	case "freeze", "unfreeze":
		a.alone, a.do = true, func() { a.frozen[a.Account] = a.Reason }
	case "limit":
		return a.limits()
	case "plan": // the caller has given rules those of the plan
		a.alone, a.do = true, func() {}
	case "move": // to a name that is free: the model knows accounts by their first names
		if _, used := a.last[a.Account]; !used {
			return spend.ErrRequest
		}
		a.alone, a.do = true, func() {}
	case "mend":
		top := a.last[a.Account]
		a.alone, a.do = true, func() {
			if a.now < top {
				a.Model.mend(a.rules, a.spend.accounts, top, a.now)
			}
		}
	default:
		return fmt.Errorf("the model knows no request %q", a.Method)
	}
	return nil
}

// begin prepares a request that begins a spend.
func (a *attempt) begin() error {
	hold, date := a.Method == "authorize" || a.Hold, a.now
	switch {
	case hold && a.n == 0: // it is ended at once
		a.spend.expires, a.spend.ended = a.now, true
	case hold:
		a.spend.expires, a.spend.spends = a.now+a.TTL.Microseconds(), a.OnExpiry == spend.SpendOnExpiry
	}
	if !a.Dated.IsZero() {
		date = a.Dated.UnixMicro()
	}
	if a.Method == "record" && a.overfills(a.rules, a.spend, a.n, a.now) {
		return spend.ErrAmount
	}
	if a.Method == "upTo" {
		a.least = a.Request.Least.Minor
	}
	a.asks, a.notesDeclines, a.more = a.Method != "record" && !a.Force, true, 1
	a.do = func() { a.charge(a.rules, a.ID, a.spend, hold, a.n, a.now, date) }
	return nil
}

// follow prepares a request about a hold.
func (a *attempt) follow() (err error) {
	s := a.spend
	switch {
	case s == nil || s.gone:
		return spend.ErrUnknownSpend
	case s.ended || s.expires == 0:
		err = spend.ErrHoldEnded
	case !s.alive(a.now):
		err = spend.ErrHoldExpired
	}
	held := s.held(a.now)
	switch a.Method {
	case "increase":
		if a.asks, a.base = true, s.gross; a.Request.Least.Minor > 0 {
			a.least = a.Request.Least.Minor
		}
		a.do = func() {
			s := a.changing(a.Of)
			s.gross += a.n
			s.parts = append(s.parts, modelPart{at: a.now, held: a.n})
		}
	case "decrease":
		if err == nil && a.n > held {
			err = spend.ErrExceeds
		}
		a.do = func() { a.Model.decrease(a.changing(a.Of), a.n, a.now) }
	case "extend":
		a.do = func() {
			s := a.changing(a.Of)
			if s.expires = max(s.expires, a.now+a.TTL.Microseconds()); a.OnExpiry != 0 {
				s.spends = a.OnExpiry == spend.SpendOnExpiry
			}
		}
	case "void":
		a.do = func() { a.end(a.changing(a.Of)) }
	case "capture":
		if err == nil && a.n > held {
			err = spend.ErrExceeds
		}
		if a.Force && a.n > 0 && (!s.spent || s.ended) {
			begun := *s
			if s.unborn() {
				begun.first = a.n
			}
			if err = nil; a.overfills(a.rules, &begun, a.n-held, a.now) {
				err = spend.ErrAmount
			}
		}
		a.do = func() { a.Model.capture(a.rules, a.changing(a.Of), a.n, a.now, a.Final) }
	}
	return err
}

// refunds prepares a refund.
func (a *attempt) refunds() error {
	s := a.spend
	if s == nil || s.gone {
		return spend.ErrUnknownSpend
	}
	left := s.refundable()
	if a.n > left && !a.Force {
		return spend.ErrExceeds
	}
	a.do = func() {
		a.Model.refund(a.rules, a.changing(a.Of), min(a.n, left), a.now)
		if a.n > left {
			a.Model.credit(a.rules, s.accounts, s.tags, a.n-left, s.first, a.now)
		}
	}
	return nil
}

// reverses prepares the reversal of refunds. Money that a cancellation has given back stays so.
func (a *attempt) reverses() error {
	s := a.spend
	if s == nil || s.gone {
		return spend.ErrUnknownSpend
	}
	if _, canceled := a.canceled[a.Of]; canceled || a.n > s.refunded() {
		return spend.ErrExceeds
	}
	a.do = func() { a.Model.reverse(a.rules, a.changing(a.Of), a.n, a.now) }
	if a.overfills(a.rules, s, a.n, a.now) {
		return spend.ErrAmount
	}
	return nil
}

// cancels prepares a cancellation: of a spend, of a request that was declined, or of an ID that was
// never sent.
func (a *attempt) cancels() error {
	before, known := a.known[a.ID]
	s := a.Model.spends[a.ID]
	switch {
	case known && before.account != a.Account:
		return spend.ErrRequest
	case known && s == nil && before.approved:
		return spend.ErrIDReused
	}
	if known && s != nil {
		a.spend, a.n = s, s.held(a.now)+s.refundable()
		a.do = func() { a.Model.cancel(a.rules, a.changing(a.ID), a.now) }
		return nil
	}
	a.alone, a.do = true, func() {
		if s != nil { // Prune has removed the ID, so it is free; the spend goes on counting
			a.rename(a.ID)
		}
		a.Model.begin(a.ID, &modelSpend{accounts: a.spend.accounts, ended: true})
	}
	return nil
}

// limits prepares a change of the account's own limits.
func (a *attempt) limits() error {
	var amounts []int64
	for _, l := range a.Request.Limits {
		at := slices.IndexFunc(a.rules(a.Account), func(r Rule) bool { return r.Name == l.Rule })
		if at < 0 {
			return spend.ErrBudget
		}
		r, n := a.rules(a.Account)[at], l.Amount.Minor
		has := a.usual(r, a.Account)
		if !l.Until.IsZero() {
			has = a.limit(r, a.Account, a.now)
		}
		if l.Add {
			n += has
		}
		switch {
		case l.If != nil && l.If.Minor != has:
			return spend.ErrRequest
		case n < 0:
			return spend.ErrAmount
		case n > r.Most:
			return spend.ErrBudget
		}
		amounts = append(amounts, n)
	}
	a.alone, a.do = true, func() {
		for i, l := range a.Request.Limits {
			key := a.Account + " " + l.Rule
			o := a.own[key]
			switch {
			case l.Default:
				o = own{}
			case l.Until.IsZero():
				o.set, o.amount = true, amounts[i]
			case l.Until.UnixMicro() > a.now: // else it has ended, and changes nothing
				o.until, o.raised = l.Until.UnixMicro(), amounts[i]
			}
			a.own[key] = o
		}
		a.decided(a.rules, []string{a.Account}, a.now)
	}
	return nil
}

// figures returns the figures of all rules after the decision. got is nil, or an answer, which may
// leave out the times at which rules have more room: the ledger need not look for them.
func (a *attempt) figures(got *Answer) (list []spend.Usage, wrong error) {
	for _, account := range a.spend.accounts {
		for _, r := range a.rules(account) {
			if r.each && a.alone {
				continue
			}
			u := a.figure(r.of(a.spend.tags), account, a.now)
			if i := len(list); got != nil && i < len(got.Decision.Remaining) {
				u.Account.Budget, u.GrowsAt = got.Decision.Remaining[i].Account.Budget, got.Decision.Remaining[i].GrowsAt
				if !u.GrowsAt.IsZero() && wrong == nil {
					wrong = a.grows(r.of(a.spend.tags), account, a.now, u.GrowsAt)
				}
			}
			list = append(list, u)
		}
	}
	return list, wrong
}

// figure returns the figures of a rule in an account at t, without the time at which it has more
// room.
func (m *Model) figure(r Rule, account string, t int64) spend.Usage {
	used, held, _ := m.usage(r, account, t)
	u := spend.Usage{
		Account: spend.Account{Name: account}, Rule: r.Name, Value: r.one, Limit: r.units(m.limit(r, account, t)),
		Used: r.units(used), Held: r.units(held), Remaining: r.units(m.room(r, account, t)),
	}
	if r.each {
		u.Tag = "category"
	}
	return u
}
