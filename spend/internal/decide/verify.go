package decide

import (
	"context"
	"fmt"

	"github.com/brimgo/brim/spend/internal/figures"
	"github.com/brimgo/brim/spend/ledger"
	"github.com/brimgo/brim/store"
)

// Verify compares the figures of an account with its entries. A difference is [store.ErrCorrupt].
func (d *Decider) Verify(ctx context.Context, budget *Budget, key string) error {
	return d.Ledger.View(ctx, &ledger.Job{Accounts: []string{key}, Run: func(snap ledger.Snapshot) (*ledger.Changes, error) {
		a, err := d.load(budget, snap, key)
		if err != nil {
			return nil, err
		}
		entries, err := snap.Since(key, ledger.Position{At: minTime}, figures.Unlimited)
		if err != nil {
			return nil, err
		}
		return nil, a.verify(entries)
	}})
}

// verify compares the figures of every rule with all entries of the account.
func (a *account) verify(entries []ledger.Entry) error {
	if len(entries) == 0 && a.seq > 0 && a.pruned == minTime {
		return fmt.Errorf("spend: %w: an account has figures and no entries", store.ErrCorrupt)
	}
	if err := a.verifyOrder(entries); err != nil {
		return err
	}
	entries = a.placed(entries)
	first := a.seq + 1
	if len(entries) > 0 {
		first = entries[0].Seq
	}
	for _, u := range a.tallies {
		if err := u.Verify(entries, first, len(a.mends) > 0); err != nil {
			return err
		}
	}
	return nil
}

// verifyOrder checks that the entries are consecutive up to the last one of the
// account, and that time never runs back.
func (a *account) verifyOrder(entries []ledger.Entry) error {
	seq, at := int64(0), int64(minTime)
	for i := range entries {
		e := &entries[i]
		if i > 0 && e.Seq != seq+1 || e.At < at || e.Dated > e.At || e.Part > e.Seq {
			return fmt.Errorf("spend: %w: entry %d is out of order, or the entry before it is missing", store.ErrCorrupt, e.Seq)
		}
		seq, at = e.Seq, e.At
	}
	if len(entries) > 0 && seq != a.seq {
		return fmt.Errorf("spend: %w: the last entry is %d and the account's figures end at %d", store.ErrCorrupt, seq, a.seq)
	}
	return nil
}
