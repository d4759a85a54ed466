package spend

import (
	"fmt"
	"math"
	"time"

	"github.com/brimgo/brim/spend/ledger"
	"github.com/brimgo/brim/store"
)

// usage is what an account keeps for one rule.
//
// A rule that counts dates keeps a sum of the entries dated after its edge, and no others: used and held are exactly what
// adding them up would give. Where the edge moves on, the entries that it passes are subtracted; where a correction is dated
// before the edge, the entry it corrects has left with all that was then known, and the correction is not counted either.
// So a decision reads what leaves the window, and nothing that is in it.
type usage struct {
	name  string
	print uint64 // of the rule that it was counted by
	rule  *Rule  // nil where the budget has no such rule
	known bool   // it was stored; else it has to be counted first
	upto  int64  // number of the last entry that was counted
	last  int64  // time of the last decision that it took part in
	edge  int64
	used  int64 // of a Count rule: spends
	held  int64

	// Of a Leaky rule:
	since  int64 // entries numbered from this on count
	bucket store.Record
}

func newUsage(r *Rule, mark uint64) *usage { return &usage{name: r.name, print: mark, rule: r} }

// rolls reports whether entries leave the rule one by one.
func (r *Rule) rolls() bool { return r.kind == rolling || r.kind == count }

// counts reports whether the rule counts entries by date.
func (r *Rule) counts() bool { return r.rolls() || r.kind == calendar || r.kind == lifetime }

// believe is the MaxSkew of a bucket whose clock is the account's time, which never runs back.
const believe = time.Duration(math.MaxInt64)

// settle brings the rule from last, the account's time at its last decision, to now.
func (u *usage) settle(a *account, last, now int64) error {
	switch {
	case !u.known:
		if err := u.begin(a, now); err != nil {
			return err
		}
	case u.upto < a.seq:
		// Somebody who does not know the rule has decided meanwhile: a process with an older budget.
		missed, err := a.snap.Since(a.key, ledger.Position{At: u.last, Seq: u.upto})
		if err != nil {
			return err
		}
		for i := range missed {
			if err := u.count(&missed[i]); err != nil {
				return err
			}
		}
	}
	u.known, u.upto, u.last = true, a.seq, now
	switch u.rule.kind {
	case rolling, count:
		return u.leave(a, now-u.rule.length.Microseconds())
	case calendar:
		// Nothing can be dated after the last decision, so a period that has begun since is empty.
		if start, _ := u.rule.periodAt(now); start > u.edge+1 {
			if start <= last {
				return u.leave(a, start-1)
			}
			u.edge, u.used, u.held = start-1, 0, 0
		}
	}
	return nil
}

// begin counts a rule for the first time, from the ledger.
func (u *usage) begin(a *account, now int64) error {
	switch u.rule.kind {
	case leaky:
		u.since, u.bucket = a.seq+1, store.NewRecord(now)
		return nil
	case rolling, count:
		u.edge = now - u.rule.length.Microseconds()
	case calendar:
		start, _ := u.rule.periodAt(now)
		u.edge = start - 1
	case lifetime:
		u.edge = ever
	}
	if a.seq == 0 || !u.rule.counts() {
		return nil
	}
	return a.dated(u.edge, forever, func(e *ledger.Entry) (bool, error) { return true, u.sum(e, 1) })
}

// leave subtracts what the edge passes on its way to another place.
func (u *usage) leave(a *account, edge int64) error {
	if edge <= u.edge {
		return nil
	}
	err := a.dated(u.edge, edge, func(e *ledger.Entry) (bool, error) { return true, u.sum(e, -1) })
	u.edge = edge
	return err
}

// count counts a new entry.
func (u *usage) count(e *ledger.Entry) error {
	u.upto = e.Seq
	switch {
	case u.rule.kind == leaky:
		return u.fill(e)
	case u.rule.counts() && e.Dated > u.edge:
		return u.sum(e, 1)
	}
	return nil
}

// sum adds an entry, or takes it away.
func (u *usage) sum(e *ledger.Entry, sign int64) error {
	if !u.rule.matches(e.Tags) {
		return nil
	}
	ok := true
	plus := func(sum *int64, n int64) {
		s, fits := add(*sum, n*sign)
		if ok = ok && fits; fits {
			*sum = s
		}
	}
	if u.rule.kind == count {
		plus(&u.used, e.Count)
	} else {
		plus(&u.used, e.Used)
		plus(&u.held, e.Held)
	}
	if !ok {
		return fmt.Errorf("spend: %w: the sum of what the account has spent would be out of range", ErrAmount)
	}
	return nil
}

// fill puts an entry into a Leaky rule's bucket: what it adds to or takes from what is used and held.
func (u *usage) fill(e *ledger.Entry) error {
	if e.Part < u.since || e.Used == 0 && e.Held == 0 || !u.rule.matches(e.Tags) {
		return nil
	}
	op := store.Op{Bucket: u.rule.bucket().For(u.name), Mode: store.Always, Amount: float64(e.Used), Hold: float64(e.Held)}
	_, _, err := u.bucket.Fill(&op, e.At, believe)
	return err
}

// room reports what is left, which may be negative, saturating where it is out of range.
func (u *usage) room() int64 {
	return saturate(saturate(u.rule.limit.Minor, u.used, -1), u.held, -1)
}

func saturate(a, b, sign int64) int64 {
	s, ok := add(a, b*sign)
	switch {
	case ok:
		return s
	case a < 0:
		return math.MinInt64
	}
	return math.MaxInt64
}

// fits reports whether a charge fits the rule. total is what the whole spend then amounts to, and spends is by how much it
// changes their number.
func (u *usage) fits(n, total, spends, now int64, tags map[string]string) bool {
	if !u.rule.matches(tags) {
		return true
	}
	switch u.rule.kind {
	case perTransaction:
		return total <= u.rule.limit.Minor
	case count:
		return spends <= u.room()
	case leaky:
		bucket := u.bucket
		st, _, err := bucket.Fill(&store.Op{Bucket: u.rule.bucket().For(u.name), Amount: float64(n)}, now, believe)
		return err == nil && st.Accepted
	}
	return n <= u.room()
}

// report shows the rule as it stands at now. GrowsAt is left out where finding it means reading entries or holds.
func (u *usage) report(a *account, now int64) Usage {
	r := u.rule
	in := func(n int64) Money { return Money{n, r.limit.Currency} }
	show := Usage{Account: split(a.key), Rule: r.name, Limit: r.limit, Used: in(u.used), Held: in(u.held), Remaining: in(u.room())}
	switch r.kind {
	case perTransaction:
		show.Used, show.Held, show.Remaining = in(0), in(0), r.limit
	case leaky:
		st := u.bucket.State(r.bucket(), now, believe)
		show.Used, show.Held = in(int64(math.Ceil(st.Level))), in(int64(st.Held))
		show.Remaining = in(int64(math.Floor(st.Capacity - st.Level - st.Held)))
		if st.Level > 0 && st.Held == 0 {
			op := store.Op{Bucket: r.bucket().For(u.name), Amount: float64(show.Remaining.Minor + 1)}
			show.GrowsAt = after(now, u.bucket.Refusal(&op, now, believe).RetryAfter)
		}
	case calendar:
		if u.used > 0 && u.held == 0 {
			_, end := r.periodAt(now)
			show.GrowsAt = time.UnixMicro(end).UTC()
		}
	}
	return show
}

// after is a time that far from now; zero for [store.Never].
func after(now int64, d time.Duration) time.Time {
	if d == store.Never {
		return time.Time{}
	}
	return time.UnixMicro(now).Add(d).UTC()
}
