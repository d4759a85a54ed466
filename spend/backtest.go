package spend

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/brimgo/brim/spend/internal/decide"
	"github.com/brimgo/brim/spend/internal/money"
	"github.com/brimgo/brim/spend/ledger"
)

// Flip is a decision that other rules would have made otherwise.
type Flip struct {
	Entry    Entry    `json:"entry"`             // the decision as it was
	Approved bool     `json:"approved"`          // by the other rules
	Amount   Money    `json:"amount,omitzero"`   // that they would have approved, at most the one that was asked
	Refused  []string `json:"refused,omitempty"` // the rules that would have refused
}

// Replayed is an account that a backtest has gone through.
type Replayed struct {
	Account
	Entries   int64 // that were replayed
	Decisions int64 // since the time, that rules have made
	// Skipped tells why the account was not replayed: Prune has removed entries that the rules
	// need, [Budgets.Mend] has set it right, or it has more than MaxEntries. It is empty if it was.
	Skipped string
}

// BacktestOptions adjust [Budgets.Backtest].
type BacktestOptions struct {
	// Rules are those by which to decide. Their name and currency are those of the main budget.
	Rules Budget
	// Account is the only account to replay; "" means all.
	Account string
	// MaxEntries bounds time and memory: an account with more entries is skipped. 0 means no bound.
	MaxEntries int64
	// Since is the time of the first decisions to tell. Those of before are replayed as well.
	Since time.Time
	// Decision is called for every decision since then that rules have made, account by account and
	// in the order of the entries; Flip, before it, if it would have been another one; and Done for
	// each account, at last. Each may be nil. An error of one ends the backtest.
	Decision func(Entry) error
	Flip     func(Flip) error
	Done     func(Replayed) error
}

// Backtest decides the requests of the main budget anew by other rules, from the entries in the
// ledger. A spend that these rules would have refused counts no more from then on, with its
// captures and refunds. One that they would have approved counts as charged, because nobody knows
// its later captures. Backtest changes nothing, and reads pages of some hundred entries,
// each as of its own time. It remembers the entries and spends of one account at a time.
//
// The plan and the own limits of an account are those of then, which its entries tell. If its first
// entries are gone, they are those of now.
//
// By the rules that have decided, no decision flips. Backtest does not know:
//   - whether somebody would have sent a declined request again, or another one instead.
//   - the other accounts of a spend: each account is judged alone, and a request that only others
//     have declined stays declined.
//   - whether an UpTo would have got more than it did; it knows whether it would have got less.
//   - decisions on accounts that were set right by Mend, and those for which entries are gone.
//
// Money that had moved, and requests about a frozen account, are not judged, as they were not then.
// A mistake in the rules is [ErrBudget], and a plan that they lack and that an account has had.
func (b *Budgets) Backtest(ctx context.Context, o BacktestOptions) (err error) {
	c := b.begin(ctx, "backtest")
	defer c.end(&err)
	rules, err := o.Rules.check()
	switch {
	case err != nil:
		return err
	case rules.Name != b.main.Name || rules.Currency != b.main.Currency:
		return requestErr("the rules are of budget %.64q in %s, and not of %q in %s", rules.Name, rules.Currency, b.main.Name, b.main.Currency)
	}
	key := ""
	if o.Account != "" {
		if key, err = b.key(o.Account); err != nil {
			return err
		}
	}
	test := &decide.Backtest{
		Budget: rules, Account: key, MaxEntries: o.MaxEntries, Since: o.Since.UnixMicro(), Limit: limitOf,
		Decision: func(e ledger.Entry) error {
			if o.Decision == nil {
				return nil
			}
			return o.Decision(newEntry(&e))
		},
		Flip: func(f decide.Flip) error {
			if o.Flip == nil {
				return nil
			}
			out := Flip{Entry: newEntry(&f.Entry), Approved: f.Approved, Refused: f.Refused}
			if f.Approved {
				out.Amount = Money{f.Amount, f.Entry.Currency}
			}
			return o.Flip(out)
		},
		Done: func(r decide.Replay) error {
			if o.Done == nil {
				return nil
			}
			return o.Done(Replayed{accountOf(r.Account), r.Entries, r.Decisions, r.Skipped})
		},
	}
	return test.Run(c.ctx, &b.decider)
}

// limitOf reads the limit of a rule in an entry.
func limitOf(rule, text string) (decide.Limit, error) {
	return decide.LimitOf(rule, text, func(s string) (money.Money, error) {
		amount, currency, isMoney := strings.Cut(s, " ")
		if !isMoney {
			n, err := strconv.ParseInt(amount, 10, 64)
			return money.Money{Minor: n}, err
		}
		m, err := ParseMoney(amount, currency)
		return money.Money(m), err
	})
}
