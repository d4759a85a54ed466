package spend

import (
	"cmp"
	"slices"
	"strings"

	"github.com/brimgo/brim/spend/ledger"
)

// sums are the units that a rule counts.
type sums struct {
	used int64 // a number of spends, for a Count rule
	held int64
	open []open // held, by the time at which the holds expire; none is zero
}

// open is the units of holds that expire together, and in the same way.
type open struct {
	at, held int64
	spends   bool // held becomes used
}

// heldBy returns the sums of holds alone.
func heldBy(open []open) (s sums) {
	s.open = open
	for _, o := range open {
		s.held += o.held
	}
	return s
}

func (s sums) clone() sums {
	s.open = slices.Clone(s.open)
	return s
}

// add adds the units of n, and reports whether the sums are in range. If they are
// not, s has no meaning.
func (s *sums) add(n units) bool {
	used, fits := add(s.used, n.used)
	s.used, fits = used, s.hold(n) && fits
	_, whole := add(s.used, s.held)
	return fits && (whole || !slices.ContainsFunc(s.open, func(o open) bool { return o.spends }))
}

// hold adds the held units of n.
func (s *sums) hold(n units) bool {
	held, fits := add(s.held, n.held)
	if s.held = held; n.held == 0 {
		return fits
	}
	i, found := slices.BinarySearchFunc(s.open, n, func(o open, n units) int {
		return cmp.Or(cmp.Compare(o.at, n.expires), compareBools(o.spends, n.spends))
	})
	if !found {
		s.open = slices.Insert(s.open, i, open{at: n.expires, spends: n.spends})
	}
	if s.open[i].held += n.held; s.open[i].held == 0 {
		s.open = slices.Delete(s.open, i, i+1)
	}
	return fits
}

func compareBools(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

// expire takes away the units of the holds that have expired by now, or makes them used.
func (s *sums) expire(now int64) {
	for len(s.open) > 0 && s.open[0].at <= now {
		o := s.open[0]
		if s.held, s.open = s.held-o.held, s.open[1:]; o.spends {
			s.used += o.held
		}
	}
}

func (s *sums) zero() bool { return s.used == 0 && len(s.open) == 0 }

// expire takes away the units of the holds that have expired by now, or makes them used.
func (u *tally) expire(now int64) {
	if u.firstSeq != 0 { // the rule is Leaky
		for len(u.open) > 0 && u.open[0].at <= now {
			o := u.open[0]
			u.passLimit(o.at) // while the hold is open, so that Verify begins with it
			if u.held, u.open = u.held-o.held, u.open[1:]; o.spends {
				u.pour(o)
			}
		}
		u.bucket.Held = float64(u.held)
		return
	}
	u.sums.expire(now)
	for i := range u.values {
		u.values[i].expire(now)
	}
	u.values = slices.DeleteFunc(u.values, func(s valueSums) bool { return s.zero() })
}

// mostValues is the largest number of values of a rule with Per in one account.
const mostValues = 1000

// valueSums are the sums of one value of a tag.
type valueSums struct {
	value string
	sums
}

func cloneValues(list []valueSums) []valueSums {
	list = slices.Clone(list)
	for i := range list {
		list[i].sums = list[i].clone()
	}
	return list
}

// Per returns a rule whose limit holds for each value of a tag, such as a merchant: 100.00 a day at
// each merchant. A request without the tag counts under the empty value. An account's own limit of
// the rule holds for each value, too. Of several calls, the last one counts.
//
// A decision shows the figures of its own value, in [Usage.Value]; [Budgets.Remaining] shows all
// values with used or held money. An account keeps a figure for each value in the window of the
// rule, and for each value ever in a [Lifetime] rule; a decision reads and writes all of them. So
// an account has at most 1,000 of them: a request with one more is [ErrRequest]. A rule that is new to
// an account counts all values there are. [Leaky] and [PerTransaction] have no Per.
func (r Rule) Per(tag string) Rule {
	r.each, r.per = true, tag
	return r
}

// addValue adds to the sums of a value. A value whose sums are zero is forgotten.
func (u *tally) addValue(value string, n units) bool {
	i, found := u.find(value)
	if !found {
		u.values = slices.Insert(u.values, i, valueSums{value: value})
	}
	ok := u.values[i].add(n)
	if u.values[i].zero() {
		u.values = slices.Delete(u.values, i, i+1)
	}
	return ok
}

func (u *tally) find(value string) (int, bool) {
	return slices.BinarySearchFunc(u.values, value, func(s valueSums, value string) int { return strings.Compare(s.value, value) })
}

// of returns the tally of a spend with these tags: for a rule with Per, a copy of u with the sums
// of the tag's value, to be read only.
func (u *tally) of(tags map[string]string) *tally { return u.at(tags[u.rule.per]) }

// at returns the tally of a value; see [tally.of].
func (u *tally) at(value string) *tally {
	if !u.rule.each {
		return u
	}
	one := *u
	one.value = value
	if i, found := u.find(one.value); found {
		one.sums = u.values[i].sums
	}
	return &one
}

// takes reports whether u counts a spend with these tags, which began with amount. For a rule with
// Per, u is a tally that of has made.
func (u *tally) takes(tags map[string]string, amount int64) bool {
	return u.rule.matches(tags, amount) && (!u.rule.each || tags[u.rule.per] == u.value)
}

// all returns the tallies of all values with used or held units, and u itself for a rule without
// Per. It reads the entries in the window once for all of them.
func (u *tally) all(a *account) ([]*tally, error) {
	if !u.rule.each {
		return []*tally{u}, nil
	}
	ahead := make(map[string][]eviction)
	if u.rule.rolls() {
		_, err := a.dated(u.edge, maxTime, func(e *ledger.Entry) error {
			one := tally{rule: u.rule, value: e.Tags[u.rule.per]}
			ahead[one.value] = one.gather(ahead[one.value], e, a.time)
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	var list []*tally
	for _, s := range u.values {
		if s.used > 0 || s.held > 0 {
			one := u.at(s.value)
			one.ahead = ahead[s.value]
			list = append(list, one)
		}
	}
	return list, nil
}

func (e encoder) values(list []valueSums, from int64) {
	e.Int(int64(len(list)))
	for _, s := range list {
		e.String(s.value)
		e.sums(&s.sums, from)
	}
}

func (e encoder) sums(s *sums, from int64) {
	e.Int(s.used)
	e.open(s.open, from)
}

// open writes the times as the differences to the one before; the first, to from.
func (e encoder) open(list []open, from int64) {
	e.Int(int64(len(list)))
	before := from
	for _, o := range list {
		e.Int(o.at - before)
		e.Int(o.held)
		e.Bool(o.spends)
		before = o.at
	}
}

func (d decoder) sums(from int64) sums {
	used := d.Int()
	s := heldBy(d.open(from))
	s.used = used
	return s
}

func (d decoder) open(from int64) (list []open) {
	n, before := d.Count(), from
	for range n {
		if list == nil {
			list = make([]open, 0, n+1) // a decision adds one
		}
		before += d.Int()
		list = append(list, open{before, d.Int(), d.Bool()})
	}
	return list
}

// values reads the sums of values. All values share one string, which costs less than one for each.
func (d decoder) values(from int64) []valueSums {
	n := d.Count()
	if n == 0 {
		return nil
	}
	rest := string(d.B)
	list := make([]valueSums, 0, n)
	for range n {
		length := d.Count()
		at := len(rest) - len(d.B)
		d.B = d.B[length:]
		list = append(list, valueSums{value: rest[at : at+length], sums: d.sums(from)})
	}
	return list
}
