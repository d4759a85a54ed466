package spend

import (
	"time"

	"github.com/brimgo/brim/spend/ledger"
	"github.com/brimgo/brim/store"
)

// expiry is the amount that a hold gives back to a rule when it expires, if
// nobody ends it before.
type expiry struct {
	at     int64
	amount int64           // of all dates; number of spends for a Count rule
	byDate map[int64]int64 // the same amount by the date at which it counts
}

// expiries returns the expiries of the account's open holds, in that order.
func (u *tally) expiries(a *account, now int64) ([]expiry, error) {
	if a.next == 0 {
		return nil, nil
	}
	held, _, err := a.holds(maxTime)
	if err != nil {
		return nil, err
	}
	var list []expiry
	for _, sp := range held {
		if sp.expires <= now || !u.rule.matches(sp.tags) {
			continue // this decision has ended the expired hold already
		}
		x := expiry{at: sp.expires, byDate: make(map[int64]int64)}
		for i, p := range sp.parts {
			n := p.held
			if u.rule.kind == count {
				if n = 0; i == 0 && sp.counted && !sp.captured() {
					n = 1
				}
			}
			if u.rule.kind == leaky && sp.seqIn(a.key, p) < u.firstSeq || u.rule.counts() && p.at <= u.edge {
				continue
			}
			x.amount += n
			x.byDate[p.at] += n
		}
		list = append(list, x)
	}
	return list, nil
}

// wait returns the time after now until the rule has room for n more units, if
// nobody else spends. Room comes from holds that expire, entries that leave the
// window, and periods that end. The result is [store.Never] if waiting does not
// help.
func (u *tally) wait(a *account, n, now int64) (time.Duration, error) {
	r := u.rule
	if n > r.limit.Minor || r.kind == perTransaction {
		return store.Never, nil
	}
	holds, err := u.expiries(a, now)
	if err != nil {
		return 0, err
	}
	if r.kind == leaky {
		return u.leakWait(holds, n, now), nil
	}
	return u.freeWait(a, holds, subtract(n, u.room()), now)
}

// freeWait returns the time after now until need units have become free in a
// rule that counts by date.
func (u *tally) freeWait(a *account, holds []expiry, need, now int64) (time.Duration, error) {
	if need <= 0 {
		return 0, nil
	}
	switch u.rule.kind {
	case lifetime:
		return waitFor(u.untilExpired(holds, need, maxTime), now), nil
	case calendar:
		if sum, ok := add(u.used, u.held); ok && sum <= 0 {
			return store.Never, nil
		}
		_, end := u.rule.periodAt(now)
		return waitFor(min(end, u.untilExpired(holds, need, end)), now), nil
	}
	return u.windowWait(a, holds, need, now)
}

// untilExpired returns the first time before end at which expired holds have
// given back need units, or maxTime.
func (u *tally) untilExpired(holds []expiry, need, end int64) int64 {
	for _, x := range holds {
		if x.at >= end {
			break
		}
		if need -= x.amount; need <= 0 {
			return x.at
		}
	}
	return maxTime
}

// windowWait is freeWait for a window. It reads the entries from the oldest on,
// and subtracts the units of each date when the date leaves the window, and the
// units of each hold when the hold expires.
func (u *tally) windowWait(a *account, holds []expiry, need, now int64) (time.Duration, error) {
	width := u.rule.length.Microseconds()
	expired := make(map[int64]int64) // by date: given back before the date leaves
	// expire takes the holds that expire before a time. It returns the time at
	// which they have given back enough.
	expire := func(end int64) (at int64, enough bool) {
		for len(holds) > 0 && holds[0].at < end {
			x := holds[0]
			holds = holds[1:]
			for date, n := range x.byDate {
				if date+width <= x.at {
					continue // the date leaves before the hold expires
				}
				expired[date] += n
				need -= n
			}
			if need <= 0 {
				return x.at, true
			}
		}
		return 0, false
	}
	found, at := false, int64(0)
	date, sum := int64(0), int64(0) // sum of the entries of date so far
	leave := func() {
		if at, found = expire(date + width); found || date == 0 {
			return
		}
		// A correction has the date of the corrected entry, and leaves together
		// with that entry.
		if need -= sum - expired[date]; need <= 0 {
			at, found = date+width, true
		}
	}
	err := a.dated(u.edge, maxTime, func(e *ledger.Entry) (bool, error) {
		if e.Dated != date {
			if leave(); found {
				return false, nil
			}
			date, sum = e.Dated, 0
		}
		if u.rule.matches(e.Tags) {
			if u.rule.kind == count {
				sum += e.Count
			} else {
				sum += e.Used + e.Held
			}
		}
		return true, nil
	})
	if err == nil && !found {
		leave()
	}
	if err != nil || !found {
		return store.Never, err
	}
	return waitFor(at, now), nil
}

// leakWait is wait for a Leaky rule. The bucket leaks, and holds expire.
func (u *tally) leakWait(holds []expiry, n, now int64) time.Duration {
	op := store.Op{Bucket: u.rule.bucket().For(u.name), Amount: float64(n)}
	bucket, from := u.bucket, now
	for i := 0; ; i++ {
		// The record alone determines the level at a later time.
		at := int64(maxTime)
		if d := bucket.Refusal(&op, from, anySkew).RetryAfter; d != store.Never {
			at = from + d.Microseconds()
		}
		if i == len(holds) || at <= holds[i].at {
			return waitFor(at, now)
		}
		bucket.Held -= float64(holds[i].amount)
		from = holds[i].at
	}
}

// grows returns the time at which the rule has more room than now, or the zero
// time if waiting does not help.
func (u *tally) grows(a *account, now int64) (time.Time, error) {
	if u.rule.kind == perTransaction {
		return time.Time{}, nil
	}
	holds, err := u.expiries(a, now)
	if err != nil {
		return time.Time{}, err
	}
	if u.rule.kind == leaky {
		show := u.report(a.key, now)
		return timeAfter(now, u.leakWait(holds, show.Remaining.Minor+1, now)), nil
	}
	d, err := u.freeWait(a, holds, 1, now)
	return timeAfter(now, d), err
}

// waitFor returns the time from now until at, or [store.Never] for maxTime and
// for a time that a Duration cannot reach.
func waitFor(at, now int64) time.Duration {
	us := at - now
	if at == maxTime || us > int64(store.Never)/1000 {
		return store.Never
	}
	return time.Duration(max(0, us)) * time.Microsecond
}
