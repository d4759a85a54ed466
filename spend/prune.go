package spend

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/brimgo/brim/spend/ledger"
	"github.com/brimgo/brim/store"
)

// PruneResult counts the work of one [Budgets.Prune].
type PruneResult struct {
	Expired  int64 // expired holds that were ended
	Requests int64 // IDs that were removed
}

// Prune ends the expired holds of accounts that no decision has touched since,
// and removes data that is no longer needed: entries older than every window and
// than [Options.KeepIDs], and IDs older than KeepIDs that have no open hold. It
// keeps the entries of open holds, and all that follow them.
//
// Prune covers the accounts of the main budget. It reasons from the figures that each account
// stores, and not from the rules of this process alone: an account keeps the entries that any rule
// with figures in it may still need, whichever process knows the rule. These are the entries that
// the rule has counted and that have not left it, and those that it has yet to count. So an account
// with a [Lifetime] rule keeps all entries. An account with a [Leaky] rule keeps those since the
// last decision with the rule, if there are any. An account on which a rule has not decided yet
// keeps the entries for it, if the rule is of this process, or has decided on one of the accounts
// within KeepIDs.
//
// A later decision is the same with and without Prune, also one of another process with other
// rules, with two exceptions. A request that is sent again after its ID was removed is a new
// request, and a spend whose ID was removed can no longer be captured or refunded, nor can money be
// recorded at a date whose entries were removed. A rule that is new to an account counts the
// entries that are dated after the removed ones.
//
// Copy the entries that you want to archive before you call Prune. After an
// error the result counts the part that was done; call Prune again to continue.
// If single accounts are damaged, Prune prunes all others first, and then returns
// an error that is [store.ErrCorrupt].
func (b *Budgets) Prune(ctx context.Context) (done PruneResult, err error) {
	c := b.begin(ctx, "prune")
	defer c.end(&err)
	prefix := b.main.prefix()
	reach, err := b.reach(c.ctx)
	if err != nil {
		return done, err
	}
	damage, err := b.eachPage(c.ctx, func(keys []string) error {
		expired, err := b.pruneAccounts(&c, keys, reach)
		done.Expired += expired
		return err
	})
	if err != nil {
		return done, err
	}
	cutoff := new(int64)
	err = b.view(c.ctx, &action{}, func(t *attempt) error {
		*cutoff = t.now - b.keepIDs.Microseconds()
		return nil
	})
	if err == nil {
		done.Requests, err = b.ledger.PruneRequests(c.ctx, prefix, *cutoff)
	}
	if err != nil {
		return done, fmt.Errorf("spend: pruning IDs: %w", err)
	}
	return done, damage
}

// eachPage calls f with all accounts of the main budget, in parts. An error of f that is ErrCorrupt
// belongs to damaged accounts alone: eachPage goes on, and returns the first of these as damage.
func (b *Budgets) eachPage(ctx context.Context, f func(keys []string) error) (damage, err error) {
	for after := ""; ; {
		keys, err := b.ledger.Accounts(ctx, b.main.prefix(), after, historyPage)
		if err != nil {
			return damage, err
		}
		switch err := f(keys); {
		case errors.Is(err, store.ErrCorrupt):
			damage = cmp.Or(damage, err)
		case err != nil:
			return damage, err
		}
		if len(keys) < historyPage {
			return damage, nil
		}
		after = keys[len(keys)-1]
	}
}

// reach returns how far back the rules of the main budget need entries: the rules of this process
// in all plans, and those that have decided on one of the accounts within KeepIDs. A rule counts
// the entries of an account on which it has not decided yet, so one account tells for all.
func (b *Budgets) reach(ctx context.Context) (int64, error) {
	longest := b.keepIDs.Microseconds()
	for _, r := range b.main.allRules() {
		longest = max(longest, r.reach())
	}
	_, err := b.eachPage(ctx, func(keys []string) error {
		job, page := &ledger.Job{Accounts: keys}, new(int64)
		job.Run = func(snap ledger.Snapshot) (*ledger.Changes, error) {
			*page = 0
			for _, key := range keys {
				a, err := b.loadBare(b.main, snap, key)
				if errors.Is(err, store.ErrCorrupt) {
					continue // pruneAccounts tells of it
				}
				if err != nil {
					return nil, err
				}
				*page = max(*page, b.reachOf(a, snap.Now()))
			}
			return nil, nil
		}
		err := b.ledger.View(ctx, job)
		longest = max(longest, *page)
		return err
	})
	return longest, err
}

// reachOf returns how far back the rules of other processes need entries that have decided on an
// account within KeepIDs.
func (b *Budgets) reachOf(a *account, now int64) (reach int64) {
	for _, u := range a.unknown {
		if now-u.countedAt <= b.keepIDs.Microseconds() {
			reach = max(reach, u.reach)
		}
	}
	return reach
}

// spare returns the time up to which the rule needs no entry of the account any more, and forgets
// the sums of entries that have left the rule by now. It knows no more of the rule than is stored:
// the process may lack the rule. seq is the number of the account's last entry.
func (u *tally) spare(now, seq int64) int64 {
	switch {
	case u.reach == 0 && (u.firstSeq == 0 || u.countedSeq == seq): // PerTransaction, or Leaky
		return maxTime
	case u.reach == 0: // the bucket gets the entries that the rule has missed
		return u.countedAt - 1
	case u.reach == maxTime:
		return minTime
	case u.countedAt <= now-u.reach:
		// All that the rule has counted is dated up to its last decision, so it has left. The rule
		// has yet to count the entries that it has missed, and then moves its edge.
		u.sums, u.values, u.edge, u.quiet = sums{}, nil, u.countedAt, u.countedAt
		return now - u.reach
	}
	return min(now-u.reach, max(u.edge, u.quiet))
}

// pruneAccounts prunes a page of accounts at the same time, so that they share
// commits. An error that is ErrCorrupt belongs to damaged accounts alone.
func (b *Budgets) pruneAccounts(c *call, keys []string, reach int64) (expired int64, err error) {
	outs, errs := make([]*pruned, len(keys)), make([]error, len(keys))
	var wg sync.WaitGroup
	for i, key := range keys {
		outs[i] = new(pruned)
		wg.Go(func() { errs[i] = b.pruneAccount(c.ctx, key, reach, outs[i]) })
	}
	wg.Wait()
	var damage error
	for i, out := range outs {
		expired += out.expired
		c.held(out.holds)
		switch {
		case errs[i] == nil:
		case errors.Is(errs[i], store.ErrCorrupt):
			damage = cmp.Or(damage, errs[i])
		default:
			return expired, errs[i]
		}
	}
	return expired, damage
}

// pruned is the part of an account's pruning that a ledger has stored.
type pruned struct {
	expired int64 // number of holds that were ended
	holds   []Hold
	more    bool // holds have expired that were not ended, or entries can go
}

// pruneAccount prunes an account, in as many decisions as it takes: each ends a page of holds.
func (b *Budgets) pruneAccount(ctx context.Context, key string, reach int64, done *pruned) error {
	for done.more = true; done.more; {
		page := new(pruned)
		if err := b.ledger.Decide(ctx, b.pruneJob(key, reach, page)); err != nil {
			return err
		}
		done.expired, done.holds, done.more = done.expired+page.expired, append(done.holds, page.holds...), page.more
	}
	return nil
}

// mostDropped is about the largest number of entries that one decision drops: nobody waits long for
// the account.
const mostDropped = 1024

// pruneJob returns a job that ends expired holds of an account and drops the entries that
// nothing needs. It changes nothing if there are none.
func (b *Budgets) pruneJob(key string, reach int64, out *pruned) *ledger.Job {
	return &ledger.Job{Accounts: []string{key}, Run: func(snap ledger.Snapshot) (*ledger.Changes, error) {
		a, err := b.advanceBare(snap, key)
		if err != nil {
			return nil, err
		}
		if err := a.endExpired(historyPage); err != nil {
			return nil, err
		}
		*out = pruned{int64(len(a.closed)), a.holdsIn(nil), a.next != 0 && a.next <= a.time}
		upto, now := int64(minTime), snap.Now() // if the account is ahead, Mend needs what is not old
		if reach != maxTime {
			upto = now - reach
		}
		for _, u := range a.unknown {
			upto = min(upto, u.spare(now, a.seq))
		}
		// Captures, refunds and the end of a hold correct the entries of the hold. A rule that is
		// new to the account must count the hold, so it must find the corrected entries as well.
		for _, e := range a.ends {
			upto = min(upto, e.since-1)
		}
		if upto > a.pruned {
			old, through, err := snap.Entries(key, minTime, upto, mostDropped)
			if err != nil {
				return nil, err
			}
			switch { // a correction is dated before it happens
			case len(old) == 0:
				upto = minTime
			case through < upto:
				upto, out.more = through, true
			}
		}
		if upto <= a.pruned {
			if len(a.closed) == 0 {
				return nil, nil
			}
			return a.bare(), nil
		}
		if a.pruned = upto; upto == 0 {
			a.pruned = -1 // 0 stands for none
		}
		c := a.bare()
		c.Drop = []ledger.Drop{{Account: key, At: upto}}
		return c, nil
	}}
}
