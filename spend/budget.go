package spend

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/brimgo/brim/spend/ledger"
	"github.com/brimgo/brim/store"
)

// Defaults of [Options].
const (
	DefaultHoldTTL = 7 * 24 * time.Hour
	DefaultKeepIDs = 90 * 24 * time.Hour
)

// Budget is a name, a currency and the rules that every spend on its accounts must satisfy, all of them.
//
// Rules come with each process, so they can change at any time. A changed amount never resets what was used. A rule that is
// added, or counts something else than before, counts what the ledger already holds; a [Leaky] one starts empty.
type Budget struct {
	Name     string // 1 to 64 bytes without "/"; the accounts of two budgets have nothing in common
	Currency string // ISO 4217
	Rules    []Rule // with unique names
}

// Options adjust [New]. A nil *Options means all defaults.
type Options struct {
	// Budgets are further budgets in the same ledger, whose accounts a request may name besides: the team's and the company's
	// beside the card's. Captures and refunds of such a spend need them too.
	Budgets []Budget
	// HoldTTL is how long a hold lasts whose request does not say; 0 means [DefaultHoldTTL].
	HoldTTL time.Duration
	// KeepIDs is how long [Budgets.Prune] keeps what was answered to an ID, and with it what can be captured and refunded;
	// 0 means [DefaultKeepIDs]. A request that is sent again after that is a new one.
	KeepIDs time.Duration
}

// Budgets decides spends against a [Budget]. Any number of goroutines may use it at once, and any number of processes that
// share the ledger.
type Budgets struct {
	ledger  ledger.Ledger
	main    *budget
	all     map[string]*budget
	holdTTL time.Duration
	keepIDs time.Duration
}

// budget is a Budget that was checked.
type budget struct {
	Budget
	prints []uint64 // of Rules
	leaky  bool     // one of them is
}

// New returns what decides spends against b, kept in l. It sends nothing.
func New(l ledger.Ledger, b Budget, o *Options) (*Budgets, error) {
	if o == nil {
		o = &Options{}
	}
	s := &Budgets{ledger: l, all: make(map[string]*budget), holdTTL: o.HoldTTL, keepIDs: o.KeepIDs}
	if s.holdTTL == 0 {
		s.holdTTL = DefaultHoldTTL
	}
	if s.keepIDs == 0 {
		s.keepIDs = DefaultKeepIDs
	}
	if l == nil {
		return nil, fmt.Errorf("spend: %w: the ledger is nil", store.ErrClosed)
	}
	if s.holdTTL < time.Microsecond || s.holdTTL > maxWindow || s.keepIDs < s.holdTTL || s.keepIDs > maxWindow {
		return nil, fmt.Errorf("spend: %w: HoldTTL is %v and KeepIDs is %v; they must be positive, up to 100 years, and IDs kept at least as long as holds",
			ErrBudget, s.holdTTL, s.keepIDs)
	}
	for _, b := range append([]Budget{b}, o.Budgets...) {
		checked, err := b.check()
		if err != nil {
			return nil, err
		}
		if s.all[b.Name] != nil {
			return nil, fmt.Errorf("spend: %w: two budgets are called %q", ErrBudget, b.Name)
		}
		s.all[b.Name] = checked
	}
	s.main = s.all[b.Name]
	return s, nil
}

func (b Budget) check() (*budget, error) {
	if !validName(b.Name) || strings.Contains(b.Name, "/") {
		return nil, fmt.Errorf("spend: %w: the budget's name has to be 1 to 64 bytes of UTF-8 without control characters and without /", ErrBudget)
	}
	if _, ok := MinorUnits(b.Currency); !ok {
		return nil, fmt.Errorf("%w (%w)", unknownCurrency(b.Currency), ErrBudget)
	}
	if len(b.Rules) == 0 {
		return nil, fmt.Errorf("spend: %w: budget %q has no rules; one that allows everything is no budget", ErrBudget, b.Name)
	}
	checked := &budget{Budget: b}
	checked.Rules = slices.Clone(b.Rules)
	names := make(map[string]bool)
	for i := range checked.Rules {
		r := &checked.Rules[i]
		if err := r.validate(b.Currency); err != nil {
			return nil, err
		}
		if names[r.name] {
			return nil, fmt.Errorf("spend: %w: two rules are called %q", ErrBudget, r.name)
		}
		names[r.name] = true
		checked.prints = append(checked.prints, r.print())
		checked.leaky = checked.leaky || r.kind == leaky
	}
	return checked, nil
}

// Of returns the same for another of the budgets, which New was given in Options.Budgets: to ask what remains in it, say.
func (s *Budgets) Of(budget string) (*Budgets, error) {
	b := s.all[budget]
	if b == nil {
		return nil, fmt.Errorf("spend: %w: no budget is called %.64q; give it to New in Options.Budgets", ErrRequest, budget)
	}
	other := *s
	other.main = b
	return &other, nil
}

// With returns the same over another view of its ledger: that of a transaction of the caller's own, so that a spend commits or
// rolls back with the rows that it pays for. See With of pgledger and boltledger.
func (s *Budgets) With(l ledger.Ledger) *Budgets {
	other := *s
	other.ledger = l
	return &other
}

// key is an account's key in the ledger.
func (b *budget) key(account string) string { return b.Name + "/" + account }

// split takes a key apart again.
func split(key string) Account {
	budget, name, _ := strings.Cut(key, "/")
	return Account{Budget: budget, Name: name}
}

// validText reports whether every backend can store s and a person can read it.
func validText(s string) bool {
	return utf8.ValidString(s) && !strings.ContainsFunc(s, unicode.IsControl)
}
