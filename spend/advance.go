package spend

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/brimgo/brim/spend/ledger"
	"github.com/brimgo/brim/store"
)

// advance brings the account to now: rules count the entries that they have missed,
// entries leave windows, and expired holds end. The ledger stores these changes
// together with the decision.
func (a *account) advance(now int64) error {
	last := a.time
	a.time = now
	for _, u := range a.tallies {
		if err := u.advance(a, last, now); err != nil {
			return err
		}
	}
	// A rule that no process has used for DefaultKeepIDs is dropped. If it returns,
	// it counts the ledger's entries anew.
	a.unknown = slices.DeleteFunc(a.unknown, func(u *tally) bool {
		return now-u.countedAt > DefaultKeepIDs.Microseconds()
	})
	if a.next == 0 || a.next > now {
		return nil
	}
	expired, next, err := a.holds(now)
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

// advance brings the rule from last, the account's time at its last decision,
// to now.
func (u *tally) advance(a *account, last, now int64) error {
	switch {
	case !u.known:
		if err := u.begin(a, now); err != nil {
			return err
		}
	case u.countedSeq < a.seq:
		// A process with an older budget, which lacks the rule, has decided since.
		missed, err := a.snap.Since(a.key, ledger.Position{At: u.countedAt, Seq: u.countedSeq})
		if err != nil {
			return err
		}
		for i := range missed {
			if err := u.count(&missed[i]); err != nil {
				return err
			}
		}
	}
	u.known, u.countedSeq, u.countedAt = true, a.seq, now
	switch u.rule.kind {
	case rolling, count:
		return u.moveEdge(a, now-u.rule.length.Microseconds())
	case calendar:
		if start, _ := u.rule.periodAt(now); start > u.edge+1 {
			if start <= last {
				return u.moveEdge(a, start-1)
			}
			// No entry is dated after the last decision, so a period that has begun
			// since then is empty.
			u.edge, u.used, u.held = start-1, 0, 0
		}
	}
	return nil
}

// begin counts the ledger's entries for a rule that is new to the account.
func (u *tally) begin(a *account, now int64) error {
	switch u.rule.kind {
	case leaky:
		u.firstSeq, u.bucket = a.seq+1, store.NewRecord(now)
		return nil
	case rolling, count:
		u.edge = now - u.rule.length.Microseconds()
	case calendar:
		start, _ := u.rule.periodAt(now)
		u.edge = start - 1
	case lifetime:
		u.edge = minTime
	}
	if a.seq == 0 || !u.rule.counts() {
		return nil
	}
	return a.dated(u.edge, maxTime, func(e *ledger.Entry) (bool, error) { return true, u.sum(e, 1) })
}

// moveEdge moves the edge forward and subtracts the entries that it passes.
func (u *tally) moveEdge(a *account, edge int64) error {
	if edge <= u.edge {
		return nil
	}
	err := a.dated(u.edge, edge, func(e *ledger.Entry) (bool, error) { return true, u.sum(e, -1) })
	u.edge = edge
	return err
}

// page is the number of entries that dated reads at first.
const page = 256

// dated calls each for the entries dated after one time and up to another, in
// the order of their dates. It includes the entries of this decision. It stops
// when each returns false.
func (a *account) dated(after, upto int64, each func(*ledger.Entry) (bool, error)) error {
	var fresh []*ledger.Entry
	for i := range a.added {
		if e := &a.added[i]; e.Dated > after && e.Dated <= upto {
			fresh = append(fresh, e)
		}
	}
	slices.SortStableFunc(fresh, func(x, y *ledger.Entry) int { return cmp.Compare(x.Dated, y.Dated) })
	for limit := page; after < upto; limit *= 2 {
		entries, through, err := a.snap.Entries(a.key, after, upto, limit)
		if err != nil {
			return err
		}
		if through <= after {
			return fmt.Errorf("spend: %w: the ledger returned no entries although it announced more", store.ErrCorrupt)
		}
		for i := 0; i < len(entries) || len(fresh) > 0; {
			var e *ledger.Entry
			switch {
			case i < len(entries) && (len(fresh) == 0 || entries[i].Dated <= fresh[0].Dated):
				e = &entries[i]
				i++
			case fresh[0].Dated <= through:
				e, fresh = fresh[0], fresh[1:]
			}
			if e == nil {
				break
			}
			if more, err := each(e); err != nil || !more {
				return err
			}
		}
		after = through
	}
	return nil
}
