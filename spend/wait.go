package spend

import (
	"math"
	"slices"
	"time"

	"github.com/brimgo/brim/store"
)

// horizon is the number of entries that leave a window at which a decline looks. A window may have
// millions of entries, and a decline must not cost more than two approvals.
const horizon = 32

// unlimited is the horizon of a read, which may take its time.
const unlimited = math.MaxInt

// wait is the first time at which a rule has room, or maxTime if waiting does not help. If atLeast
// is set, the rule may have room only later: the decision has looked no further.
type wait struct {
	at      int64
	atLeast bool
}

// after returns the time from now until w, or [store.Never] for maxTime and for a time that a
// Duration cannot reach.
func (w wait) after(now int64) time.Duration {
	us := w.at - now
	if w.at == maxTime || us > int64(store.Never)/1000 {
		return store.Never
	}
	return time.Duration(us) * time.Microsecond
}

// time returns w as a time, or the zero time for maxTime.
func (w wait) time() time.Time {
	if w.at == maxTime {
		return time.Time{}
	}
	return time.UnixMicro(w.at).UTC()
}

// wait returns the first time, not before from, at which the rule has room for n more units, if
// nobody else spends. Room comes from holds that expire, entries that leave the window, and periods
// that end. It looks at about limit entries.
func (u *tally) wait(a *account, n, from int64, limit int) (wait, error) {
	m := u.amounts
	w, err := u.waitBy(a, n, m.now, a.time, limit)
	if w.at = max(w.at, from); err != nil || w.at < m.until || m.until == maxTime {
		return w, err
	}
	if w, err = u.waitBy(a, n, m.then, m.until, limit); err == nil {
		w.at = max(w.at, m.until, from)
	}
	return w, err
}

// waitBy is wait for a rule whose amount does not change, from a time on.
func (u *tally) waitBy(a *account, n, amount, from int64, limit int) (wait, error) {
	if n > amount {
		return wait{at: maxTime}, nil
	}
	need := subtract(n, subtract(subtract(amount, u.used), u.held))
	if u.rule.kind == perTransaction || u.rule.counts() && need <= 0 {
		return wait{at: from}, nil
	}
	switch u.rule.kind {
	case leaky:
		return u.leakWait(n, amount, from), nil
	case lifetime:
		return u.freed(need, maxTime), nil
	case calendar, countPer:
		_, end := u.rule.periodAt(a.time)
		return u.freed(need, end), nil
	}
	return u.windowWait(a, need, limit)
}

// freed returns the first time at which expired holds have given back need units, and at the latest
// end.
func (u *tally) freed(need, end int64) wait {
	for _, x := range u.open {
		if x.spends {
			continue
		}
		if need -= x.held; need <= 0 {
			return wait{at: min(x.at, end)}
		}
	}
	return wait{at: end}
}

// windowWait is waitBy for a window that lacks need units, at least one. It goes through the
// entries from the oldest on, and subtracts the units of each date when the date leaves the window,
// and the units of each hold when the hold expires.
func (u *tally) windowWait(a *account, need int64, limit int) (wait, error) {
	width := u.rule.length.Microseconds()
	held := sums{open: slices.Clone(u.open)} // in the window
	answer, found := wait{at: maxTime}, false
	// expire takes the holds that expire before end, and reports whether that gives the answer.
	expire := func(end int64) bool {
		for !found && len(held.open) > 0 && held.open[0].at < end {
			x := held.open[0]
			held.open = held.open[1:]
			if x.spends {
				continue // the units are used from then on
			}
			if need -= x.held; need <= 0 {
				answer, found = wait{at: x.at}, true
			}
		}
		return found
	}
	through, more, err := u.evict(a, limit, func(l *eviction) bool {
		end := l.date + width
		if expire(end) {
			return false
		}
		// A correction has the date of the corrected entry, and leaves together
		// with that entry.
		used := l.used
		for _, x := range l.open {
			switch {
			case x.at >= end:
				need -= x.held
				held.hold(units{held: -x.held, expires: x.at, spends: x.spends})
			case x.spends:
				used += x.held
			}
		}
		if need -= used; need <= 0 {
			answer, found = wait{at: end}, true
		}
		return !found
	})
	if err == nil && !found && more && !expire(through+width) {
		answer = wait{at: through + width, atLeast: true}
	}
	return answer, err
}

// waitForAll returns the first time, not before that of first, at which every rule of asked has
// room for its units, if nobody else spends. A rule that has room at one time may have none at a
// later time: a raised limit ends. Until then its room only grows, so at most one more round for
// each rule is needed.
func (t *attempt) waitForAll(asked []demand, first wait) (wait, error) {
	for first.at != maxTime {
		before := first.at
		for _, r := range asked {
			a := t.accounts[r.account]
			u := a.tallies[r.rule].of(t.tags)
			if u.amounts.until == maxTime {
				continue // its room only grows
			}
			w, err := u.wait(a, r.n, first.at, horizon)
			if err != nil {
				return wait{}, err
			}
			first = wait{w.at, first.atLeast || w.atLeast}
		}
		if first.at == before {
			break
		}
	}
	return first, nil
}

// leakWait is waitBy for a Leaky rule. The bucket leaks, and holds expire.
func (u *tally) leakWait(n, amount, from int64) wait {
	later := *u
	later.expire(from)
	later.setLimit(u.rule.bucket(amount), from)
	op := store.Op{Bucket: later.bucket.For(u.name), Amount: float64(n)}
	for {
		// The record alone determines the level at a later time.
		at := int64(maxTime)
		if d := later.bucket.Refusal(&op, from, anySkew).RetryAfter; d < store.Never {
			at = from + d.Microseconds()
		}
		if len(later.open) == 0 || at <= later.open[0].at {
			return wait{at: at}
		}
		from = later.open[0].at
		later.expire(from)
	}
}

// grows returns the time at which the rule has more room than now, or the zero
// time if waiting does not help.
func (u *tally) grows(a *account) (time.Time, error) {
	w, err := u.wait(a, u.report(a).Remaining.Minor+1, a.time, unlimited)
	return w.time(), err
}
