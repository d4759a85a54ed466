package serverload

import (
	"context"
	"errors"
	"fmt"
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
	Both    Kind = "both"    // Charge of two accounts
	Joined  Kind = "joined"  // Charge of two accounts in a transaction of the caller's
)

// entries holds the kinds of the ledger's entries that the steps of each kind of call cause.
var entries = map[Kind][]string{
	Charge:  {"spend"},
	Record:  {"record"},
	Settle:  {"authorize", "capture"},
	Void:    {"authorize", "void"},
	Refund:  {"spend", "refund"},
	Enlarge: {"authorize", "increase"},
	Both:    {"spend"},
	Joined:  {"spend"},
}

const currency = "EUR"

// budgets of the load. Every spend of it is approved.
var (
	cards = spend.Budget{Name: "cards", Currency: currency, Rules: []spend.Rule{
		spend.Lifetime("ever", euros(1_000_000_000)),
		spend.Rolling("month", euros(1_000_000_000), 30*24*time.Hour),
	}}
	teams = spend.Budget{Name: "teams", Currency: currency, Rules: []spend.Rule{
		spend.Leaky("day", euros(1_000_000_000), 24*time.Hour),
	}}
)

func euros(n int64) spend.Money { return spend.Money{Minor: n * 100, Currency: currency} }

// Ledger is the subject of a ledger of package pgledger.
type Ledger struct {
	b, sound *spend.Budgets
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
	return &Ledger{b: b, sound: looker, with: l.With, pool: pool}, nil
}

func newBudgets(l ledger.Ledger) (*spend.Budgets, error) {
	return spend.New(l, cards, &spend.Options{Budgets: []spend.Budget{teams}})
}

// Kinds returns all kinds.
func (l *Ledger) Kinds() []Kind {
	return []Kind{Charge, Record, Settle, Void, Refund, Enlarge, Both, Joined}
}

// Steps returns the number of steps of a kind.
func (l *Ledger) Steps(k Kind) int { return len(entries[k]) }

// Once reports true: a request that is sent again with its ID has one effect.
func (l *Ledger) Once() bool { return true }

// id is the ID of the request of a step.
func id(c Call, step int) string { return fmt.Sprint(c.ID, "/", entries[c.Kind][step]) }

// accountOf returns the account of place n: the first place is a card, the second a team.
func accountOf(c Call, n int) spend.Account {
	return spend.Account{Budget: [...]string{cards.Name, teams.Name}[n], Name: c.Places[n].Key}
}

// Do carries out a step.
func (l *Ledger) Do(ctx context.Context, c Call, step int) error {
	request := spend.Request{ID: id(c, step), Account: c.Places[0].Key, Amount: euros(3)}
	if len(c.Places) > 1 {
		request.Also = []spend.Account{accountOf(c, 1)}
	}
	one := euros(1)
	var d spend.Decision
	var err error
	switch entries[c.Kind][step] {
	case "authorize":
		d, err = l.b.Authorize(ctx, request)
	case "record":
		d, err = l.b.Record(ctx, request)
	case "capture":
		d, err = l.b.Capture(ctx, spend.CaptureRequest{ID: id(c, step), HoldID: id(c, 0), Amount: request.Amount, Final: true})
	case "void":
		d, err = l.b.Void(ctx, spend.VoidRequest{ID: id(c, step), HoldID: id(c, 0)})
	case "refund":
		d, err = l.b.Refund(ctx, spend.RefundRequest{ID: id(c, step), SpendID: id(c, 0), Amount: one})
	case "increase":
		d, err = l.b.Increase(ctx, spend.IncreaseRequest{ID: id(c, step), HoldID: id(c, 0), Amount: one})
	default:
		if c.Kind == Joined {
			return l.joined(ctx, request)
		}
		d, err = l.b.Charge(ctx, request)
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

// Used asks for the used amount of the first account of a call, in minor units.
func (l *Ledger) Used(ctx context.Context, c Call) (int64, error) {
	list, err := l.b.Remaining(ctx, c.Places[0].Key)
	if err != nil {
		return 0, err
	}
	return list[0].Used.Minor, nil
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
