package spend

import "github.com/brimgo/brim/spend/ledger"

// eviction is the units of a rule that leave its window together: the sums of the entries of one
// date.
type eviction struct {
	date int64
	sums
}

// gather adds the units of an entry to the last of list, or to a new one for another date. It
// leaves the units of holds out that have expired by now.
func (u *tally) gather(list []eviction, e *ledger.Entry, now int64) []eviction {
	if !u.takes(e.Tags, e.SpendAmount) {
		return list
	}
	n := u.units(e, now)
	if n.used == 0 && n.held == 0 {
		return list
	}
	if last := len(list) - 1; last < 0 || list[last].date != e.Dated {
		list = append(list, eviction{date: e.Dated})
	}
	list[len(list)-1].add(n)
	return list
}

// evict calls each with the units of each date that leaves the window of the rule, in that order,
// until each returns false. It goes through about limit entries. If there are more, more is set,
// and all entries dated up to through were among them.
func (u *tally) evict(a *account, limit int, each func(*eviction) bool) (through int64, more bool, err error) {
	if u.ahead != nil {
		for i := range u.ahead {
			if !each(&u.ahead[i]) {
				break
			}
		}
		return 0, false, nil
	}
	after := u.edge
	for size := horizon; ; size = min(8*size, maxPage) {
		entries, to, err := a.page(after, maxTime, size)
		if err != nil {
			return 0, false, err
		}
		var list []eviction
		for i := range entries {
			list = u.gather(list, &entries[i], a.time)
		}
		for i := range list {
			if !each(&list[i]) {
				return 0, false, nil
			}
		}
		switch limit -= size; {
		case to == maxTime:
			return 0, false, nil
		case limit <= 0:
			return to, true, nil
		}
		after = to
	}
}
