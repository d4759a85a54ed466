package spend

import (
	"time"

	"github.com/brimgo/brim/spend/ledger"
	"github.com/brimgo/brim/store"
)

// expiry is money that a hold gives back when it expires, if nobody ends it first.
type expiry struct {
	at     int64
	amount int64           // in all; of a Count rule: spends
	dated  map[int64]int64 // the same by date
}

// expiries lists what the account's open holds would give back to a rule, in order.
func (u *usage) expiries(a *account, now int64) ([]expiry, error) {
	if a.next == 0 {
		return nil, nil
	}
	held, _, err := a.snap.Holds(a.key, forever)
	if err != nil {
		return nil, err
	}
	var list []expiry
	for _, r := range held {
		sp, err := decodeSpend(r.ID, r.Accounts, r.Spend)
		if err != nil {
			return nil, err
		}
		if sp.expires <= now || !u.rule.matches(sp.tags) {
			continue // it has just been ended
		}
		x := expiry{at: sp.expires, dated: make(map[int64]int64)}
		leg := sp.leg(a.key)
		for i, p := range sp.parts {
			n := p.held
			if u.rule.kind == count {
				if n = 0; i == 0 && sp.counted && !sp.captured() {
					n = 1
				}
			}
			if u.rule.kind == leaky && p.seqs[leg] < u.since || u.rule.counts() && p.at <= u.edge {
				continue
			}
			x.amount += n
			x.dated[p.at] += n
		}
		list = append(list, x)
	}
	return list, nil
}

// wait reports how long after now the rule would have room for n more, if nobody else came: holds expire, entries leave the
// window, periods end.
func (u *usage) wait(a *account, n, now int64) (time.Duration, error) {
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
	return u.freed(a, holds, saturate(n, u.room(), -1), now)
}

// freed reports how long after now so much will have become free.
func (u *usage) freed(a *account, holds []expiry, need, now int64) (time.Duration, error) {
	if need <= 0 {
		return 0, nil
	}
	gone := make(map[int64]int64) // by date, what has expired before it leaves
	// until takes the holds that expire before a time, and reports when that was enough.
	until := func(end int64) (at int64, enough bool) {
		for len(holds) > 0 && holds[0].at < end {
			x := holds[0]
			holds = holds[1:]
			for d, n := range x.dated {
				if u.rule.rolls() && d+u.rule.length.Microseconds() <= x.at {
					continue // it has left by then
				}
				gone[d] += n
				need -= n
			}
			if need <= 0 {
				return x.at, true
			}
		}
		return 0, false
	}
	switch u.rule.kind {
	case lifetime:
		if at, enough := until(forever); enough {
			return waitFor(at, now), nil
		}
		return store.Never, nil
	case calendar:
		if u.used+u.held <= 0 {
			return store.Never, nil
		}
		_, end := u.rule.periodAt(now)
		if at, enough := until(end); enough {
			return waitFor(at, now), nil
		}
		return waitFor(end, now), nil
	}
	width := u.rule.length.Microseconds()
	found, at := false, int64(0)
	day, sum := int64(0), int64(0) // a date, and what is left of it
	leave := func() {
		if at, found = until(day + width); found || day == 0 {
			return
		}
		// Corrections of one date stand beside what they correct: only their sum leaves.
		if need -= sum - gone[day]; need <= 0 {
			at, found = day+width, true
		}
	}
	err := a.dated(u.edge, forever, func(e *ledger.Entry) (bool, error) {
		if e.Dated != day {
			if leave(); found {
				return false, nil
			}
			day, sum = e.Dated, 0
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

// leakWait is wait for a bucket: leaking alone, or leaking and holds that expire.
func (u *usage) leakWait(holds []expiry, n, now int64) time.Duration {
	op := store.Op{Bucket: u.rule.bucket().For(u.name), Amount: float64(n)}
	bucket, from := u.bucket, now
	for i := 0; ; i++ {
		// Times are the bucket's own: what has leaked at a time follows from its record, whoever reads it when.
		at := int64(forever)
		if d := bucket.Refusal(&op, from, believe).RetryAfter; d != store.Never {
			at = from + d.Microseconds()
		}
		if i == len(holds) || at <= holds[i].at {
			return waitFor(at, now)
		}
		bucket.Held -= float64(holds[i].amount)
		from = holds[i].at
	}
}

// grows reports when the rule next has more room than now; zero if it does not by waiting.
func (u *usage) grows(a *account, now int64) (time.Time, error) {
	if u.rule.kind == perTransaction {
		return time.Time{}, nil
	}
	holds, err := u.expiries(a, now)
	if err != nil {
		return time.Time{}, err
	}
	if u.rule.kind == leaky {
		show := u.report(a, now)
		return after(now, u.leakWait(holds, show.Remaining.Minor+1, now)), nil
	}
	d, err := u.freed(a, holds, 1, now)
	return after(now, d), err
}

func waitFor(at, now int64) time.Duration {
	us := at - now
	if at == forever || us > int64(store.Never)/1000 {
		return store.Never
	}
	return time.Duration(max(0, us)) * time.Microsecond
}
