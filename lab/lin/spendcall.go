package lin

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/brimgo/brim/lab/internal/history"
	"github.com/brimgo/brim/spend"
	"github.com/brimgo/brim/spend/ledger"
	"github.com/brimgo/brim/spend/spendtest"
	"github.com/brimgo/brim/store"
)

// verb is the kind of a request to a ledger.
type verb string

// The requests.
const (
	authorize verb = "authorize"
	charge    verb = "charge"
	record    verb = "record"
	increase  verb = "increase"
	capture   verb = "capture"
	void      verb = "void"
	refund    verb = "refund"
	reverse   verb = "reverse"
	cancelID  verb = "cancel"
	upTo      verb = "upTo"
	decrease  verb = "decrease"
	extend    verb = "extend"
	credit    verb = "credit"
	setLimits verb = "limit"
	freeze    verb = "freeze"
	unfreeze  verb = "unfreeze"
	mend      verb = "mend"
	move      verb = "move"  // the account gets another name; callers go on with its first one
	setRules  verb = "rules" // of a budget
	remaining verb = "remaining"
	tick      verb = "tick" // the history's clock moves
)

// spendRequest is a call on a ledger. A request with the number of an earlier one is the same
// request, sent again. The cancellation of a request has its number, below 0.
type spendRequest struct {
	Verb    verb
	Number  int
	Spend   int // the number of the request that began the spend
	Account int
	Amount  int64
	Least   int64 // of upTo
	Hold    bool  // upTo holds the money
	Rule    int   // of setLimits
	Default bool  // setLimits takes the account's own limits away
	Add     bool  // setLimits adds the amount to the limit
	Force   bool  // whatever the rules say: authorize, capture, refund
	Until   int   // seconds from the start to the end of the limit; 0: no end
	Final   bool
	Shared  bool  // the money counts against the budget of the team, too
	Other   bool  // by the other process
	Starts  bool  // by a process that starts, with the first rules or with those that it sets
	Joined  bool  // a charge in a transaction of the caller's
	Rules   Rules // of setRules
	Seconds int
}

func (q spendRequest) String() string {
	text := fmt.Sprintf("%s account %d", q.Verb, q.Account)
	if q.Number != 0 {
		text += fmt.Sprintf(" request %d", q.Number)
	}
	if q.Spend != 0 {
		text += fmt.Sprintf(" of spend %d", q.Spend)
	}
	if q.Amount != 0 {
		text += fmt.Sprintf(" amount %d", q.Amount)
	}
	if q.Least != 0 {
		text += fmt.Sprintf(" at least %d", q.Least)
	}
	if q.Verb == setLimits {
		text += fmt.Sprintf(" of rule %d until %d s", q.Rule, q.Until)
	}
	if q.Verb == setRules {
		text += fmt.Sprintf(" %+v", q.Rules)
	}
	for name, set := range map[string]bool{
		"final": q.Final, "forced": q.Force, "default": q.Default, "added": q.Add, "joined": q.Joined,
		"by the other process": q.Other, "by a process that starts": q.Starts,
	} {
		if set {
			text += " " + name
		}
	}
	return text
}

func (q spendRequest) ticks() int { return q.Seconds }

func (q spendRequest) writes(out response) bool {
	a, ok := out.(spendAnswer)
	return q.Verb != remaining && !(ok && (a.Mistake != "" || a.Replayed))
}

// team is the number of the account that shared spends count against, too.
const team = 3

func (q spendRequest) touches() []int {
	switch {
	case q.Verb == tick:
		return nil
	case q.Verb == setRules && q.Account != team:
		return []int{0, 1, 2}
	case q.Shared:
		return []int{q.Account, team}
	}
	return []int{q.Account}
}

// spendAnswer is the answer to a spendRequest. That of remaining has nothing but Remaining.
type spendAnswer struct {
	Err     history.Failure
	Text    string
	Odd     bool   // the error tells nothing about the outcome
	Mistake string // the error of a request that cannot be
	spend.Decision
}

func (a spendAnswer) failure() history.Failure { return a.Err }

func (a spendAnswer) odd() string {
	if a.Odd {
		return a.Text
	}
	return ""
}

func (a spendAnswer) String() string {
	var b strings.Builder
	switch {
	case a.Err != "":
		return string(a.Err)
	case a.Mistake != "":
		return a.Mistake
	case a.Remaining == nil: // rules
		return "done"
	case a.Approved:
		fmt.Fprintf(&b, "approved %d, ", a.Amount.Minor)
	}
	if a.Replayed {
		b.WriteString("as before, ")
	}
	b.WriteString("used and held")
	for _, u := range a.Remaining {
		fmt.Fprintf(&b, " %d %d", u.Used.Minor, u.Held.Minor)
	}
	fmt.Fprintf(&b, " at %v", seconds([]int64{a.At.UnixMicro()}))
	return b.String()
}

// budget is a budget with three accounts and the budget of their team. Both begin with the same
// rules.
type budget struct {
	Prefix string // of all names, so that histories share a ledger
	First  Rules
	TTL    time.Duration
}

// Rules are a revision of the rules of a budget.
type Rules struct {
	Revision                 int64
	Single, Lifetime, Window int64 // amounts of rules
	Length                   time.Duration
	Extra                    bool // the budget has the rule extra, of the amount Lifetime
}

// The rules of a budget, by number. A credit makes room in the rules lifetime and extra.
const (
	single = iota
	lifetime
	window
	extra
	rules // the number of rules
)

// ruleNames are the names of the rules, by number.
var ruleNames = [rules]string{"single", "lifetime", "window", "extra"}

// list returns the rules as the model has them.
func (r Rules) list() []spendtest.Rule {
	rule := func(kind string, number int, limit int64) spendtest.Rule {
		return spendtest.Rule{Kind: kind, Name: ruleNames[number], Limit: limit, Most: limit, Credits: kind == "lifetime"}
	}
	list := []spendtest.Rule{
		single: rule("single", single, r.Single), lifetime: rule("lifetime", lifetime, r.Lifetime),
		window: rule("rolling", window, r.Window), extra: rule("lifetime", extra, r.Lifetime),
	}
	list[window].Width = r.Length.Microseconds()
	if !r.Extra {
		return list[:extra]
	}
	return list
}

func eur(n int64) spend.Money { return spend.Money{Minor: n, Currency: "EUR"} }

// budgets sends requests to a ledger, as a process.
type budgets struct {
	b      *budget
	ledger ledger.Ledger
	main   *spend.Budgets
	team   *spend.Budgets
	other  *budgets // of another process
	// join calls a function in a transaction of the caller's, with the budgets of the ledger that
	// has joined it.
	join func(ctx context.Context, do func(*budgets) error) error
}

// over returns the budgets of two processes.
func (b *budget) over(ctx context.Context, l ledger.Ledger) (*budgets, error) {
	s, err := b.process(ctx, l)
	if err == nil {
		s.other, err = b.process(ctx, l)
	}
	return s, err
}

// process returns the budgets of a process that starts with the first rules.
func (b *budget) process(ctx context.Context, l ledger.Ledger) (s *budgets, err error) {
	s = &budgets{b: b, ledger: l}
	s.main, err = spend.New(ctx, l, b.declared(0, b.First), &spend.Options{Budgets: []spend.Budget{b.declared(team, b.First)}, HoldTTL: b.TTL})
	if err == nil {
		s.team, err = s.main.ForBudget(ctx, b.Prefix+"team")
	}
	return s, err
}

// with returns the budgets over the ledger of a transaction of the caller's.
func (s *budgets) with(l ledger.Ledger) *budgets {
	joined := &budgets{b: s.b, ledger: l, main: s.main.With(l), team: s.team.With(l)}
	if s.other != nil {
		joined.other = s.other.with(l)
	}
	return joined
}

// declared returns rules of the budget of an account.
func (b *budget) declared(account int, r Rules) spend.Budget {
	all := spend.Budget{Name: b.Prefix + "card", Currency: "EUR", Revision: r.Revision, Retired: []string{ruleNames[extra]}}
	if account == team {
		all.Name = b.Prefix + "team"
	}
	for _, one := range r.list() {
		all.Rules = append(all.Rules, one.Rule())
	}
	return all
}

func (b *budget) id(number int) string { return fmt.Sprintf("%s%d", b.Prefix, number) }

// account returns the name of an account in its budget.
func (b *budget) account(n int) string {
	if n == team {
		return "all"
	}
	return fmt.Sprint(n)
}

// call sends a request.
func (s *budgets) call(ctx context.Context, q spendRequest) spendAnswer {
	var d spend.Decision
	var err error
	if q.Joined {
		err = s.join(ctx, func(joined *budgets) (err error) {
			d, err = joined.send(ctx, q)
			return err
		})
	} else {
		d, err = s.send(ctx, q)
	}
	firstNames(&d)
	a := answerOf(d, err)
	if q.Verb == remaining && a.Err == history.Unknown && !errors.Is(err, store.ErrUnknownOutcome) {
		a.Err = history.NotApplied // a question decides nothing
	}
	return a
}

// firstNames gives the accounts of an answer the names that they had first.
func firstNames(d *spend.Decision) {
	first := func(a *spend.Account) { a.Name, _, _ = strings.Cut(a.Name, " ") }
	for i := range d.Remaining {
		first(&d.Remaining[i].Account)
	}
	for i := range d.Declines {
		first(&d.Declines[i].Account)
	}
	for i := range d.Crossed {
		first(&d.Crossed[i].Account)
	}
	for i := range d.Shadow {
		first(&d.Shadow[i].Account)
	}
}

func (s *budgets) send(ctx context.Context, q spendRequest) (d spend.Decision, err error) {
	switch {
	case q.Verb == setRules && q.Starts:
		_, err = spend.New(ctx, s.ledger, s.b.declared(q.Account, q.Rules), &spend.Options{HoldTTL: s.b.TTL})
		return d, err
	case q.Starts:
		if s, err = s.b.process(ctx, s.ledger); err != nil {
			return d, err
		}
	case q.Other:
		s = s.other
	}
	on := s.of(q.Account)
	switch q.Verb {
	case setRules:
		err = on.SetRules(ctx, s.b.declared(q.Account, q.Rules), nil)
	case remaining:
		d.Remaining, err = on.Remaining(ctx, s.b.account(q.Account))
	default:
		d, err = s.b.request(q).Send(ctx, on)
	}
	return d, err
}

// times returns the times of the entries that a request has made. The result is nil if there are
// none.
func (s *budgets) times(ctx context.Context, q spendRequest) (all []int64, err error) {
	r := s.b.request(q)
	for e, err := range s.of(q.Account).History(ctx, s.b.account(q.Account), nil) {
		if err != nil {
			return nil, err
		}
		if e.RequestID == r.ID && (e.Kind == string(cancelID)) == (q.Verb == cancelID) {
			all = append(all, e.At.UnixMicro())
		}
	}
	return all, nil
}

// of returns the budget of an account.
func (s *budgets) of(account int) *spend.Budgets {
	if account == team {
		return s.team
	}
	return s.main
}

// request is the request of a call that decides.
func (b *budget) request(q spendRequest) spendtest.Request {
	r := spendtest.Request{
		Method: string(q.Verb), ID: b.id(max(q.Number, -q.Number)), Amount: eur(q.Amount), Hold: q.Hold, Final: q.Final, Force: q.Force,
	}
	switch q.Verb {
	case authorize, extend:
		r.TTL = b.TTL
	case upTo:
		if r.Least = eur(q.Least); q.Hold {
			r.TTL = b.TTL
		}
	case setLimits:
		r.Amount, r.Limits = spend.Money{}, []spend.RuleLimit{q.limit()}
	case freeze, mend:
		r.Reason = "lost"
	case move:
		r.Reason, r.To = "lost", fmt.Sprint(b.account(q.Account), " ", q.Number)
	}
	if q.Spend != 0 {
		r.Of = b.id(q.Spend)
		return r
	}
	if r.Account = b.account(q.Account); q.Shared && q.Verb != cancelID {
		r.Also = []spend.Account{{Budget: b.Prefix + "team", Name: b.account(team)}}
	}
	return r
}

// limit is the limit of setLimits.
func (q spendRequest) limit() spend.RuleLimit {
	l := spend.RuleLimit{Rule: ruleNames[q.Rule], Default: q.Default, Add: q.Add}
	if q.Default {
		return l
	}
	l.Amount = eur(q.Amount)
	if q.Until != 0 {
		l.Until = history.At(q.Until)
	}
	return l
}

// moves reports whether the request begins a spend of money that has moved already.
func (q spendRequest) moves() bool { return q.Verb == record || q.Verb == authorize && q.Force }

// mistakes are the errors that follow from the state of a spend, of a limit, of an account that
// nobody has used, or of an ID. They are answers.
var mistakes = [...]error{
	spend.ErrIDReused, spend.ErrAmount, spend.ErrBudget, spend.ErrRequest, spend.ErrUnknownSpend, spend.ErrHoldEnded, spend.ErrHoldExpired, spend.ErrExceeds,
}

func answerOf(d spend.Decision, err error) spendAnswer {
	for _, m := range mistakes {
		if errors.Is(err, m) {
			return spendAnswer{Mistake: m.Error()}
		}
	}
	switch {
	// Package spend documents both as calls that may have been decided.
	case errors.Is(err, store.ErrUnknownOutcome), errors.Is(err, context.DeadlineExceeded):
		return spendAnswer{Err: history.Unknown, Text: err.Error()}
	case err != nil:
		return spendAnswer{Err: history.NotApplied, Text: err.Error(), Odd: history.Odd(err)}
	}
	return spendAnswer{Decision: d}
}

// mistake returns the error of a request that cannot be.
func (a spendAnswer) mistake() error {
	for _, m := range mistakes {
		if m.Error() == a.Mistake {
			return m
		}
	}
	return nil
}
