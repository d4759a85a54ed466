package serverload

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/brimgo/brim/spend"
	"github.com/brimgo/brim/spend/ledger"
	"github.com/brimgo/brim/store"
)

// The calls of [Ledger].
const (
	Charge  Kind = "charge"  // Charge
	Record  Kind = "record"  // Record
	Settle  Kind = "settle"  // Authorize, then Capture
	Void    Kind = "void"    // Authorize, then Void
	Refund  Kind = "refund"  // Charge, then Refund
	Enlarge Kind = "enlarge" // Authorize, then Increase
	Lessen  Kind = "lessen"  // Authorize, then Decrease
	Extend  Kind = "extend"  // Authorize, then Extend
	Both    Kind = "both"    // Charge of two accounts
	Joined  Kind = "joined"  // Charge of two accounts in a transaction of the caller's
	Credit  Kind = "credit"  // Credit
	UpTo    Kind = "up to"   // UpTo, which finds room for all
	Limits  Kind = "limits"  // SetLimits
	Freeze  Kind = "freeze"  // Freeze, then Unfreeze, of an account of the call's own
)

// entries holds the kinds of the ledger's entries that the steps of each kind of call cause.
var entries = map[Kind][]string{
	Charge:  {"spend"},
	Record:  {"record"},
	Settle:  {"authorize", "capture"},
	Void:    {"authorize", "void"},
	Refund:  {"spend", "refund"},
	Enlarge: {"authorize", "increase"},
	Lessen:  {"authorize", "decrease"},
	Extend:  {"authorize", "extend"},
	Both:    {"spend"},
	Joined:  {"spend"},
	Credit:  {"credit"},
	UpTo:    {"spend"},
	Limits:  {"limits"},
	Freeze:  {"freeze", "unfreeze"},
}

const currency = "EUR"

// budgets of the load. Every spend of it is approved.
var (
	cards = spend.Budget{Name: "cards", Currency: currency, Rules: []spend.Rule{
		spend.Lifetime("ever", euros(1_000_000_000)),
		spend.Rolling("month", euros(1_000_000_000), 30*24*time.Hour).CountsCredits(),
	}}
	teams = spend.Budget{Name: "teams", Currency: currency, Rules: []spend.Rule{
		spend.Leaky("day", euros(1_000_000_000), 24*time.Hour),
	}}
)

func euros(n int64) spend.Money { return spend.Money{Minor: n * 100, Currency: currency} }

// Ledger is the subject of a ledger of package pgledger.
type Ledger struct {
	b, sound *spend.Budgets
	brief    *spend.Budgets // for Prune
	with     func(pgx.Tx) ledger.Ledger
	pool     *pgxpool.Pool
}

// Joiner is a ledger that can join a transaction.
type Joiner interface {
	ledger.Ledger
	With(tx pgx.Tx) ledger.Ledger
}

// NewLedger returns the subject of a ledger. pool is for the caller's own transactions. sound is
// the ledger that is looked at: l, unless l has a defect or is under attack.
func NewLedger(l Joiner, pool *pgxpool.Pool, sound ledger.Ledger) (*Ledger, error) {
	b, err := newBudgets(l)
	if err != nil {
		return nil, err
	}
	looker, err := newBudgets(sound)
	if err != nil {
		return nil, err
	}
	short, err := newBrief(l)
	if err != nil {
		return nil, err
	}
	return &Ledger{b: b, sound: looker, brief: short, with: l.With, pool: pool}, nil
}

func newBudgets(l ledger.Ledger) (*spend.Budgets, error) {
	return spend.New(l, cards, &spend.Options{Budgets: []spend.Budget{teams}})
}

// Kinds returns all kinds.
func (l *Ledger) Kinds() []Kind {
	return []Kind{
		Charge, Record, Settle, Void, Refund, Enlarge, Lessen, Extend, Both, Joined, Credit, UpTo, Limits, Freeze,
	}
}

// Steps returns the number of steps of a kind.
func (l *Ledger) Steps(k Kind) int { return len(entries[k]) }

// Once reports true: a request that is sent again with its ID has one effect.
func (l *Ledger) Once() bool { return true }

// id is the ID of the request of a step.
func id(c Call, step int) string { return fmt.Sprint(c.ID, "/", entries[c.Kind][step]) }

// accountOf returns the account of place n: the first place is a card, the second a team. A call
// that freezes its card shares it with no other.
func accountOf(c Call, n int) spend.Account {
	if c.Kind == Freeze {
		return spend.Account{Budget: cards.Name, Name: "frozen by " + c.ID}
	}
	return spend.Account{Budget: [...]string{cards.Name, teams.Name}[n], Name: c.Places[n].Key}
}

// Do carries out a step.
func (l *Ledger) Do(ctx context.Context, c Call, step int) error {
	request := spend.Request{ID: id(c, step), Account: accountOf(c, 0).Name, Amount: euros(3)}
	if len(c.Places) > 1 {
		request.Also = []spend.Account{accountOf(c, 1)}
	}
	one, hold := euros(1), id(c, 0)
	var d spend.Decision
	var err error
	switch entries[c.Kind][step] {
	case "authorize":
		d, err = l.b.Authorize(ctx, request)
	case "record":
		d, err = l.b.Record(ctx, request)
	case "capture":
		d, err = l.b.Capture(ctx, spend.CaptureRequest{ID: request.ID, HoldID: hold, Amount: request.Amount, Final: true})
	case "void":
		d, err = l.b.Void(ctx, spend.VoidRequest{ID: request.ID, HoldID: hold})
	case "refund":
		d, err = l.b.Refund(ctx, spend.RefundRequest{ID: request.ID, SpendID: hold, Amount: one})
	case "increase":
		d, err = l.b.Increase(ctx, spend.IncreaseRequest{ID: request.ID, HoldID: hold, Amount: one})
	case "decrease":
		d, err = l.b.Decrease(ctx, spend.DecreaseRequest{ID: request.ID, HoldID: hold, Amount: one})
	case "extend":
		d, err = l.b.Extend(ctx, spend.ExtendRequest{ID: request.ID, HoldID: hold, TTL: 2 * spend.DefaultHoldTTL})
	case "credit":
		d, err = l.b.Credit(ctx, request)
	case "limits":
		lower := spend.RuleLimit{Rule: "ever", Amount: euros(900_000_000)}
		d, err = l.b.SetLimits(ctx, spend.LimitsRequest{ID: request.ID, Account: request.Account, Limits: []spend.RuleLimit{lower}})
	case "freeze":
		d, err = l.b.Freeze(ctx, spend.FreezeRequest{ID: request.ID, Account: request.Account, Reason: "lost"})
	case "unfreeze":
		d, err = l.b.Unfreeze(ctx, spend.FreezeRequest{ID: request.ID, Account: request.Account})
	default:
		switch c.Kind {
		case Joined:
			return l.joined(ctx, request)
		case UpTo:
			d, err = l.b.UpTo(ctx, spend.UpToRequest{Request: request, Least: one})
			d.Approved = d.Approved && d.Amount == request.Amount
		default:
			d, err = l.b.Charge(ctx, request)
		}
	}
	return approved(d, err)
}

// approved returns an error unless d is an approval. An error of the context leaves the outcome of
// a request open.
func approved(d spend.Decision, err error) error {
	switch {
	case err == nil && !d.Approved:
		return errRefused
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("%w: %w", store.ErrUnknownOutcome, err)
	}
	return err
}

func (l *Ledger) joined(ctx context.Context, r spend.Request) error {
	return within(ctx, l.pool, func(tx pgx.Tx) error {
		b, err := newBudgets(l.with(tx))
		if err != nil {
			return err
		}
		d, err := b.Charge(ctx, r)
		if err == nil && !d.Approved {
			err = errRefused
		}
		return err
	})
}

// Look reads the entries of all accounts, and verifies the accounts' figures.
func (l *Ledger) Look(ctx context.Context, calls []Call) ([]int, error) {
	found := make(map[spend.Account]map[string]int)
	for _, c := range calls {
		for n := range c.Places {
			account := accountOf(c, n)
			if found[account] != nil {
				continue
			}
			found[account] = make(map[string]int)
			b, err := l.sound.ForBudget(account.Budget)
			if err != nil {
				return nil, err
			}
			if err := b.Verify(ctx, account.Name); err != nil {
				return nil, err
			}
			for e, err := range b.History(ctx, account.Name, nil) {
				if err != nil {
					return nil, err
				}
				found[account][e.RequestID+" "+e.Kind]++
			}
		}
	}
	stages := make([]int, len(calls))
	for i, c := range calls {
		agrees, err := l.agrees(ctx, c, found[accountOf(c, 0)])
		if err != nil {
			return nil, err
		}
		if !agrees {
			stages[i] = Doubled
			continue
		}
		for n := range c.Places {
			stage := ledgerStage(c, found[accountOf(c, n)])
			if n > 0 && stage != stages[i] {
				stage = Doubled
			}
			stages[i] = stage
		}
	}
	return stages, nil
}

// agrees reports whether the account of a call is frozen, or has limits of its own, as its entries
// tell.
func (l *Ledger) agrees(ctx context.Context, c Call, found map[string]int) (bool, error) {
	account := accountOf(c, 0).Name
	switch c.Kind {
	case Freeze:
		d, err := l.sound.AbleToAccept(ctx, spend.Request{ID: c.ID, Account: account, Amount: euros(1)})
		return d.Approved != (ledgerStage(c, found) == 1), err
	case Limits:
		set := false
		for entry := range found {
			set = set || strings.HasSuffix(entry, " "+entries[Limits][0])
		}
		list, err := l.sound.Limits(ctx, account)
		return set == (len(list) == 1), err
	}
	return true, nil
}

// ledgerStage returns the stage of a call by the numbers of the entries of an account.
func ledgerStage(c Call, found map[string]int) int {
	stage := 0
	for step, kind := range entries[c.Kind] {
		switch n := found[id(c, step)+" "+kind]; {
		case n > 1, n == 1 && stage < step:
			return Doubled
		default:
			stage += n
		}
	}
	return stage
}
