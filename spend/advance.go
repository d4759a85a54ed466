package spend

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/brimgo/brim/spend/internal/book"
	"github.com/brimgo/brim/spend/ledger"
	"github.com/brimgo/brim/store"
)

// advance brings the account to now: rules count the entries that they have missed, entries leave
// windows, and expired holds leave the sums. The ledger stores these changes together with the
// decision.
func (a *account) advance(now int64) error {
	last := a.time
	a.time = now
	for len(a.ends) > 0 && a.ends[0].at <= now {
		a.ends = a.ends[1:]
	}
	a.useLimits()
	for _, u := range a.tallies {
		if err := u.advance(a, last, now); err != nil {
			return err
		}
	}
	return nil
}

// mostEnds is how many expired holds a decision ends. The others are out of the sums, too: an end
// changes no figure. Later decisions and Prune end them.
const mostEnds = 2

// endExpired adds the ends of holds that have expired, at most limit of them.
func (a *account) endExpired(limit int) error {
	if a.next == 0 || a.next > a.time {
		return nil
	}
	expired, next, err := a.holds(a.time, limit)
	if err != nil {
		return err
	}
	for _, sp := range expired {
		if err := sp.release(a, kindExpire, sp.id); err != nil {
			return err
		}
		a.close(sp)
	}
	a.next = next
	return nil
}

// forget drops the rules that this process lacks and that have not decided on the account for
// KeepIDs. If such a rule returns, it counts the ledger's entries anew. A Lifetime rule stays, because
// Prune may have removed entries that it has counted. Prune drops no rule: whether
// one returns as it was must not depend on when Prune ran.
func (a *account) forget() {
	a.unknown = slices.DeleteFunc(a.unknown, func(u *tally) bool { return a.time-u.countedAt > a.keepIDs && u.reach != maxTime })
}

// advance brings the rule from last, the account's time at its last decision,
// to now.
func (u *tally) advance(a *account, last, now int64) error {
	counted := u.countedAt
	switch {
	case !u.known:
		if err := u.begin(a, now); err != nil {
			return err
		}
	case u.countedSeq < a.seq:
		// A process with an older budget, which lacks the rule, has decided since.
		missed, err := a.snap.Since(a.key, ledger.Position{At: u.countedAt, Seq: u.countedSeq}, math.MaxInt)
		if err != nil {
			return err
		}
		for _, e := range missed {
			if len(a.mends) > 0 && e.Seq <= u.countedSeq { // counted under a clock that was ahead
				continue
			}
			if err := u.catchUp(a, &e); err != nil {
				return err
			}
		}
	}
	u.expire(now)
	u.known, u.countedSeq, u.countedAt = true, a.seq, now
	switch u.rule.kind {
	case leaky:
		u.leakBy(now)
		if a.latest(counted) > counted { // the entries do not tell when they happened
			u.rebase()
		}
	case rolling, count, calendar, countPer:
		edge := u.edgeIn(a, now)
		switch {
		case edge >= last: // no entry is dated after the last decision, so all have left
			u.edge, u.sums, u.values = edge, sums{}, nil
		case edge != u.edge && u.rule.periodic():
			// The rule has missed the beginning of the period, or the period begins at another
			// time: in another zone, or by other rules of the zone.
			u.sums, u.values = sums{}, nil
			return u.begin(a, now)
		default:
			return u.moveEdge(a, edge, now)
		}
	}
	return nil
}

// edgeAt returns the edge of the rule, which counts by date, at a time.
func (u *tally) edgeAt(t int64) int64 {
	switch {
	case u.rule.rolls():
		return t - u.rule.length.Microseconds()
	case u.rule.periodic():
		start, _ := u.rule.periodAt(t)
		return start - 1
	}
	return minTime
}

// edgeIn returns the edge of the rule in an account at a time. It is not before the time up to which
// Prune has removed entries: a refund or a release that is left counts only together with the entry
// that it corrects, or it would make room. Prune leaves the entries that the known rules need, so
// this matters to rules that begin later.
func (u *tally) edgeIn(a *account, t int64) int64 {
	return max(u.edgeAt(t), a.removed())
}

// catchUp counts an entry of a decision without this rule, as of then.
func (u *tally) catchUp(a *account, e *ledger.Entry) error {
	a.place(e)
	now := min(e.At, a.time)
	u.expire(now)
	return u.count(e, now)
}

// begin counts the ledger's entries for a rule that is new to the account. It counts no credit: the
// entries of a window do not tell for which units earlier credits have paid.
func (u *tally) begin(a *account, now int64) error {
	u.begun = a.seq
	if u.rule.kind == leaky {
		u.firstSeq, u.baseSeq, u.bucket = a.seq+1, a.seq, store.NewRecord(now)
		u.bucket.Limit = u.rule.bucket(u.amounts.now)
		u.base = u.bucket
		return nil
	}
	if !u.rule.counts() {
		return nil
	}
	u.quiet = now
	if u.edge = u.edgeIn(a, now); a.seq == 0 {
		return nil
	}
	_, err := a.dated(u.edge, maxTime, func(e *ledger.Entry) error {
		u.quiet = min(u.quiet, e.Dated-1)
		return u.sum(e, 1, now)
	})
	if u.countedSeq = a.seq; u.based() && a.pruned != minTime {
		u.rebase()
	}
	return err
}

// moveEdge moves the edge of a window at now, and subtracts the entries that the edge passes.
// Entries that the rule has not counted yet stay out of it.
//
// moveEdge remembers in quiet up to which date there is no entry. Hours may pass between the
// entries of an account, and a decision in between then reads nothing.
func (u *tally) moveEdge(a *account, edge, now int64) error {
	from := max(u.edge, u.quiet)
	u.edge = edge
	if from >= edge {
		return nil
	}
	through, err := a.dated(from, edge, func(e *ledger.Entry) error {
		if e.Seq > u.countedSeq {
			return nil
		}
		return u.sum(e, -1, now)
	})
	u.quiet = through
	return err
}

// A read of entries goes on with greater pages.
const maxPage = 1 << 14

// dated calls each for the entries dated after one time and up to another, in the order of their
// dates. It includes the entries of this decision. No other entry is dated up to through, which is
// not before upto.
func (a *account) dated(after, upto int64, each func(*ledger.Entry) error) (through int64, err error) {
	for limit := horizon; after < upto; limit = min(2*limit, maxPage) {
		entries, to, err := a.page(after, upto, limit)
		if err != nil {
			return after, err
		}
		for i := range entries {
			if err := each(&entries[i]); err != nil {
				return after, err
			}
		}
		after = to
	}
	return after, nil
}

// page reads about limit of the entries dated after one time and up to another. It has read all of
// them up to through. Entries that a mend has moved are among those of its date, all of them.
func (a *account) page(after, upto int64, limit int) (entries []ledger.Entry, through int64, err error) {
	entries, through, err = a.storedPage(after, upto, limit)
	if err != nil || len(a.mends) == 0 {
		return entries, through, err
	}
	through = min(through, upto)
	var list []ledger.Entry
	add := func(moved bool) {
		for _, e := range entries {
			dated := e.Dated
			if a.place(&e); (e.Dated != dated) == moved && e.Dated > after && e.Dated <= through {
				list = append(list, e)
			}
		}
	}
	add(false)
	from, to := int64(maxTime), a.latest(minTime)
	for _, m := range a.mends {
		if m.date > after && m.date <= through {
			from = min(from, m.date)
		}
	}
	for from < to {
		if entries, from, err = a.storedPage(from, to, maxPage); err != nil {
			return nil, after, err
		}
		add(true)
	}
	slices.SortFunc(list, func(x, y ledger.Entry) int {
		return cmp.Or(cmp.Compare(x.Dated, y.Dated), cmp.Compare(x.Seq, y.Seq))
	})
	return list, through, nil
}

// storedPage is page with the dates of the ledger.
func (a *account) storedPage(after, upto int64, limit int) (entries []ledger.Entry, through int64, err error) {
	entries, through, err = a.snap.Entries(a.key, after, upto, limit)
	if err == nil && through <= after {
		err = fmt.Errorf("spend: %w: the ledger returned no entries although it announced more", store.ErrCorrupt)
	}
	entries, through = book.Merge(entries, through, a.added, after, upto)
	return entries, through, err
}
