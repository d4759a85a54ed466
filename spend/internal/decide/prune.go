package decide

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sort"
	"sync"
	"time"

	"github.com/brimgo/brim/spend/internal/book"
	"github.com/brimgo/brim/spend/internal/figures"
	"github.com/brimgo/brim/spend/ledger"
	"github.com/brimgo/brim/store"
)

// Pruned counts the work of a Prune.
type Pruned struct {
	Expired  int64 // expired holds that were ended
	Requests int64 // IDs that were removed
}

// Prune ends expired holds in the accounts of a budget, and removes data that is no longer needed;
// see spend.Budgets.Prune. It calls ended with the holds that it has ended.
func (d *Decider) Prune(ctx context.Context, budget *Budget, ended func([]Hold)) (done Pruned, err error) {
	now, err := d.Now(ctx)
	if err != nil {
		return done, err
	}
	p := &pruning{Decider: d, ended: ended, width: accountsPage}
	damage, err := d.eachPage(ctx, budget, &p.pace, now, func(keys []string) error { return p.accounts(ctx, keys) })
	done.Expired = p.expired
	if err != nil {
		return done, err
	}
	done.Requests, err = d.Ledger.PruneRequests(ctx, budget.Prefix(), now-d.KeepIDs.Microseconds())
	if err != nil {
		return done, fmt.Errorf("spend: pruning IDs: %w", err)
	}
	return done, damage
}

// accountsPage is the number of accounts that are read at once.
const accountsPage = 200

// eachPage calls f with the accounts of a budget that are due by a time, or with all if that
// is 0, in parts. An error of f may belong to single accounts alone, see [isAlone]: eachPage goes
// on, and returns the first of these as damage.
func (d *Decider) eachPage(
	ctx context.Context, budget *Budget, pace *book.Pace, due int64, f func(keys []string) error,
) (damage, err error) {
	for after := ""; ; {
		if err := pace.Rest(ctx); err != nil {
			return damage, err
		}
		start := time.Now()
		keys, next, err := d.Ledger.Accounts(ctx, budget.Prefix(), after, due, accountsPage)
		if err != nil {
			return damage, err
		}
		pace.Worked(start)
		if len(keys) > 0 {
			err = f(keys)
		}
		switch {
		case isAlone(err):
			damage = cmp.Or(damage, err)
		case err != nil:
			return damage, err
		}
		if after = next; after == "" {
			return damage, nil
		}
	}
}

// isAlone reports whether an error belongs to single accounts: they are damaged, or the newest
// rules lack their plan.
func isAlone(err error) bool { return errors.Is(err, store.ErrCorrupt) || errors.Is(err, errNoPlan) }

// pruning is a Prune of a budget. It works in parts, and rests between them.
type pruning struct {
	*Decider
	ended   func([]Hold)
	pace    book.Pace
	width   int   // number of accounts that are pruned at the same time
	expired int64 // number of holds that were ended
}

// longest returns the longest one of KeepIDs and the windows of the rules of a budget.
func (p *pruning) longest(budget *Budget) int64 {
	longest := p.KeepIDs.Microseconds()
	for r := range budget.rules {
		if r.Span() != figures.Forever {
			longest = max(longest, r.Reach())
		}
	}
	return longest
}

// mostDropped is about the largest number of entries that one part of Prune drops, and eight times
// that of the holds that it ends: callers wait for a part.
const mostDropped = 512

// accounts prunes a page of accounts, some of them at the same time, so that they share commits. If
// one has more to prune than its share of mostDropped, the next part has fewer accounts. An error
// that is ErrCorrupt belongs to damaged accounts alone.
func (p *pruning) accounts(ctx context.Context, keys []string) error {
	var damage error
	for len(keys) > 0 {
		n := min(p.width, len(keys))
		if err := p.pace.Rest(ctx); err != nil {
			return err
		}
		rest, err := p.part(ctx, keys[:n])
		if err != nil && !isAlone(err) {
			return err
		}
		damage = cmp.Or(damage, err)
		if p.width = min(2*p.width, accountsPage); len(rest) > 0 {
			p.width = max(1, n/2)
		}
		keys = append(rest, keys[n:]...)
	}
	return damage
}

// part makes one decision about each of the accounts, and returns those that have more to prune. An
// error that is ErrCorrupt belongs to damaged accounts alone.
func (p *pruning) part(ctx context.Context, keys []string) (rest []string, err error) {
	outs, errs := make([]prunedAccount, len(keys)), make([]error, len(keys))
	var wg sync.WaitGroup
	for i, key := range keys {
		job := p.job(key, max(1, mostDropped/len(keys)), &outs[i])
		wg.Go(func() { errs[i] = p.Ledger.Decide(ctx, job) })
	}
	wg.Wait()
	var damage error
	for i, out := range outs {
		switch {
		case isAlone(errs[i]):
			damage = cmp.Or(damage, errs[i])
			continue
		case errs[i] != nil:
			err = cmp.Or(err, errs[i])
			continue
		}
		p.expired += out.expired
		if p.ended(out.holds); out.more {
			rest = append(rest, keys[i])
		}
	}
	return rest, cmp.Or(err, damage)
}

// prunedAccount is the part of an account's pruning that a ledger has stored.
type prunedAccount struct {
	expired int64 // number of holds that were ended
	holds   []Hold
	more    bool // holds have expired that were not ended, or entries can go
}

// expiresAt returns the time from which Prune may end a hold of the account, or 0.
func (a *account) expiresAt() int64 {
	if a.next != 0 && a.next <= a.time {
		return min(a.next, ending(a.snap.Now())) // the account may be ahead
	}
	return a.next
}

// job returns a job that ends expired holds of an account, drops the entries that nothing needs,
// about most of them, and sets the time at which the account is due next. Decisions only lower that
// time, and only if it is later than they need: an update that changes it writes to all indexes of
// accounts.
func (p *pruning) job(key string, most int, out *prunedAccount) *ledger.Job {
	k := p.Rules.known()
	return &ledger.Job{Accounts: []string{key}, Rules: k.of(key), Run: func(snap ledger.Snapshot) (*ledger.Changes, error) {
		defer p.pace.Worked(time.Now())
		a, err := p.bare(&group{decider: p.Decider, snap: snap, known: k}, key, max(1, most/8))
		if err != nil {
			return nil, err
		}
		*out = prunedAccount{int64(len(a.closed)), a.holds(nil), a.next != 0 && a.next <= a.time}
		now := snap.Now() // if the account is ahead, Mend needs what is not old
		old, upto, more, err := p.old(a, now, most)
		if err != nil {
			return nil, err
		}
		out.more = out.more || more
		due := a.due
		if !out.more {
			due = p.nextDue(a, old, upto, now)
		}
		n := sort.Search(len(old), func(i int) bool { return old[i].At > upto })
		if n == 0 && len(a.closed) == 0 {
			if due == a.due {
				return nil, nil
			}
			stored, err := snap.Account(key)
			stored.Due = due
			return &ledger.Changes{Accounts: []ledger.Account{Resealed(stored)}}, err
		}
		var drop []ledger.Drop
		if n > 0 {
			a.pruned, drop = upto, []ledger.Drop{{Account: key, At: upto}}
			if err := a.fold(old[:n]); err != nil {
				return nil, err
			}
		}
		stored := a.stored()
		stored.Due = due
		return &ledger.Changes{Accounts: []ledger.Account{Resealed(stored)}, Entries: a.added, Closed: a.closed, Drop: drop}, nil
	}}
}

// bare loads an account as it is now for a job that is no decision: no rule begins, because the
// time of the job changes no decision. It ends so many expired holds.
func (p *pruning) bare(g *group, key string, holds int) (*account, error) {
	budget, err := g.newestOf(key)
	if err != nil {
		return nil, err
	}
	a, err := p.load(budget, g.snap, key, nil)
	if err == nil {
		err = a.advance(max(a.now, a.time), false)
	}
	if err == nil {
		err = a.endExpired(holds)
	}
	return a, err
}

// upto returns the time up to which nothing needs the entries of an account at a time.
func (p *pruning) upto(a *account, now int64) int64 {
	upto := now - p.longest(a.budget)
	for _, u := range a.all() {
		upto = min(upto, u.Spare())
	}
	// Captures, refunds and the end of a hold correct the entries of the hold. A rule that is
	// new to the account must count the hold, so it must find the corrected entries as well.
	for _, e := range a.ends {
		upto = min(upto, e.since-1)
	}
	if upto == 0 { // stands for none
		upto--
	}
	return upto
}

// old returns the oldest entries of an account, about most of them if so many can go, and the time
// up to which they can. There may be more that can.
func (p *pruning) old(a *account, now int64, most int) (old []ledger.Entry, upto int64, more bool, err error) {
	upto = p.upto(a, now)
	after := ledger.Position{At: a.pruned + 1}
	for limit := min(figures.Horizon, most+1); ; {
		page, err := a.snap.Since(a.key, after, limit)
		if err != nil {
			return nil, 0, false, err
		}
		if old = append(old, page...); len(page) < limit || old[len(old)-1].At > upto {
			return old, upto, false, nil
		}
		last := old[len(old)-1]
		after = ledger.Position{At: last.At, Seq: last.Seq}
		if len(old) > most && old[0].At < last.At { // others of that time may follow
			return old, last.At - 1, true, nil
		}
		if limit = most + 1 - len(old); limit <= 0 {
			limit = most // all of them are of one time
		}
	}
}

// again is the part of KeepIDs after which Prune looks again at an account whose entries others
// still need, such as a Lifetime rule that is new to it, or an open hold. It is the part of the age
// of older entries, so that an account that nobody uses any more costs ever fewer visits.
const again = 16

// nextDue returns the time at which the account is due next.
func (p *pruning) nextDue(a *account, old []ledger.Entry, upto, now int64) int64 {
	due := a.expiresAt()
	n := sort.Search(len(old), func(i int) bool { return old[i].At > upto })
	if rest := slices.Concat(old[n:], a.added); len(rest) > 0 {
		at := rest[0].At + p.longest(a.budget)
		if at <= now {
			at = now + max(a.keepIDs, now-rest[0].At)/again
		}
		due = sooner(due, ending(at))
	}
	return due
}

// fold adds entries that go to the checksum of those that have gone, and to the openings of
// Lifetime rules.
func (a *account) fold(gone []ledger.Entry) error {
	for i := range gone {
		a.gone = chained(a.gone, &gone[i])
	}
	gone = a.placed(gone)
	for _, u := range a.all() {
		if err := u.Fold(gone, a.time); err != nil {
			return err
		}
	}
	return nil
}
