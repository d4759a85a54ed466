package spend

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/brimgo/brim/spend/ledger"
)

// Mend sets an account right whose time is ahead: it has decided under a clock that was wrong, and
// since then its windows do not move. From Mend on the account goes by the ledger's clock again. An
// account that is not ahead stays as it is.
//
// Mend makes no room beyond the rules:
//   - Entries of the future count from now on, and so do later captures and refunds of their spends.
//     The ledger keeps their dates.
//   - A hold that has expired stays expired. A hold that is open keeps its end; [Budgets.Void] ends
//     one that the wrong clock has put too far away.
//   - A [Leaky] rule that has counted under the wrong clock is full, and leaks from now on.
//   - Credits of before make no room in rules with a window. A further Credit does.
//   - If [Budgets.Prune] has removed entries that a window of now needs, Mend is [ErrRequest].
//
// The At of later entries is not before that of the last one of the wrong clock. Dated tells when
// they count. The ledger keeps an entry of kind mend, whose Tags have the reason. Retries and other
// errors are those of [Budgets.Charge].
func (b *Budgets) Mend(ctx context.Context, r FreezeRequest) (Decision, error) {
	return b.sendFreeze(ctx, kindMend, r)
}

// mend is one time at which an account was set right. The entries of the ledger stay as they are, so
// whoever reads them moves them; see [account.place].
type mend struct {
	date int64 // of the mend by the ledger's clock; what is dated later counts from then on
	top  int64 // the time that the account had; holds with an end up to it have expired
	seq  int64 // number of the last entry before it
}

// place moves an entry to the date at which it counts in a mended account. A correction moves with
// the entry that it corrects, also if it is added later. So the sums of both stay exact, and no
// spend has to know of the mend.
func (a *account) place(e *ledger.Entry) {
	for _, m := range a.mends {
		if cmp.Or(e.Part, e.Seq) > m.seq {
			continue
		}
		if e.Dated = min(e.Dated, m.date); e.Expires <= m.top {
			e.Expires = min(e.Expires, m.date)
		}
	}
}

// removed returns the date up to which Prune has removed entries. Those of before a mend count at its
// date at the latest, like the others.
func (a *account) removed() int64 {
	date := a.pruned
	for _, m := range a.mends {
		if a.pruned < m.top { // later entries are of top at the earliest
			date = min(date, m.date)
		}
	}
	return date
}

// expired reports whether the hold of a spend has expired in the account.
func (a *account) expired(sp *spend) bool {
	e := ledger.Entry{Seq: sp.seqIn(a.key, sp.parts[0]), Expires: sp.expires}
	a.place(&e)
	return e.Expires <= a.time
}

// latest returns a time, or the time of a later entry that a wrong clock has left: ledgers keep
// entries in the order of their times.
func (a *account) latest(at int64) int64 {
	for _, m := range a.mends {
		at = max(at, m.top)
	}
	return at
}

// mend sets the account to a time before its own. Rules with a window count the entries anew. Those
// of other processes do so when they return.
func (a *account) mend(now int64) error {
	if now >= a.time {
		return nil
	}
	for _, tallies := range [...][]*tally{a.tallies, a.unknown} {
		for _, u := range tallies {
			if removed := a.removed(); u.windowed() && now-u.reach < removed {
				return requestErr("Prune has removed entries of %v and before, and rule %q still needs some of them",
					time.UnixMicro(removed).UTC(), u.name)
			}
		}
	}
	top := a.time
	a.mends = append(a.mends, mend{now, top, a.seq})
	a.time = now
	a.useLimits()
	for _, u := range slices.Concat(a.tallies, a.unknown) {
		u.quiet = min(u.quiet, now-1) // entries have moved to now
	}
	for _, u := range a.unknown {
		if u.countedAt = min(u.countedAt, now); u.windowed() {
			*u = tally{name: u.name, fingerprint: u.fingerprint, reach: u.reach, limit: u.limit, countedSeq: anew, countedAt: u.countedAt, edge: now, quiet: now}
		} else {
			u.mend(now, top)
		}
		u.fillUp(now)
	}
	for _, u := range a.tallies {
		if u.countedAt = now; u.windowed() {
			u.sums, u.values = sums{}, nil
			if err := u.begin(a, now); err != nil {
				return err
			}
		} else {
			u.mend(now, top)
		}
		u.fillUp(now)
	}
	return nil
}

// mend moves the ends of holds that were over by a wrong clock, up to top, as [account.place] moves
// those of the entries.
func (u *tally) mend(now, top int64) {
	sums := []*sums{&u.sums, &u.opening}
	for _, list := range [...][]valueSums{u.values, u.openValues} {
		for i := range list {
			sums = append(sums, &list[i].sums)
		}
	}
	for _, s := range sums {
		list := s.open
		s.open, s.held = nil, 0
		for _, o := range list {
			if o.at <= top {
				o.at = min(o.at, now)
			}
			s.hold(units{held: o.held, expires: o.at, spends: o.spends}) // within the range, as before
		}
	}
	u.expire(u.countedAt)
	if u.reach == maxTime && u.edge >= now { // the rule began after a Prune by the wrong clock
		u.edge = now - 1
		u.rebase()
	}
}

// anew is the number of the last counted entry of a rule that has to count all of them again.
const anew = -1

// windowed reports whether entries leave the rule as time passes.
func (u *tally) windowed() bool { return u.reach > 0 && u.reach < maxTime }

// fillUp fills the bucket of a Leaky rule if it has a time after now: more may have leaked than
// there was time for. Verify begins with it, because the entries do not tell when they happened.
func (u *tally) fillUp(now int64) {
	if u.firstSeq == 0 {
		return
	}
	if u.bucket.Time > now {
		if u.bucket.Time = now; u.rule != nil {
			u.leakBy(now)
		}
		u.bucket.Level = max(u.bucket.Level, u.bucket.Limit.Capacity)
	}
	u.rebase()
}
