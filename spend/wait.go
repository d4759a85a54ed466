package spend

import (
	"math"
	"time"

	"github.com/brimgo/brim/store"
)

// horizon is the number of entries that leave a window, and of holds that expire, at which a
// decline looks. A window may have millions of entries, and a decline must not cost more than an
// approval.
const horizon = 256

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

// outlook is the expiries of an account's open holds that give room to a rule.
type outlook struct {
	expiries []expiry
	unknown  int64 // holds that expire at this time or later may be missing; maxTime if none is
}

// expiry is the amount that a hold gives back to a rule when it expires, if
// nobody ends it before.
type expiry struct {
	at     int64
	amount int64           // of all dates; number of spends for a rule that counts them
	byDate map[int64]int64 // the same amount by the date at which it counts
}

// outlook returns the expiries of the account's first open holds, in that order.
func (u *tally) outlook(a *account, limit int) (o outlook, err error) {
	held, unknown, err := a.openHolds(limit)
	if err != nil {
		return o, err
	}
	o.unknown = unknown
	for _, sp := range held {
		if sp.expires <= a.time || !u.takes(sp.tags, sp.amount) {
			continue // this decision has ended the expired hold already
		}
		x := expiry{at: sp.expires, byDate: make(map[int64]int64)}
		for i, p := range sp.parts {
			n := p.held
			if u.rule.spends() {
				if n = 0; i == 0 && sp.counted && !sp.captured() {
					n = 1
				}
			}
			date := sp.dateIn(a.key, p)
			if u.rule.kind == leaky && sp.seqIn(a.key, p) < u.firstSeq || u.rule.counts() && date <= u.edge {
				continue
			}
			x.amount += n
			x.byDate[date] += n
		}
		o.expiries = append(o.expiries, x)
	}
	return o, nil
}

// wait returns the first time, not before from, at which the rule has room for n more units, if
// nobody else spends. Room comes from holds that expire, entries that leave the window, and periods
// that end. It looks at about limit entries and holds.
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
	need := subtract(n, subtract(subtract(amount, u.spent()), u.held))
	if u.rule.kind == perTransaction || u.rule.counts() && need <= 0 {
		return wait{at: from}, nil
	}
	o, err := u.outlook(a, limit)
	if err != nil {
		return wait{}, err
	}
	switch u.rule.kind {
	case leaky:
		return u.leakWait(o, n, amount, from), nil
	case lifetime:
		return o.until(need, maxTime), nil
	case calendar, countPer:
		_, end := u.rule.periodAt(a.time)
		return o.until(need, end), nil
	}
	return u.windowWait(a, o, need, limit)
}

// until returns the first time at which expired holds have given back need units, and at the latest
// end.
func (o outlook) until(need, end int64) wait {
	for _, x := range o.expiries {
		if x.at >= end {
			return wait{at: end}
		}
		if need -= x.amount; need <= 0 {
			return wait{at: x.at}
		}
	}
	if o.unknown < end {
		return wait{at: o.unknown, atLeast: true}
	}
	return wait{at: end}
}

// windowWait is waitBy for a window that lacks need units, at least one. It goes through the
// entries from the oldest on, and subtracts the units of each date when the date leaves the window,
// and the units of each hold when the hold expires. Units that credits have paid give no room when
// they leave: they are not in the used amount.
func (u *tally) windowWait(a *account, o outlook, need int64, limit int) (wait, error) {
	width := u.rule.length.Microseconds()
	expired := make(map[int64]int64) // by date: given back before the date leaves
	paid := u.paid
	answer, found := wait{at: maxTime}, false
	// expire takes the holds that expire before end, and reports whether that gives the answer.
	expire := func(end int64) bool {
		for len(o.expiries) > 0 && o.expiries[0].at < end {
			x := o.expiries[0]
			o.expiries = o.expiries[1:]
			for date, n := range x.byDate {
				if date+width <= x.at {
					continue // the date leaves before the hold expires
				}
				expired[date] += n
				need -= n
			}
			if need <= 0 {
				answer, found = wait{at: x.at}, true
				return true
			}
		}
		if o.unknown < end {
			answer, found = wait{at: o.unknown, atLeast: true}, true
		}
		return found
	}
	through, more, err := u.leaving(a, limit, func(l leave) bool {
		if expire(l.date + width) {
			return true
		}
		// A correction has the date of the corrected entry, and leaves together
		// with that entry.
		k := min(paid, l.used)
		paid -= k
		if need -= l.used - k + l.held - expired[l.date]; need <= 0 {
			answer, found = wait{at: l.date + width}, true
		}
		return found
	})
	if err == nil && !found && more && !expire(through+width) {
		answer = wait{at: through + width, atLeast: true}
	}
	return answer, err
}

// waitForAll returns the first time, not before at, at which every rule of asked has room for its
// units, if nobody else spends. A rule that has room at one time may have none at a later time: a
// raised limit ends. Until then its room only grows, so at most one more round for each rule is
// needed.
func (t *attempt) waitForAll(asked []demand, at int64) (int64, error) {
	for at != maxTime {
		before := at
		for _, r := range asked {
			a := t.accounts[r.account]
			u := a.tallies[r.rule].of(t.tags)
			if u.amounts.until == maxTime {
				continue // its room only grows
			}
			w, err := u.wait(a, r.n, at, horizon)
			if err != nil {
				return 0, err
			}
			at = w.at
		}
		if at == before {
			break
		}
	}
	return at, nil
}

// leakWait is waitBy for a Leaky rule. The bucket leaks, and holds expire.
func (u *tally) leakWait(o outlook, n, amount, from int64) wait {
	op := store.Op{Bucket: u.rule.bucket(amount).For(u.name), Amount: float64(n)}
	bucket := u.bucket
	if op.LeakRate != bucket.LeakRate { // the limit changes at from
		settle(&bucket, from)
	}
	bucket.Limit = op.Limit
	for i := 0; ; i++ {
		// The record alone determines the level at a later time.
		at := int64(maxTime)
		if d := bucket.Refusal(&op, from, anySkew).RetryAfter; d != store.Never {
			at = from + d.Microseconds()
		}
		switch {
		case i < len(o.expiries) && at > o.expiries[i].at:
			bucket.Held -= float64(o.expiries[i].amount)
			from = max(from, o.expiries[i].at)
		case i == len(o.expiries) && at > o.unknown:
			return wait{at: o.unknown, atLeast: true}
		default:
			return wait{at: at}
		}
	}
}

// grows returns the time at which the rule has more room than now, or the zero
// time if waiting does not help.
func (u *tally) grows(a *account) (time.Time, error) {
	w, err := u.wait(a, u.report(a).Remaining.Minor+1, a.time, unlimited)
	return w.time(), err
}
