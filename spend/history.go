package spend

import (
	"cmp"
	"context"
	"iter"
	"math"
	"strings"
	"time"

	"github.com/brimgo/brim/spend/internal/decide"
	"github.com/brimgo/brim/spend/internal/figures"
	"github.com/brimgo/brim/spend/ledger"
)

// Entry is one line of an account's ledger: an event, its time and the figures
// that it changed. An entry never changes. A later entry with the same Dated and
// Part corrects it.
type Entry struct {
	Account
	// Seq numbers the entries of the account: 1, 2, 3 ...
	Seq int64 `json:"seq"`
	// At is the time of the decision, on the ledger's clock, or that of the entry before if it is
	// later; see [Budgets.Mend]. Dated is the date at which the entry counts: the time of the
	// decision, the date of a record, or the date of the entry that it corrects.
	At    time.Time `json:"at"`
	Dated time.Time `json:"dated"`
	// Kind is spend, record, authorize, increase, decrease, extend, capture, release, void, expire,
	// refund, reverse, credit, decline, limits, plan, freeze, unfreeze, mend, move or cancel.
	Kind string `json:"kind"`
	// RequestID is the ID of the request that caused the entry. For an expiry it is the ID of the
	// authorized request, and for a cancellation that of the canceled request.
	RequestID string `json:"id"`
	// SpendID is the ID of the request that began the spend. It is empty if that
	// request was declined.
	SpendID string `json:"spend"`
	// SpendAmount is the amount of the request that began the spend, of the credit, or of the
	// declined Charge or Authorize; see [Rule.MatchingAtLeast]. That of a declined UpTo is Least,
	// by which rules have judged it. It is zero if the request moves no money.
	SpendAmount Money `json:"spend_amount,omitzero"`
	// Part is the Seq of the entry that this entry corrects, or its own.
	Part int64 `json:"part"`
	// Amount is that of the request, or the part of it that the entry moves. Of an UpTo, and of an
	// Increase with Least, it is the amount that was approved, or that was asked if it was
	// declined.
	Amount Money `json:"amount"`
	// Asked is the amount that an UpTo or Increase asked for, if less was approved. Otherwise it is
	// zero.
	Asked Money `json:"asked,omitzero"`
	// Least is that of an UpTo or Increase; zero if the request named none.
	Least Money `json:"least,omitzero"`
	// Forced tells that the entry is an authorization with [Request.Forced], which no rule has
	// judged.
	Forced bool `json:"forced,omitempty"`
	// TTL is that of an Authorize, UpTo or Extend; 0 if the request took the default. JSON leaves
	// it out.
	TTL   time.Duration     `json:"-"`
	Used  Money             `json:"used"`  // change of the used amount
	Held  Money             `json:"held"`  // change of the held amount
	Count int64             `json:"count"` // change of the number of spends
	Tags  map[string]string `json:"tags,omitempty"`
	// Refused has the names of the rules of this account that declined the request. If the account
	// was frozen, it has "frozen: " with the reason, too.
	Refused []string `json:"refused,omitempty"`
	// Shadow has the names of the rules with [Rule.Shadow] that would have declined it.
	Shadow []string `json:"shadow,omitempty"`
	// Credited has the part of a credit that each rule of this account has counted.
	Credited map[string]Money `json:"credited,omitempty"`
}

// HistoryOptions adjust [Budgets.History]. A nil *HistoryOptions means all
// defaults.
type HistoryOptions struct {
	// Before continues an earlier listing with the entries that are older than
	// this entry. Only its Seq and At are read. The zero Entry begins with the
	// newest entry.
	Before Entry
	// Limit is the largest number of entries; 0 means all.
	Limit int
}

// historyPage is the number of entries, or of accounts, that are read at once.
const historyPage = 200

// History iterates over the entries of an account, newest first. It reads page by
// page and holds nothing in the ledger between pages. Entries added meanwhile do
// not appear. An error ends the iteration.
func (b *Budgets) History(ctx context.Context, account string, o *HistoryOptions) iter.Seq2[Entry, error] {
	return iterate(ctx, b, "history", func(ctx context.Context) iter.Seq2[Entry, error] { return b.history(ctx, account, o) })
}

func (b *Budgets) history(ctx context.Context, account string, o *HistoryOptions) iter.Seq2[Entry, error] {
	if o == nil {
		o = &HistoryOptions{}
	}
	key, err := b.key(account)
	if err == nil && (o.Limit < 0 || o.Before.Seq < 0) {
		err = requestErr("a history's Limit and Before cannot be negative")
	}
	if err != nil {
		return failed[Entry](err)
	}
	return b.entries(ctx, key, o.Before, cmp.Or(o.Limit, math.MaxInt))
}

func failed[T any](err error) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) { yield(*new(T), err) }
}

// entries iterates over up to limit entries of an account that are older than before, or over the
// newest.
func (b *Budgets) entries(ctx context.Context, key string, before Entry, limit int) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		var at ledger.Position
		if before.Seq > 0 {
			at = ledger.Position{At: before.At.UnixMicro(), Seq: before.Seq}
		}
		for left := limit; left > 0; {
			n := min(historyPage, left)
			entries, err := b.decider.History(ctx, key, at, n)
			if err != nil {
				yield(Entry{}, err)
				return
			}
			for i := range entries {
				if !yield(newEntry(&entries[i]), nil) {
					return
				}
				at = ledger.Position{At: entries[i].At, Seq: entries[i].Seq}
			}
			if left -= len(entries); len(entries) < n {
				return
			}
		}
	}
}

func newEntry(e *ledger.Entry) Entry {
	in := func(n int64) Money { return Money{n, e.Currency} }
	var credited map[string]Money
	for _, c := range e.Credited {
		if credited == nil {
			credited = make(map[string]Money)
		}
		credited[c.Rule] = in(c.Amount)
	}
	var refused, shadow []string
	for _, name := range e.Refused {
		if rule, is := strings.CutPrefix(name, decide.ShadowPrefix); is {
			shadow = append(shadow, rule)
		} else {
			refused = append(refused, name)
		}
	}
	some := func(n int64) Money {
		if n == 0 {
			return Money{}
		}
		return in(n)
	}
	return Entry{
		Account: accountOf(e.Account),
		Seq:     e.Seq, At: time.UnixMicro(e.At).UTC(), Dated: time.UnixMicro(e.Dated).UTC(),
		Kind: e.Kind, RequestID: e.RequestID, SpendID: e.SpendID, SpendAmount: some(e.SpendAmount), Part: cmp.Or(e.Part, e.Seq),
		Amount: in(e.Amount), Asked: some(e.Asked), Least: some(max(0, e.Least)), Forced: e.Kind == figures.KindAuthorize && e.Least < 0, TTL: time.Duration(e.TTL) * time.Microsecond, Used: in(e.Used), Held: in(e.Held), Count: e.Count + e.Pending,
		Tags: e.Tags, Refused: refused, Shadow: shadow, Credited: credited,
	}
}
