package spendtest

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"time"

	"github.com/brimgo/brim/spend"
)

// request is any request to a ledger.
type request struct {
	method  string // charge, authorize and so on
	id, of  string // of is the earlier request that an increase, a capture and so on are about
	account string
	also    []spend.Account
	amount  spend.Money
	least   spend.Money // of upTo
	tags    map[string]string
	varying []string // names of tags
	ttl     time.Duration
	expiry  spend.Expiry
	dated   time.Time
	hold    bool // of upTo
	final   bool
	force   bool
	limits  []spend.RuleLimit
	reason  string
	plan    string
}

// money returns the request of the calls that take a [spend.Request].
func (r request) money() spend.Request {
	return spend.Request{
		ID: r.id, Account: r.account, Also: r.also, Amount: r.amount, Tags: r.tags, Varying: r.varying, TTL: r.ttl,
		OnExpiry: r.expiry, Dated: r.dated, Forced: r.force,
	}
}

// send sends the request.
func (r request) send(b *spend.Budgets) (spend.Decision, error) {
	switch r.method {
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
		return b.UpTo(ctx, spend.UpToRequest{Request: r.money(), Least: r.least, Hold: r.hold})
	case "together":
		a := b.ChargeAll(ctx, []spend.Request{r.money()})[0]
		return a.Decision, a.Err
	case "increase":
		return b.Increase(ctx, spend.IncreaseRequest{ID: r.id, HoldID: r.of, Amount: r.amount, Least: r.least})
	case "decrease":
		return b.Decrease(ctx, spend.DecreaseRequest{ID: r.id, HoldID: r.of, Amount: r.amount})
	case "capture":
		return b.Capture(ctx, spend.CaptureRequest{ID: r.id, HoldID: r.of, Amount: r.amount, Final: r.final, Force: r.force})
	case "refund":
		return b.Refund(ctx, spend.RefundRequest{ID: r.id, SpendID: r.of, Amount: r.amount, Force: r.force})
	case "void":
		return b.Void(ctx, spend.VoidRequest{ID: r.id, HoldID: r.of})
	case "extend":
		return b.Extend(ctx, spend.ExtendRequest{ID: r.id, HoldID: r.of, TTL: r.ttl, OnExpiry: r.expiry})
	case "freeze":
		return b.Freeze(ctx, spend.FreezeRequest{ID: r.id, Account: r.account, Reason: r.reason})
	case "unfreeze":
		return b.Unfreeze(ctx, spend.FreezeRequest{ID: r.id, Account: r.account, Reason: r.reason})
	case "mend":
		return b.Mend(ctx, spend.FreezeRequest{ID: r.id, Account: r.account, Reason: r.reason})
	case "cancel":
		return b.Cancel(ctx, r.id, r.account)
	case "plan":
		return b.SetPlan(ctx, spend.PlanRequest{ID: r.id, Account: r.account, Plan: r.plan})
	case "limit":
		return b.SetLimits(ctx, spend.LimitsRequest{ID: r.id, Account: r.account, Limits: r.limits})
	}
	panic("no such method: " + r.method)
}

// player makes random requests, and tells of them. Its budgets have names of their own, so that no two
// players share an account.
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
func (p *player) payment(method, account string, n int64) request {
	r := request{method: method, id: p.id(), account: account, amount: money(n)}
	if p.r.IntN(2) == 0 {
		r.tags = map[string]string{"category": []string{"travel", "food"}[p.r.IntN(2)]}
	}
	if p.r.IntN(4) == 0 {
		tags := map[string]string{"trace": r.id}
		maps.Copy(tags, r.tags)
		r.tags, r.varying = tags, []string{"trace"}
	}
	return r
}

// budget returns a budget with the rules of the model.
func budget(name string, rules []modelRule) spend.Budget {
	b := spend.Budget{Name: name, Currency: "EUR"}
	for _, r := range rules {
		b.Rules = append(b.Rules, r.rule())
	}
	return b
}
