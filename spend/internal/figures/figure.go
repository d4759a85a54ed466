package figures

import (
	"math"
	"math/bits"
	"time"

	"github.com/brimgo/brim/spend/internal/money"
	"github.com/brimgo/brim/spend/ledger"
	"github.com/brimgo/brim/store"
)

// Figure is the figures of a rule for one value of its tag, or the figures of a rule without Per.
// It is to be read only, and stands until the tally changes.
type Figure struct {
	*Tally
	sums
	value string
	// shared tells that the value has no sums of its own, and that the rule has no more room for
	// one: the sums are those of all such values.
	shared bool
	ahead  []eviction // the units that will leave, if they were read ahead; see [Tally.All]
}

// Of returns the figure of a spend with these tags.
func (u *Tally) Of(tags map[string]string) Figure { return u.at(tags[u.Rule.Per]) }

// at returns the figure of a value.
func (u *Tally) at(value string) Figure {
	if !u.Rule.Each {
		return Figure{Tally: u, sums: u.sums}
	}
	f := Figure{Tally: u, value: value}
	switch i, found := u.find(value); {
	case found:
		f.sums = u.values[i].sums
	case u.full():
		f.sums, f.shared = u.others, true
	}
	return f
}

// All returns the figures of all values with used or held units, and that of a rule without Per. It
// reads the entries in the window once for all of them.
func (u *Tally) All(p Past) ([]Figure, error) {
	if !u.Rule.Each {
		return []Figure{u.at("")}, nil
	}
	ahead := make(map[string][]eviction)
	if u.Rule.Span() == Rolls {
		_, err := dated(p, Horizon, u.edge, MaxTime, func(e *ledger.Entry) error {
			one := Figure{Tally: u, value: e.Tags[u.Rule.Per]}
			ahead[one.value] = one.gather(ahead[one.value], e, p.Time())
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	var list []Figure
	for _, s := range u.values {
		if s.used > 0 || s.held > 0 {
			one := u.at(s.value)
			one.ahead = ahead[s.value]
			list = append(list, one)
		}
	}
	if s := u.others; s.used > 0 || s.held > 0 {
		list = append(list, Figure{Tally: u, sums: s, shared: true})
	}
	return list, nil
}

// room returns the rest of a limit. It may be negative. If it is out of range, room returns the
// nearest number. A value without sums of its own has no room: it may have used all of it.
func (f *Figure) room(limit int64) int64 {
	if f.shared {
		return 0
	}
	return money.Subtract(money.Subtract(limit, f.used), f.held)
}

// Ask is a question for more units of a spend, at a time of the account.
type Ask struct {
	Units  int64 // more units of money
	First  int64 // with which the spend began
	Total  int64 // that the spend has with these units
	Spends int64 // more spends
	Tags   map[string]string
}

// Of returns the number that the question asks of a rule.
func (q *Ask) Of(r *Rule) int64 {
	switch {
	case r.Span() == Alone:
		return q.Total
	case r.Spends():
		return q.Spends
	}
	return q.Units
}

// Fits reports whether a rule agrees.
func (q *Ask) Fits(u *Tally, now int64) bool {
	if !u.Rule.Matches(q.Tags, q.First) {
		return true
	}
	n := q.Of(u.Rule)
	switch u.Rule.Span() {
	case Alone:
		return n <= u.Amounts.Now && u.Amounts.Now > 0 // a limit of 0 blocks an authorization of 0, too
	case Leaks:
		return u.bucket.accepts(n, now)
	}
	f := u.Of(q.Tags)
	return n <= f.room(u.Amounts.Now)
}

// ends returns the time at which the next period begins.
func (f *Figure) ends(now int64) int64 {
	_, end := f.Rule.PeriodAt(now)
	for end < f.end {
		_, end = f.Rule.PeriodAt(end)
	}
	return end
}

// Share returns the used and held part of a limit in percent, rounded down.
func (f *Figure) Share(limit, now int64) int64 {
	used := f.used
	if f.Rule.Span() == Leaks {
		used = f.bucket.level(now)
	}
	if limit <= 0 {
		return 0
	}
	high, low := bits.Mul64(uint64(max(0, used))+uint64(max(0, f.held)), 100)
	if high >= uint64(limit) {
		return math.MaxInt64
	}
	share, _ := bits.Div64(high, low, uint64(limit))
	return int64(min(share, math.MaxInt64))
}

// Usage is the figures of a rule as a decision tells them, in the units of the rule.
type Usage struct {
	Rule, Tag, Value             string
	Others                       bool // the figures are those of all values without sums of their own
	Currency                     string
	Limit, Used, Held, Remaining int64
	GrowsAt                      time.Time // zero if waiting does not help, or if only the entries or the holds can tell it
}

// Report returns the usage at the time of the account.
func (f *Figure) Report(now int64) Usage {
	r := f.Rule
	u := Usage{
		Rule: r.Name, Tag: r.Per, Value: f.value, Others: f.shared, Currency: r.Limit.Currency,
		Limit: f.Amounts.Now, Used: f.used, Held: f.held, Remaining: f.room(f.Amounts.Now),
	}
	if r.Spends() { // a spend counts also while it is held
		u.Used, u.Held = f.used+f.held, 0
	}
	switch r.Span() {
	case Leaks:
		st := f.bucket.state(now)
		u.Used, u.Held, u.Remaining = int64(math.Ceil(st.Level)), int64(st.Held), room(&st)
		if st.Level > 0 && st.Held == 0 && f.Amounts.Until == MaxTime {
			if d := f.bucket.wait(u.Remaining+1, now); d < store.Never {
				u.GrowsAt = time.UnixMicro(now).Add(d).UTC()
			}
		}
	case Repeats:
		if f.used > 0 && f.held == 0 && f.Amounts.Until == MaxTime {
			u.GrowsAt = time.UnixMicro(f.ends(now)).UTC()
		}
	}
	return u
}

// GrowsAt returns the time at which the rule has more room than now, or the zero time if waiting
// does not help.
func (f *Figure) GrowsAt(p Past) (time.Time, error) {
	w, err := f.Wait(p, f.Report(p.Time()).Remaining+1, p.Time(), Unlimited)
	if err != nil || w.At == MaxTime {
		return time.Time{}, err
	}
	return time.UnixMicro(w.At).UTC(), nil
}
