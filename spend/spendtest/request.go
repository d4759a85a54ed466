package spendtest

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"time"

	"github.com/brimgo/brim/spend"
)

// Request is any request to a ledger. Only some fields are of use to each Method.
type Request struct {
	Method   string // charge, authorize, record, credit, able, upTo, increase, decrease, capture, refund, reverse, void, ...; see Send
	ID, Of   string // Of is the earlier request that an increase, a capture and so on are about
	Account  string
	Also     []spend.Account
	Amount   spend.Money
	Least    spend.Money // of upTo and increase
	Tags     map[string]string
	Varying  []string // names of tags
	TTL      time.Duration
	OnExpiry spend.Expiry
	Dated    time.Time
	Hold     bool // of upTo
	Final    bool
	Force    bool
	Limits   []spend.RuleLimit
	Reason   string
	Plan     string
	To       string // of move
}

// accounts returns the accounts of a request that names some.
func (r Request) accounts() []string {
	list := []string{r.Account}
	for _, a := range r.Also {
		list = append(list, a.Name)
	}
	return list
}

// money returns the request of the calls that take a [spend.Request].
func (r Request) money() spend.Request {
	return spend.Request{
		ID: r.ID, Account: r.Account, Also: r.Also, Amount: r.Amount, Tags: r.Tags, Varying: r.Varying, TTL: r.TTL,
		OnExpiry: r.OnExpiry, Dated: r.Dated, Forced: r.Force,
	}
}

// Send sends the request.
func (r Request) Send(ctx context.Context, b *spend.Budgets) (spend.Decision, error) {
	switch r.Method {
	case "charge":
		return b.Charge(ctx, r.money())
	case "authorize":
		return b.Authorize(ctx, r.money())
	case "record":
		return b.Record(ctx, r.money())
	case "credit":
		return b.Credit(ctx, r.money())
	case "able":
		return b.AbleToAccept(ctx, r.money())
	case "upTo":
		return b.UpTo(ctx, spend.UpToRequest{Request: r.money(), Least: r.Least, Hold: r.Hold})
	case "together":
		a := b.ChargeAll(ctx, []spend.Request{r.money()})[0]
		return a.Decision, a.Err
	case "increase":
		return b.Increase(ctx, spend.IncreaseRequest{ID: r.ID, HoldID: r.Of, Amount: r.Amount, Least: r.Least})
	case "decrease":
		return b.Decrease(ctx, spend.DecreaseRequest{ID: r.ID, HoldID: r.Of, Amount: r.Amount})
	case "capture":
		return b.Capture(ctx, spend.CaptureRequest{ID: r.ID, HoldID: r.Of, Amount: r.Amount, Final: r.Final, Force: r.Force})
	case "refund":
		return b.Refund(ctx, spend.RefundRequest{ID: r.ID, SpendID: r.Of, Amount: r.Amount, Force: r.Force})
	case "reverse":
		return b.ReverseRefund(ctx, spend.ReverseRequest{ID: r.ID, SpendID: r.Of, Amount: r.Amount})
	case "void":
		return b.Void(ctx, spend.VoidRequest{ID: r.ID, HoldID: r.Of})
	case "extend":
		return b.Extend(ctx, spend.ExtendRequest{ID: r.ID, HoldID: r.Of, TTL: r.TTL, OnExpiry: r.OnExpiry})
	case "freeze":
		return b.Freeze(ctx, spend.FreezeRequest{ID: r.ID, Account: r.Account, Reason: r.Reason})
	case "unfreeze":
		return b.Unfreeze(ctx, spend.FreezeRequest{ID: r.ID, Account: r.Account, Reason: r.Reason})
	case "mend":
		return b.Mend(ctx, spend.FreezeRequest{ID: r.ID, Account: r.Account, Reason: r.Reason})
	case "cancel":
		return b.Cancel(ctx, r.ID, r.Account)
	case "plan":
		return b.SetPlan(ctx, spend.PlanRequest{ID: r.ID, Account: r.Account, Plan: r.Plan})
	case "move":
		return b.MoveAccount(ctx, spend.MoveRequest{ID: r.ID, Account: r.Account, To: r.To, Reason: r.Reason})
	case "limit":
		return b.SetLimits(ctx, spend.LimitsRequest{ID: r.ID, Account: r.Account, Limits: r.Limits})
	}
	return spend.Decision{}, fmt.Errorf("spendtest: there is no method %q; see the names in Send", r.Method)
}

// player makes random requests, and tells of them. Its budgets have names of their own, so that no
// two players share an account.
type player struct {
	clock *testClock
	r     *rand.Rand
	name  string
	ids   int
	told  []string
}

func (p *player) tell(format string, args ...any) {
	at := time.UnixMicro(p.now()).UTC().Format("2006-01-02 15:04:05.999999 ")
	p.told = append(p.told, "  "+at+fmt.Sprintf(format, args...)+"\n")
}

func (p *player) now() int64 { return p.clock.us.Load() }

func (p *player) id() string {
	p.ids++
	return fmt.Sprintf("%s-%d", p.name, p.ids)
}

// payment returns a request for n units, with tags or without.
func (p *player) payment(method, account string, n int64) Request {
	r := Request{Method: method, ID: p.id(), Account: account, Amount: money(n)}
	if p.r.IntN(2) == 0 {
		r.Tags = map[string]string{"category": []string{"travel", "food"}[p.r.IntN(2)]}
	}
	if p.r.IntN(4) == 0 {
		tags := map[string]string{"trace": r.ID}
		maps.Copy(tags, r.Tags)
		r.Tags, r.Varying = tags, []string{"trace"}
	}
	return r
}

// budget returns a budget with the rules of the model.
func budget(name string, rules []Rule) spend.Budget {
	b := spend.Budget{Name: name, Currency: "EUR"}
	for _, r := range rules {
		b.Rules = append(b.Rules, r.Rule())
	}
	return b
}
