package decide

import (
	"cmp"
	"fmt"
	"math/bits"
	"slices"
	"time"

	"github.com/brimgo/brim/spend/ledger"
	"github.com/brimgo/brim/store"
)

// holdings are the open holds of an account, as far as decisions need them: the ledger has the
// holds.
type holdings struct {
	next   int64         // expiry of the first open hold, or an earlier time; 0 without holds, for no hold expires at 0
	ends   []end         // of the holds that expire after the account's time, in that order
	opened []ledger.Hold // by this decision
	closed []ledger.Hold // by this decision
}

// end is the time at which holds of an account expire.
type end struct {
	at    int64
	since int64 // the earliest date of a part of these holds, or a date before it
	holds int64 // their number
}

// open adds a hold of which no part is dated before since.
func (h *holdings) open(hold ledger.Hold, since int64) {
	h.opened = append(h.opened, hold)
	i, found := h.find(hold.Expires)
	if !found {
		h.ends = slices.Insert(h.ends, i, end{at: hold.Expires, since: since})
	}
	h.ends[i].since = min(h.ends[i].since, since)
	h.ends[i].holds++
	h.next = sooner(h.next, hold.Expires)
}

// close removes a hold.
func (h *holdings) close(hold ledger.Hold, expired bool) {
	h.closed = append(h.closed, hold)
	if i, found := h.find(hold.Expires); found && !expired {
		if h.ends[i].holds--; h.ends[i].holds == 0 {
			h.ends = slices.Delete(h.ends, i, i+1)
		}
	}
}

func (h *holdings) find(at int64) (int, bool) {
	return slices.BinarySearchFunc(h.ends, at, func(e end, at int64) int { return cmp.Compare(e.at, at) })
}

// pass drops the ends up to a time.
func (h *holdings) pass(now int64) {
	for len(h.ends) > 0 && h.ends[0].at <= now {
		h.ends = h.ends[1:]
	}
}

// crowd is the number of ends at which an account is crowded. An account keeps sums for each end,
// so that a decision need not read the holds that have expired.
const crowd = 32

// crowded reports whether a hold with that end must share the end of others.
func (h *holdings) crowded(at int64) bool {
	_, shared := h.find(at)
	return len(h.ends) >= crowd && !shared
}

// expiry returns the time at which a new hold expires that lasts for ttl. Holds of a crowded
// account expire together: they last for up to a sixteenth longer. So the ends of an account are
// few, however many holds it has.
func (g *group) expiry(ttl time.Duration) int64 {
	at := ending(g.now + ttl.Microseconds())
	if slices.ContainsFunc(g.accounts, func(a *account) bool { return a.crowded(at) }) {
		step := int64(1) << max(0, bits.Len64(uint64(ttl.Microseconds()))-5)
		return ending(at + (step-at%step)%step)
	}
	return at
}

// held reads the spends whose holds expire up to a time, at most limit after a hold and in that
// order, and the earliest expiry of those that follow, or 0.
func (p *past) held(after ledger.Hold, upto int64, limit int) (held []*spend, next int64, err error) {
	requests, next, err := p.snap.Holds(p.key, after, upto, limit)
	if err != nil {
		return nil, 0, err
	}
	for _, r := range requests {
		sp, err := spendOf(&r.Request)
		if err != nil {
			return nil, 0, err
		}
		if !slices.Contains(sp.accounts, p.key) {
			return nil, 0, fmt.Errorf("spend: %w: an account has a hold of a spend that it has no part in", store.ErrCorrupt)
		}
		if r.Expires != sp.expires {
			return nil, 0, fmt.Errorf("spend: %w: an account has a hold with another end than its spend", store.ErrCorrupt)
		}
		held = append(held, sp)
	}
	return held, next, nil
}

// sooner returns the earlier one of two times, of which 0 is none.
func sooner(s, t int64) int64 {
	if s == 0 || t != 0 && t < s {
		return t
	}
	return s
}

// ending returns the end t as it is stored. A stored 0 means that there is no end, so an end at 0
// is stored as a microsecond later.
func ending(t int64) int64 {
	if t == 0 {
		return 1
	}
	return t
}

// utc returns a time of the ledger.
func utc(t int64) time.Time { return time.UnixMicro(t).UTC() }
