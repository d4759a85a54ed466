package figures

import (
	"fmt"
	"math"
	"time"

	"github.com/brimgo/brim/spend/internal/money"
	"github.com/brimgo/brim/store"
)

// anySkew is the MaxSkew of the bucket of a Leaky rule. It allows any skew, because
// the bucket goes by the account's time, which never runs back.
const anySkew = time.Duration(math.MaxInt64)

// bucket is the bucket of a Leaky rule. The Limit of its Record is the one last written, at whose
// rate the time before now leaks.
type bucket struct {
	store.Record
	until int64       // time at which later replaces the Limit; 0 if nothing does
	later store.Limit // of the rule once a raised limit of the account has ended
}

func (b *bucket) op(mode store.Mode, n int64) *store.Op {
	return &store.Op{Bucket: b.For("rule"), Mode: mode, Amount: float64(n)}
}

// accepts reports whether n more units fit.
func (b *bucket) accepts(n, now int64) bool {
	after := b.Record
	st, _, err := after.Fill(b.op(store.IfFits, n), now, anySkew)
	return err == nil && st.Accepted && !b.overfills(n, now)
}

// pour puts n units in, or drains them, whatever the limit.
func (b *bucket) pour(n, now int64) error {
	_, _, err := b.Fill(b.op(store.Always, n), now, anySkew)
	return err
}

// wait returns the time after which n more units fit, if nothing else happens.
func (b *bucket) wait(n, now int64) time.Duration {
	return b.Refusal(b.op(store.IfFits, n), now, anySkew).RetryAfter
}

// state returns the bucket under its own limit.
func (b *bucket) state(now int64) store.State { return b.State(b.Limit, now, anySkew) }

// level returns the level, rounded up.
func (b *bucket) level(now int64) int64 { return int64(math.Ceil(b.state(now).Level)) }

// overfills reports whether n more units would make a sum that a double does not hold exactly.
func (b *bucket) overfills(n, now int64) bool {
	return n > store.MaxAmount-b.level(now)-int64(b.Held)
}

// room returns the largest amount that fits. The sum that [store.Record.Fill] compares with the
// capacity decides: the difference may be rounded to another whole number. See overfills for the
// last case.
func room(st *store.State) int64 {
	n := math.Floor(st.Capacity - st.Level - st.Held)
	switch used := st.Level + st.Held; {
	case used+n > st.Capacity:
		n--
	case used+(n+1) <= st.Capacity:
		n++
	}
	return min(int64(n), store.MaxAmount-int64(math.Ceil(st.Level))-int64(st.Held))
}

// setLimit gives the bucket another limit from a time on. If the rate changes, setLimit writes the
// level at that time, after the leak at the rate last written: otherwise a rate that is raised and
// lowered again would make room. Verify begins there.
func (b *bucket) setLimit(limit store.Limit, at int64) (changed bool) {
	if changed = limit.LeakRate != b.LeakRate; changed {
		b.Level, b.Time = b.State(store.Limit{}, at, anySkew).Level, max(b.Time, at)
	}
	b.Limit, b.until, b.later = limit, 0, store.Limit{}
	return changed
}

// passLimit replaces a raised limit whose end is not after now. The limit changes at that end, and
// not at the later time of the decision.
func (b *bucket) passLimit(now int64) (changed bool) {
	return b.until != 0 && b.until <= now && b.setLimit(b.later, b.until)
}

// errOverfull is the error of a sum that the bucket of a rule does not count exactly.
func errOverfull(r *Rule) error {
	return fmt.Errorf("spend: %w: the sum of the account's spends would be more than 2^53 minor units, "+
		"up to which Leaky rule %q counts; the largest amount is %v",
		money.ErrAmount, r.Name, money.Money{Minor: store.MaxAmount, Currency: r.Limit.Currency})
}
