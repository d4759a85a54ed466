package decide

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/brimgo/brim/spend/internal/figures"
	"github.com/brimgo/brim/spend/internal/money"
	"github.com/brimgo/brim/spend/ledger"
)

// Action is a request of any kind, checked.
type Action struct {
	Kind      string
	ID        string
	SpendID   string   // of the spend to change; empty for a new spend
	Keys      []string // accounts of a new spend; the first is Request.Account
	To        string   // key that the account of a move gets
	Amount    int64
	Least     int64 // of UpTo or Increase; otherwise 0
	Currency  string
	Tags      map[string]string
	Varying   []string // names of tags that are no part of the content
	Backdated bool     // the money counts from Dated, and not from now
	Dated     int64    // of a record, or of a forced authorization
	TTL       time.Duration
	OnExpiry  Expiry
	Final     bool
	Force     bool
	Limits    []Limit
	Content   []byte // see [Decider.Seal]
}

// Expiry is the fate of held money at the end of its hold; 0 leaves it as it is.
type Expiry uint8

// The fates of held money.
const (
	ReleaseOnExpiry Expiry = iota + 1
	SpendOnExpiry
)

// PlanTag is the tag of an entry of kind plan that has the plan's name.
const PlanTag = "plan"

// in returns the action with its amounts in the unit of its spend.
func (act *Action) in(unit string) (*Action, error) {
	switch {
	case act.Currency == "" || act.Currency == unit:
		return act, nil
	case money.ISO(act.Currency) != money.ISO(unit):
		return act, fmt.Errorf("spend: %w: the amount is in %.8q and the spend in %q", money.ErrCurrency, act.Currency, unit)
	}
	c := *act
	for _, n := range [...]*int64{&c.Amount, &c.Least} {
		m, err := money.Money{Minor: *n, Currency: c.Currency}.In(unit)
		if err != nil {
			return act, err
		}
		*n = m.Minor
	}
	c.Currency = unit
	return &c, nil
}

// moves reports whether the action begins a spend of money that has moved already.
func (act *Action) moves() bool {
	return act.Kind == figures.KindRecord || act.Kind == figures.KindAuthorize && act.Force
}

// date returns the date at which the money of the action counts in an account.
func (act *Action) date(a *account) int64 {
	if act.Backdated {
		return act.Dated
	}
	return a.time
}

// forced is the Least of an authorization of money that was held in any case.
const forced = -1

// explain adds to an entry that the action has caused the terms that its other fields leave open.
func (act *Action) explain(e *ledger.Entry) {
	if e.RequestID != act.ID {
		return
	}
	e.Least, e.TTL = act.Least, act.TTL.Microseconds()
	switch {
	case act.Force && act.Kind == figures.KindAuthorize:
		e.Least = forced
	case e.Least > 0 && e.Amount < act.Amount:
		e.Asked = act.Amount
	}
}

// Seal gives the action its content, by which a ledger tells two requests with one ID apart: its
// digest, and the lifetime of its hold.
func (d *Decider) Seal(act *Action) {
	act.Content = act.Digest()
	if act.Kind == figures.KindAuthorize || act.Kind == figures.KindExtend {
		act.Content = binary.AppendVarint(act.Content, cmp.Or(act.TTL, d.HoldTTL).Microseconds())
	}
}

// repeats reports whether a request with this content was the same, but for its accounts. A request
// without a TTL means the default, which may have been another one when the request was sent first.
func (act *Action) repeats(content []byte) bool {
	return bytes.Equal(content, act.Content) || act.TTL == 0 && bytes.HasPrefix(content, act.Content[:digestSize])
}

// digestSize is the number of bytes of a digest.
const digestSize = 16

// Digest identifies the meaning of the request, but for its accounts, which may move, and the
// lifetime of its hold. Tags without a value change nothing.
func (act *Action) Digest() []byte {
	b := make([]byte, 0, 256)
	part := func(s string) {
		b = binary.BigEndian.AppendUint64(b, uint64(len(s)))
		b = append(b, s...)
	}
	part(act.Kind)
	part(act.SpendID)
	amount := func(n int64) string { return money.Money{Minor: n, Currency: act.Currency}.Meaning() }
	part(strconv.Itoa(len(act.Keys)) + " " + strconv.FormatBool(act.Final) + " " + strconv.FormatBool(act.Force))
	part(amount(act.Amount))
	if act.Backdated {
		part(fmt.Sprint("dated ", act.Dated))
	}
	if act.OnExpiry != 0 {
		part(fmt.Sprint("expiry ", act.OnExpiry))
	}
	if act.Least > 0 {
		part("least " + amount(act.Least))
	}
	if act.To != "" {
		part("to " + act.To)
	}
	for _, tag := range slices.Sorted(maps.Keys(act.Tags)) {
		if act.Tags[tag] != "" && !slices.Contains(act.Varying, tag) {
			part(tag)
			part(act.Tags[tag])
		}
	}
	sum := sha256.Sum256(b)
	return append(make([]byte, 0, digestSize+binary.MaxVarintLen64), sum[:digestSize]...)
}
