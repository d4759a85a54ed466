package spend

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sort"
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
// keeps the entries of open holds, and all that follow them. It visits the accounts
// on which there may be something to do. If it finds that old entries of an account
// are still needed, it looks at the account again after a sixteenth of KeepIDs, or of
// the age of the oldest entry if that is longer.
//
// Prune covers the accounts of the main budget. It reasons from the figures that each account
// stores, and not from the rules of this process alone: an account keeps the entries that any rule
// with figures in it may still need, whichever process knows the rule. These are the entries that
// the rule has counted and that have not left it, and those that it has yet to count. An account with
// a [Leaky] or [Lifetime] rule keeps the entries since the last decision with the rule that the rule
// has not counted. An account on which a rule has not decided yet keeps the entries for it, if the
// rule is of this process, or has a window and has decided on one of the accounts within KeepIDs. A
// Lifetime rule keeps them only if it is in the account's plan.
//
// A Lifetime rule keeps the sums of the entries that go, and [Budgets.Verify] begins with them. Only a
// process with the rule can tell these sums. If another one prunes, Verify begins with all that the
// rule has counted by then.
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
	now := new(int64)
	if err := b.view(c.ctx, &action{}, func(t *attempt) error { *now = ending(t.now); return nil }); err != nil {
		return done, err
	}
	reach := int64(-1) // until an account is due
	damage, err := b.eachPage(c.ctx, *now, func(keys []string) (err error) {
		if reach < 0 {
			if reach, err = b.reach(c.ctx); err != nil {
				return err
			}
		}
		expired, err := b.pruneAccounts(&c, keys, reach)
		done.Expired += expired
		return err
	})
	if err != nil {
		return done, err
	}
	done.Requests, err = b.ledger.PruneRequests(c.ctx, b.main.prefix(), *now-b.keepIDs.Microseconds())
	if err != nil {
		return done, fmt.Errorf("spend: pruning IDs: %w", err)
	}
	return done, damage
}

// eachPage calls f with the accounts of the main budget that are due by a time, or with all if that
// is 0, in parts. An error of f that is ErrCorrupt belongs to damaged accounts alone: eachPage goes
// on, and returns the first of these as damage.
func (b *Budgets) eachPage(ctx context.Context, due int64, f func(keys []string) error) (damage, err error) {
	for after := ""; ; {
		keys, next, err := b.ledger.Accounts(ctx, b.main.prefix(), after, due, historyPage)
		if err != nil {
			return damage, err
		}
		if len(keys) > 0 {
			err = f(keys)
		}
		switch {
		case errors.Is(err, store.ErrCorrupt):
			damage = cmp.Or(damage, err)
		case err != nil:
			return damage, err
		}
		if after = next; after == "" {
			return damage, nil
		}
	}
}

// reach returns how far back the rules of the main budget need entries: the rules of this process
// in all plans, and those that have decided on one of the accounts within KeepIDs. A rule counts
// the entries of an account on which it has not decided yet, so one account tells for all.
func (b *Budgets) reach(ctx context.Context) (int64, error) {
	longest := b.longest()
	_, err := b.eachPage(ctx, 0, func(keys []string) error {
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

// longest returns the longest one of KeepIDs and the windows of this process's rules.
func (b *Budgets) longest() int64 {
	longest := b.keepIDs.Microseconds()
	for _, r := range b.main.allRules() {
		if r.kind != lifetime {
			longest = max(longest, r.reach())
		}
	}
	return longest
}

// reachOf returns how far back the rules of other processes need entries that have decided on an
// account within KeepIDs.
func (b *Budgets) reachOf(a *account, now int64) (reach int64) {
	for _, u := range a.unknown {
		if u.windowed() && now-u.countedAt <= b.keepIDs.Microseconds() {
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
	case !u.based() && u.reach == 0: // PerTransaction
		return maxTime
	case u.based() && u.countedSeq == seq:
		return maxTime
	case u.based(): // the rule gets the entries that it has missed
		return u.countedAt - 1
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

// expiresAt returns the time from which Prune may end a hold of the account, or 0.
func (a *account) expiresAt() int64 {
	if a.next != 0 && a.next <= a.time {
		return min(a.next, ending(a.snap.Now())) // the account may be ahead
	}
	return a.next
}

// again is the part of KeepIDs after which Prune looks again at an account whose entries others still
// need, such as a rule of another process or an open hold. It is the part of the age of older entries,
// so that an account that nobody uses any more costs ever fewer visits.
const again = 16

// based reports whether the tally has a base, because no entry leaves the rule by its date.
func (u *tally) based() bool { return u.firstSeq != 0 || u.reach == maxTime }

// uncounted reports whether a Lifetime rule of the budget has not decided on an account yet.
func (b *checkedBudget) uncounted(a *account) bool {
	for i := range b.Rules {
		if b.Rules[i].kind == lifetime && !slices.ContainsFunc(a.unknown, func(u *tally) bool {
			return u.name == b.Rules[i].name && u.fingerprint == b.fingerprints[i]
		}) {
			return true
		}
	}
	return false
}

// fold adds entries that go to the openings of Lifetime rules. It cannot tell which of them a rule of
// another process has counted, so the opening of such a rule has all that it has counted.
func (b *Budgets) fold(a *account, gone []ledger.Entry) error {
	gone = slices.Clone(gone)
	for i := range gone {
		a.place(&gone[i])
	}
	rules := b.main.allRules()
	for _, u := range a.unknown {
		if u.reach != maxTime {
			continue
		}
		i := slices.IndexFunc(rules, func(r *Rule) bool { return r.name == u.name && r.fingerprint() == u.fingerprint })
		if i < 0 {
			u.rebase()
			continue
		}
		one := *u
		one.rule = rules[i]
		plain, err := one.replay(gone)
		if err != nil {
			return err
		}
		u.opening, u.openValues, u.baseSeq = plain.sums, plain.values, max(u.baseSeq, gone[len(gone)-1].Seq)
	}
	return nil
}

// mostDropped is about the largest number of entries that one decision drops: nobody waits long for
// the account.
const mostDropped = 1024

// pruneJob returns a job that ends expired holds of an account, drops the entries that nothing needs,
// and sets the time at which the account is due next. Decisions only lower that time, and only if it
// is later than they need: an update that changes it writes to all indexes of accounts.
func (b *Budgets) pruneJob(key string, reach int64, out *pruned) *ledger.Job {
	return &ledger.Job{Accounts: []string{key}, Run: func(snap ledger.Snapshot) (*ledger.Changes, error) {
		a, err := b.advanceBare(snap, key)
		if err != nil {
			return nil, err
		}
		last := a.seq
		if err := a.endExpired(historyPage); err != nil {
			return nil, err
		}
		a.pass(last)
		*out = pruned{int64(len(a.closed)), a.holdsIn(nil), a.next != 0 && a.next <= a.time}
		now := snap.Now() // if the account is ahead, Mend needs what is not old
		upto := now - reach
		if plan := b.main.plans[a.plan]; plan != nil && plan.uncounted(a) {
			upto = minTime
		}
		for _, u := range a.unknown {
			upto = min(upto, u.spare(now, a.seq))
		}
		// Captures, refunds and the end of a hold correct the entries of the hold. A rule that is
		// new to the account must count the hold, so it must find the corrected entries as well.
		for _, e := range a.ends {
			upto = min(upto, e.since-1)
		}
		if upto == 0 { // stands for none
			upto--
		}
		var old []ledger.Entry
		for limit := horizon; ; limit = mostDropped {
			if old, err = snap.Since(key, ledger.Position{At: a.pruned + 1}, limit); err != nil {
				return nil, err
			}
			if n := len(old); n < limit || limit == mostDropped || old[n-1].At > upto {
				break
			}
		}
		n := sort.Search(len(old), func(i int) bool { return old[i].At > upto })
		if n == len(old) && n >= mostDropped {
			upto, out.more = old[n-1].At, true
		}
		due := a.due
		if rest := slices.Concat(old[n:], a.added); !out.more {
			if due = a.expiresAt(); len(rest) > 0 {
				at := rest[0].At + b.longest()
				if at <= now {
					at = now + max(b.keepIDs.Microseconds(), now-rest[0].At)/again
				}
				due = sooner(due, ending(at))
			}
		}
		if n == 0 && len(a.closed) == 0 {
			if due == a.due {
				return nil, nil
			}
			stored, err := snap.Account(key)
			stored.Due = due
			return &ledger.Changes{Accounts: []ledger.Account{stored}}, err
		}
		if n > 0 {
			a.pruned = upto
			if err := b.fold(a, old[:n]); err != nil {
				return nil, err
			}
		}
		c := a.bare()
		if n > 0 {
			c.Drop = []ledger.Drop{{Account: key, At: upto}}
		}
		c.Accounts[0].Due = due
		return c, nil
	}}
}
