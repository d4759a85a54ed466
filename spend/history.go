package spend

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"time"

	"github.com/brimgo/brim/spend/ledger"
)

// Entry is one line of an account's ledger: what happened, when, and what it changed. It never changes itself; what corrects
// it is another entry, with the same Dated and Part.
type Entry struct {
	Seq     int64             `json:"seq"`   // 1, 2, 3 ... in the account
	At      time.Time         `json:"at"`    // when it happened, on the ledger's clock
	Dated   time.Time         `json:"dated"` // the date that it counts at
	Kind    string            `json:"kind"`  // spend, record, authorize, increase, capture, release, void, expire, refund or decline
	RequestID      string            `json:"id"`    // the request that caused it; of an expiry the one that was authorized
	SpendID   string            `json:"spend"` // the request that began the spend; empty where it was declined
	Part    int64             `json:"part"`  // Seq of the entry that it corrects, or its own
	Amount  Money             `json:"amount"`
	Used    Money             `json:"used"`  // change of what is spent
	Held    Money             `json:"held"`  // change of what is reserved
	Count   int64             `json:"count"` // change of the number of spends
	Tags    map[string]string `json:"tags,omitempty"`
	Refused []string          `json:"refused,omitempty"` // the rules of this account that declined it
}

// HistoryOptions adjust [Budgets.History]. A nil *HistoryOptions means all defaults.
type HistoryOptions struct {
	// Before continues where an earlier listing ended: entries older than this one follow. Only Seq and At count.
	Before Entry
	// Limit is the largest number of entries; 0 means all.
	Limit int
}

// historyPage is how many entries are read at once.
const historyPage = 200

// History lists the account's ledger, newest first. Nothing is held between pages; entries that come meanwhile are newer than
// all that follow. An error ends the sequence.
func (s *Budgets) History(ctx context.Context, account string, o *HistoryOptions) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		if o == nil {
			o = &HistoryOptions{}
		}
		key, err := s.key(account)
		if err == nil && (o.Limit < 0 || o.Before.Seq < 0) {
			err = requestErr("a history's limit and position cannot be negative")
		}
		var before ledger.Position
		if o.Before.Seq > 0 {
			before = ledger.Position{At: o.Before.At.UnixMicro(), Seq: o.Before.Seq}
		}
		for left := o.Limit; err == nil; {
			n := historyPage
			if o.Limit > 0 {
				n = min(n, left)
			}
			var entries []ledger.Entry
			if entries, err = s.ledger.History(ctx, key, before, n); err != nil {
				break
			}
			for i := range entries {
				if !yield(show(&entries[i]), nil) {
					return
				}
			}
			left -= len(entries)
			if len(entries) < n || o.Limit > 0 && left == 0 {
				return
			}
			last := entries[len(entries)-1]
			before = ledger.Position{At: last.At, Seq: last.Seq}
		}
		yield(Entry{}, err)
	}
}

func show(e *ledger.Entry) Entry {
	in := func(n int64) Money { return Money{n, e.Currency} }
	return Entry{
		Seq: e.Seq, At: time.UnixMicro(e.At).UTC(), Dated: time.UnixMicro(e.Dated).UTC(), Kind: e.Kind, RequestID: e.RequestID, SpendID: e.SpendID,
		Part: e.Part, Amount: in(e.Amount), Used: in(e.Used), Held: in(e.Held), Count: e.Count, Tags: e.Tags, Refused: e.Refused,
	}
}

// PruneResult is what a [Budgets.Prune] did.
type PruneResult struct {
	Expired  int64 // holds that were ended because nobody had asked about their account
	Requests int64 // IDs that were forgotten
}

// Prune ends holds that have expired in accounts that nobody asks about, and removes what no rule and no promise needs any
// more: entries older than every window and than Options.KeepIDs, and IDs older than KeepIDs. No decision depends on it, but
// for one: a request that is sent again after its ID was forgotten is a new request, and what was forgotten can no longer be
// captured or refunded.
//
// Accounts of a budget with a [Lifetime] rule keep all of their entries. Archive what you need before; see the documentation
// for how. Only the accounts of the main budget are pruned.
func (s *Budgets) Prune(ctx context.Context) (PruneResult, error) {
	var done PruneResult
	prefix := s.main.key("")
	for after := ""; ; {
		accounts, err := s.ledger.Accounts(ctx, prefix, after, historyPage)
		if err != nil {
			return done, err
		}
		expired, err := s.tidyAll(ctx, accounts)
		done.Expired += expired
		if err != nil {
			return done, err
		}
		if len(accounts) > 0 {
			after = accounts[len(accounts)-1].Key
		}
		if len(accounts) < historyPage {
			break
		}
	}
	cutoff := new(int64)
	err := s.ledger.View(ctx, &ledger.Job{Run: func(snap ledger.Snapshot) (*ledger.Changes, error) {
		*cutoff = snap.Now() - s.keepIDs.Microseconds()
		return nil, nil
	}})
	if err == nil {
		done.Requests, err = s.ledger.PruneRequests(ctx, prefix, *cutoff)
	}
	if err != nil {
		return done, fmt.Errorf("pruning IDs: %w", err)
	}
	return done, nil
}

// tidyAll tidies a page of accounts, all at the same time so that they share commits.
func (s *Budgets) tidyAll(ctx context.Context, accounts []ledger.Account) (expired int64, err error) {
	counts, errs := make([]*int64, len(accounts)), make([]error, len(accounts))
	var wg sync.WaitGroup
	for i, a := range accounts {
		counts[i] = new(int64)
		wg.Go(func() { errs[i] = s.ledger.Decide(ctx, s.tidy(a.Key, counts[i])) })
	}
	wg.Wait()
	for i, n := range counts {
		if errs[i] == nil {
			expired += *n
		}
	}
	return expired, errors.Join(errs...)
}

// tidy settles an account and drops the entries that nothing needs any more.
func (s *Budgets) tidy(key string, expired *int64) *ledger.Job {
	return &ledger.Job{Accounts: []string{key}, Run: func(snap ledger.Snapshot) (*ledger.Changes, error) {
		x := &decision{s: s, snap: snap}
		if err := x.load([]string{key}); err != nil {
			return nil, err
		}
		a := x.accounts[0]
		*expired = int64(len(a.closed))
		c := &ledger.Changes{Accounts: []ledger.Account{a.stored()}, Entries: a.added, Closed: a.closed}
		upto := x.now - s.keepIDs.Microseconds()
		for _, u := range a.rules {
			if u.rule.counts() {
				upto = min(upto, u.edge)
			}
		}
		if upto > ever {
			c.Drop = []ledger.Drop{{Account: key, At: upto}}
		}
		return c, nil
	}}
}
