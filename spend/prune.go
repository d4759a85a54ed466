package spend

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/brimgo/brim/spend/ledger"
)

// PruneResult counts the work of one [Budgets.Prune].
type PruneResult struct {
	Expired  int64 // expired holds that were ended
	Requests int64 // IDs that were removed
}

// Prune ends the expired holds of accounts that no decision has touched since,
// and removes data that is no longer needed: entries older than every window and
// than [Options.KeepIDs], and IDs older than KeepIDs that have no open hold.
// Prune covers the accounts of the main budget. Accounts of a budget with a
// [Lifetime] rule keep all of their entries.
//
// A later decision is the same with and without Prune, with one exception. A
// request that is sent again after its ID was removed is a new request, and a
// spend whose ID was removed can no longer be captured or refunded.
//
// Copy the entries that you want to archive before you call Prune. After an
// error the result counts the part that was done; call Prune again to continue.
func (b *Budgets) Prune(ctx context.Context) (PruneResult, error) {
	var done PruneResult
	prefix := b.main.prefix()
	for after := ""; ; {
		accounts, err := b.ledger.Accounts(ctx, prefix, after, historyPage)
		if err != nil {
			return done, err
		}
		expired, err := b.pruneAccounts(ctx, accounts)
		done.Expired += expired
		if err != nil {
			return done, err
		}
		if len(accounts) < historyPage {
			break
		}
		after = accounts[len(accounts)-1].Key
	}
	cutoff := new(int64)
	err := b.view(ctx, &action{}, func(t *attempt) error {
		*cutoff = t.now - b.keepIDs.Microseconds()
		return nil
	})
	if err == nil {
		done.Requests, err = b.ledger.PruneRequests(ctx, prefix, *cutoff)
	}
	if err != nil {
		return done, fmt.Errorf("spend: pruning IDs: %w", err)
	}
	return done, nil
}

// pruneAccounts prunes a page of accounts at the same time, so that they share
// commits.
func (b *Budgets) pruneAccounts(ctx context.Context, accounts []ledger.Account) (expired int64, err error) {
	counts, errs := make([]*int64, len(accounts)), make([]error, len(accounts))
	var wg sync.WaitGroup
	for i, a := range accounts {
		counts[i] = new(int64)
		wg.Go(func() { errs[i] = b.ledger.Decide(ctx, b.pruneJob(a.Key, counts[i])) })
	}
	wg.Wait()
	for i, n := range counts {
		if errs[i] == nil {
			expired += *n
		}
	}
	return expired, errors.Join(errs...)
}

// pruneJob returns a job that advances an account and drops the entries that
// nothing needs.
func (b *Budgets) pruneJob(key string, expired *int64) *ledger.Job {
	return &ledger.Job{Accounts: []string{key}, Run: func(snap ledger.Snapshot) (*ledger.Changes, error) {
		t := &attempt{budgets: b, snap: snap}
		if err := t.load([]string{key}); err != nil {
			return nil, err
		}
		a := t.accounts[0]
		*expired = int64(len(a.closed))
		c := &ledger.Changes{Accounts: []ledger.Account{a.stored()}, Entries: a.added, Closed: a.closed}
		upto := t.now - b.keepIDs.Microseconds()
		for _, u := range a.tallies {
			if u.rule.counts() {
				upto = min(upto, u.edge)
			}
		}
		if upto > minTime {
			c.Drop = []ledger.Drop{{Account: key, At: upto}}
		}
		return c, nil
	}}
}
