package spend

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/brimgo/brim/store"
)

// Account names an account of a budget.
type Account struct {
	Budget string `json:"budget"`
	Name   string `json:"account"`
}

// Request asks for money, with Spend, Authorize or Record.
type Request struct {
	// ID makes the request safe to send again: it is unique in the ledger. Random 128 bits or more; IDs that begin with the
	// time, like UUIDs of version 7, cost a large ledger less.
	ID string
	// Account is the account that is charged, of the budget given to New. It may be personal data: errors never hold it.
	Account string
	Amount  Money
	// Tags are what rules can filter by: merchant, category, country. At most 16, of 64 bytes each and values of 256.
	Tags map[string]string
	// Also are accounts of other budgets that the same money counts against. All of them approve, or none is charged.
	Also []Account
	// TTL is how long a hold lasts; 0 means Options.HoldTTL. Only Authorize looks at it.
	TTL time.Duration
}

// IncreaseRequest asks for more on a hold.
type IncreaseRequest struct {
	ID     string
	HoldID string // ID of the Request that was authorized
	Amount Money  // by how much
}

// CaptureRequest takes money that is held.
type CaptureRequest struct {
	ID     string
	HoldID string // ID of the Request that was authorized
	Amount Money  // may be zero if Final
	Final  bool   // release what is still held after this
	Force  bool   // take more than is held, and from a hold that has ended or expired: the money is gone already
}

// VoidRequest releases all that is still held.
type VoidRequest struct {
	ID     string
	HoldID string // ID of the Request that was authorized
}

// RefundRequest gives back what was captured, spent or recorded.
type RefundRequest struct {
	ID      string
	SpendID string // ID of the Request
	Amount  Money
}

// Decision is the answer to a request. It is a value.
type Decision struct {
	Approved bool `json:"approved"`
	// Replayed says that this ID was decided before: the rest is that first decision, whatever has happened since.
	Replayed bool `json:"replayed,omitempty"`
	// Declines has every rule that refused.
	Declines []Decline `json:"declines,omitempty"`
	// Remaining is every rule of every account concerned, as it was left. GrowsAt is zero here where finding it means
	// reading the ledger; see [Budgets.Remaining].
	Remaining []Usage `json:"remaining"`
	// RetryAfter is when the amount would fit all rules if nobody else came: 0 if approved, or [store.Never].
	RetryAfter time.Duration `json:"-"`
	// At is the accounts' time at the decision: the ledger's clock, or the last decision where the clock is behind that.
	At time.Time `json:"at"`
}

// Decline is a rule that refused, as it stood.
type Decline struct {
	Usage
	RetryAfter time.Duration `json:"-"` // when the amount would fit this rule, or [store.Never]
}

// Usage is how much of a rule is used. In a [Count] rule the amounts are numbers of spends, without a currency; in a
// [PerTransaction] rule nothing is ever used. In a [Leaky] rule Used is rounded up and Remaining down.
type Usage struct {
	Account
	Rule      string    `json:"rule"`
	Limit     Money     `json:"limit"`
	Used      Money     `json:"used"`
	Held      Money     `json:"held"`
	Remaining Money     `json:"remaining"` // negative where money was spent past the rules: by Record, Force or a lowered amount
	GrowsAt   time.Time `json:"grows_at,omitzero"`
}

// action is one request of any kind, as it is decided and digested.
type action struct {
	kind         string
	id           string
	keys         []string // accounts, the first of which is the one that pays; empty where the spend knows them
	amount       int64
	currency     string
	tags         map[string]string
	ttl          time.Duration
	spend        string // what it is about
	final, force bool
}

// digest identifies the content of a request, so that an ID is not used for two.
func (a *action) digest() []byte {
	h := sha256.New()
	part := func(s string) {
		var n [8]byte
		binary.BigEndian.PutUint64(n[:], uint64(len(s)))
		h.Write(n[:])
		h.Write([]byte(s))
	}
	part(a.kind)
	part(a.spend)
	part(fmt.Sprint(len(a.keys), a.amount, a.ttl.Microseconds(), a.final, a.force))
	part(a.currency)
	for _, k := range a.keys {
		part(k)
	}
	for _, tag := range slices.Sorted(maps.Keys(a.tags)) {
		part(tag)
		part(a.tags[tag])
	}
	return h.Sum(nil)[:16]
}

const (
	maxID       = 128
	maxTags     = 16
	maxTag      = 64
	maxTagValue = 256
	maxAccounts = 16
)

func checkID(what, id string) error {
	if id == "" || len(id) > maxID || !validText(id) {
		return requestErr("%s has to be 1 to %d bytes of UTF-8 without control characters", what, maxID)
	}
	return nil
}

// charge checks a Request and makes an action of it. What it keeps is copied: a decision can outlive its caller.
func (s *Budgets) charge(kind string, r Request) (*action, error) {
	if err := checkID("ID", r.ID); err != nil {
		return nil, err
	}
	a := &action{kind: kind, id: r.ID, amount: r.Amount.Minor, currency: r.Amount.Currency, tags: maps.Clone(r.Tags), ttl: r.TTL}
	if kind != kindAuthorize {
		a.ttl = 0
	}
	accounts := append([]Account{{s.main.Name, r.Account}}, r.Also...)
	if len(accounts) > maxAccounts {
		return nil, requestErr("it names %d accounts; at most %d are decided together", len(accounts), maxAccounts)
	}
	for _, acc := range accounts {
		b := s.all[acc.Budget]
		switch {
		case b == nil:
			return nil, requestErr("no budget is called %.64q; give it to New in Options.Budgets", acc.Budget)
		case b.Currency != a.currency:
			return nil, fmt.Errorf("spend: %w: the amount is in %.8q and budget %q in %q", ErrCurrency, a.currency, b.Name, b.Currency)
		case b.leaky && a.amount > store.MaxAmount:
			return nil, fmt.Errorf("spend: %w: budget %q has a Leaky rule, which counts up to 2^53 minor units", ErrAmount, b.Name)
		}
		key := b.key(acc.Name)
		if acc.Name == "" || !validText(acc.Name) || store.ValidateKey(key) != nil {
			return nil, requestErr("an account has to be 1 to 512 bytes of UTF-8, its budget's name included, without control characters")
		}
		if slices.Contains(a.keys, key) {
			return nil, requestErr("it names an account twice")
		}
		a.keys = append(a.keys, key)
	}
	if a.amount <= 0 {
		return nil, fmt.Errorf("spend: %w: %v; it must be positive", ErrAmount, r.Amount)
	}
	if a.ttl != 0 && (a.ttl < time.Microsecond || a.ttl > maxWindow) {
		return nil, requestErr("TTL is %v; it must be from a microsecond to 100 years, or 0 for the default", a.ttl)
	}
	if len(a.tags) > maxTags {
		return nil, requestErr("it has %d tags; at most %d are kept", len(a.tags), maxTags)
	}
	for tag, value := range a.tags {
		if tag == "" || len(tag) > maxTag || len(value) > maxTagValue || !validText(tag) || !validText(value) {
			return nil, requestErr("a tag has 1 to %d bytes and its value up to %d, of UTF-8 without control characters", maxTag, maxTagValue)
		}
	}
	return a, nil
}

// follow makes an action that is about an earlier one.
func (s *Budgets) follow(kind, id, spend string, amount Money, mayBeZero bool) (*action, error) {
	if err := checkID("ID", id); err != nil {
		return nil, err
	}
	if err := checkID("the ID of what it is about", spend); err != nil {
		return nil, err
	}
	if kind != kindVoid {
		if amount.Minor < 0 || amount.Minor == 0 && !mayBeZero {
			return nil, fmt.Errorf("spend: %w: %v; it must be positive", ErrAmount, amount)
		}
		if amount.Minor > store.MaxAmount && s.anyLeaky() {
			return nil, fmt.Errorf("spend: %w: a budget has a Leaky rule, which counts up to 2^53 minor units", ErrAmount)
		}
		if _, ok := MinorUnits(amount.Currency); !ok {
			return nil, unknownCurrency(amount.Currency)
		}
	}
	return &action{kind: kind, id: id, spend: spend, amount: amount.Minor, currency: amount.Currency}, nil
}

func (s *Budgets) anyLeaky() bool {
	for _, b := range s.all {
		if b.leaky {
			return true
		}
	}
	return false
}
