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
	upTo      verb = "up to"
	decrease  verb = "decrease"
	extend    verb = "extend"
	credit    verb = "credit"
	setLimits verb = "set limits"
	freeze    verb = "freeze"
	unfreeze  verb = "unfreeze"
	mend      verb = "mend"
	forget    verb = "forget" // the rule retired of the team
	remaining verb = "remaining"
	tick      verb = "tick" // the history's clock moves
)

// spendRequest is a call on a ledger. A request with the number of an earlier one is the same
// request, sent again.
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
	Until   int   // seconds from the start to the end of the limit; 0: no end
	Final   bool
	Shared  bool // the money counts against the budget of the team, too
	Old     bool // by a process that still has the rule retired
	Joined  bool // a charge in a transaction of the caller's
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
	for name, set := range map[string]bool{"final": q.Final, "default": q.Default, "joined": q.Joined, "by the old process": q.Old} {
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
	case q.Shared:
		return []int{q.Account, team}
	}
	return []int{q.Account}
}

// spendAnswer is the answer to a spendRequest.
type spendAnswer struct {
	Err      history.Failure
	Text     string
	Odd      bool   // the error tells nothing about the outcome
	Mistake  string // the error of a request that cannot be
	Approved bool
	Replayed bool
	At       int64
	Amount   int64    // that the request has moved
	Figures  []figure // of each rule of each account
}

// figure is the used and the held amount of a rule.
type figure struct{ Used, Held int64 }

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
	case a.Approved:
		fmt.Fprintf(&b, "approved %d, ", a.Amount)
	}
	if a.Replayed {
		b.WriteString("as before, ")
	}
	fmt.Fprintf(&b, "used and held %v at %v", a.Figures, seconds([]int64{a.At}))
	return b.String()
}

// budget is a budget with three accounts and the budget of their team. All have the same rules.
type budget struct {
	Prefix                   string // of all names, so that histories share a ledger
	Single, Lifetime, Window int64  // amounts of rules
	Length, TTL              time.Duration
}

// The rules of a budget, by number. A credit makes room in the rule lifetime, and in the rule retired,
// which the team has in the old process alone.
const (
	single = iota
	lifetime
	window
	retired
	rules = retired // the number of rules of a budget in a new process
)

func (b *budget) rules() []spend.Rule {
	return []spend.Rule{
		single:   spend.PerTransaction("single", eur(b.Single)),
		lifetime: spend.Lifetime("lifetime", eur(b.Lifetime)).CountsCredits(),
		window:   spend.Rolling("window", eur(b.Window), b.Length),
		retired:  spend.Lifetime("retired", eur(b.Lifetime)).CountsCredits(),
	}
}

// ruleNames are the names of the rules, by number.
var ruleNames = [rules]string{"single", "lifetime", "window"}

func eur(n int64) spend.Money { return spend.Money{Minor: n, Currency: "EUR"} }

// budgets sends requests to a ledger.
type budgets struct {
	b    *budget
	main *spend.Budgets
	team *spend.Budgets
	old  *budgets // of the old process
	// join calls a function in a transaction of the caller's, with the budgets of the ledger that
	// has joined it.
	join func(ctx context.Context, do func(*budgets) error) error
}

func (b *budget) over(l ledger.Ledger) (*budgets, error) {
	s, err := b.process(l, b.rules()[:rules])
	if err == nil {
		s.old, err = b.process(l, b.rules())
	}
	return s, err
}

// process returns the budgets of a process, whose team has some rules.
func (b *budget) process(l ledger.Ledger, ofTeam []spend.Rule) (*budgets, error) {
	name := b.Prefix + "card"
	main, err := spend.New(l, spend.Budget{Name: name, Currency: "EUR", Rules: b.rules()[:rules]}, &spend.Options{
		Budgets: []spend.Budget{{Name: b.Prefix + "team", Currency: "EUR", Rules: ofTeam}},
		HoldTTL: b.TTL,
	})
	if err != nil {
		return nil, err
	}
	all, err := main.ForBudget(b.Prefix + "team")
	return &budgets{b: b, main: main, team: all}, err
}

func (s *budgets) id(number int) string { return fmt.Sprintf("%s%d", s.b.Prefix, number) }

// of returns the budgets of an account, and the account's name in them.
func (s *budgets) of(account int) (*spend.Budgets, string) {
	if account == team {
		return s.team, "all"
	}
	return s.main, fmt.Sprint(account)
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
	a := answerOf(d, err)
	if q.Verb == remaining && a.Err == history.Unknown && !errors.Is(err, store.ErrUnknownOutcome) {
		a.Err = history.NotApplied // a question decides nothing
	}
	return a
}

func (s *budgets) send(ctx context.Context, q spendRequest) (d spend.Decision, err error) {
	if q.Old {
		s = s.old
	}
	on, account := s.of(q.Account)
	amount := eur(q.Amount)
	r := spend.Request{ID: s.id(q.Number), Account: account, Amount: amount}
	if q.Shared {
		r.Also = []spend.Account{{Budget: s.b.Prefix + "team", Name: "all"}}
	}
	hold := s.id(q.Spend)
	switch q.Verb {
	case authorize:
		d, err = on.Authorize(ctx, r)
	case charge:
		d, err = on.Charge(ctx, r)
	case record:
		d, err = on.Record(ctx, r)
	case upTo:
		d, err = on.UpTo(ctx, spend.UpToRequest{Request: r, Least: eur(q.Least), Hold: q.Hold})
	case credit:
		d, err = on.Credit(ctx, r)
	case increase:
		d, err = on.Increase(ctx, spend.IncreaseRequest{ID: r.ID, HoldID: hold, Amount: amount})
	case decrease:
		d, err = on.Decrease(ctx, spend.DecreaseRequest{ID: r.ID, HoldID: hold, Amount: amount})
	case extend:
		d, err = on.Extend(ctx, spend.ExtendRequest{ID: r.ID, HoldID: hold})
	case capture:
		d, err = on.Capture(ctx, spend.CaptureRequest{ID: r.ID, HoldID: hold, Amount: amount, Final: q.Final})
	case void:
		d, err = on.Void(ctx, spend.VoidRequest{ID: r.ID, HoldID: hold})
	case refund:
		d, err = on.Refund(ctx, spend.RefundRequest{ID: r.ID, SpendID: hold, Amount: amount})
	case setLimits:
		d, err = on.SetLimits(ctx, spend.LimitsRequest{ID: r.ID, Account: account, Limits: []spend.RuleLimit{q.limit()}})
	case freeze:
		d, err = on.Freeze(ctx, spend.FreezeRequest{ID: r.ID, Account: account, Reason: "lost"})
	case unfreeze:
		d, err = on.Unfreeze(ctx, spend.FreezeRequest{ID: r.ID, Account: account})
	case mend:
		d, err = on.Mend(ctx, spend.FreezeRequest{ID: r.ID, Account: account, Reason: "ahead"})
	case forget:
		d.Amount.Minor, err = on.ForgetRule(ctx, "retired", "no process has it")
	case remaining:
		d.Remaining, err = on.Remaining(ctx, account)
	}
	return d, err
}

// limit is the limit of setLimits.
func (q spendRequest) limit() spend.RuleLimit {
	l := spend.RuleLimit{Rule: ruleNames[q.Rule], Default: q.Default}
	if q.Default {
		return l
	}
	l.Amount = eur(q.Amount)
	if q.Until != 0 {
		l.Until = history.At(q.Until)
	}
	return l
}

// mistakes are the errors that follow from the state of a spend. They are answers.
var mistakes = [...]error{
	spend.ErrUnknownSpend, spend.ErrHoldEnded, spend.ErrHoldExpired, spend.ErrNotHeld, spend.ErrNotCaptured,
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
	a := spendAnswer{Approved: d.Approved, Replayed: d.Replayed, Amount: d.Amount.Minor}
	if !d.At.IsZero() {
		a.At = d.At.UnixMicro()
	}
	for _, u := range d.Remaining {
		a.Figures = append(a.Figures, figure{u.Used.Minor, u.Held.Minor})
	}
	return a
}
