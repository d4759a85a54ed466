package spend

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/brimgo/brim/spend/ledger"
	"github.com/brimgo/brim/store"
)

// Verify compares the stored figures of an account with its entries. It reads all of the entries,
// adds them up, and fills the buckets of [Leaky] rules with them again, from the last change of the
// leak rate on. A [Lifetime] rule begins with the sums of the entries that Prune has removed. It
// changes nothing. A difference is [store.ErrCorrupt].
//
// After a Prune, Verify proves only the figures for which the entries are still there. In an
// account that [Budgets.Mend] has set right, it does not prove the used amount of a rule that has
// counted credits: the entries do not tell when they happened.
func (b *Budgets) Verify(ctx context.Context, account string) (err error) {
	c := b.begin(ctx, "verify")
	defer c.end(&err)
	key, err := b.main.key(account)
	if err != nil {
		return err
	}
	return b.ledger.View(c.ctx, &ledger.Job{Accounts: []string{key}, Run: func(snap ledger.Snapshot) (*ledger.Changes, error) {
		a, err := b.load(b.main, snap, key)
		if err != nil {
			return nil, err
		}
		entries, err := snap.Since(key, ledger.Position{At: minTime}, math.MaxInt)
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
	entries = slices.Clone(entries)
	for i := range entries {
		a.place(&entries[i])
	}
	first := a.seq + 1
	if len(entries) > 0 {
		first = entries[0].Seq
	}
	for _, u := range a.tallies {
		if !u.known || u.rule.kind == leaky && first > u.baseSeq+1 {
			continue
		}
		if err := u.verify(a, entries); err != nil {
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

// replay returns the figures of the rule after those of the entries that it has counted, from its base
// on.
func (u *tally) replay(entries []ledger.Entry) (*tally, error) {
	plain := &tally{
		rule: u.rule, name: u.name, fingerprint: u.fingerprint, begun: u.begun, edge: u.edge, quiet: u.quiet, firstSeq: u.firstSeq,
		bucket: u.base, baseSeq: u.baseSeq, sums: u.opening.clone(), values: cloneValues(u.openValues),
	}
	for i := range entries {
		if entries[i].Seq > u.countedSeq {
			break
		}
		if entries[i].Seq <= u.baseSeq {
			continue
		}
		if err := plain.count(&entries[i], min(entries[i].At, u.countedAt)); err != nil {
			return nil, err
		}
	}
	return plain, nil
}

// verify compares the figures of the rule with the entries that it has counted.
func (u *tally) verify(a *account, entries []ledger.Entry) error {
	plain, err := u.replay(entries)
	if err != nil {
		return err
	}
	if u.rule.counts() && plain.quiet < u.quiet {
		return fmt.Errorf("spend: %w: the figures of rule %q are without an entry of the window", store.ErrCorrupt, u.name)
	}
	plain.expire(u.countedAt)
	same := plain.bucket.Level == u.bucket.Level && slices.Equal(plain.open, u.open)
	if u.rule.counts() {
		exact := len(a.mends) == 0 || !slices.ContainsFunc(entries, func(e ledger.Entry) bool { return u.credited(&e) > 0 })
		equal := func(x, y valueSums) bool {
			return x.value == y.value && (x.used == y.used || !exact) && slices.Equal(x.open, y.open)
		}
		same = same && equal(valueSums{sums: plain.sums}, valueSums{sums: u.sums}) && slices.EqualFunc(plain.values, u.values, equal)
	}
	if !same {
		return fmt.Errorf("spend: %w: the figures of rule %q differ from the sum of its entries", store.ErrCorrupt, u.name)
	}
	return nil
}
