package figures

import (
	"cmp"
	"slices"
	"strings"

	"github.com/brimgo/brim/spend/internal/money"
)

// units are the units that an entry adds to a rule.
type units struct {
	used, held, expires int64
	spends              bool // held becomes used at expires
}

// sums are the units that a rule counts.
type sums struct {
	used int64 // a number of spends, for a rule that counts them
	held int64
	open []open // held, by the time at which the holds expire; none is zero
}

// open is the units of holds that expire together, and in the same way.
type open struct {
	at, held int64
	spends   bool // held becomes used
}

func (s sums) clone() sums {
	s.open = slices.Clone(s.open)
	return s
}

func (s *sums) equal(t *sums) bool { return s.used == t.used && slices.Equal(s.open, t.open) }

// add adds the units of n, and reports whether the sums are in range. If they are
// not, s has no meaning.
func (s *sums) add(n units) bool {
	used, fits := money.Add(s.used, n.used)
	s.used, fits = used, s.hold(n) && fits
	_, whole := money.Add(s.used, s.held)
	return fits && (whole || !slices.ContainsFunc(s.open, func(o open) bool { return o.spends }))
}

// hold adds the held units of n.
func (s *sums) hold(n units) bool {
	held, fits := money.Add(s.held, n.held)
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

// mend moves the ends of holds that were over by a wrong clock, up to top, to now, as the reader of
// an account moves those of the entries.
func (s *sums) mend(now, top int64) {
	list := s.open
	s.open, s.held = nil, 0
	for _, o := range list {
		if o.at <= top {
			o.at = min(o.at, now)
		}
		s.hold(units{held: o.held, expires: o.at, spends: o.spends}) // within the range, as before
	}
}

func (s *sums) zero() bool { return s.used == 0 && len(s.open) == 0 }

// mostValues is the largest number of values of a rule with Per in one account that have sums of
// their own.
const mostValues = 1000

// valueSums are the sums of one value of a tag.
type valueSums struct {
	value string
	sums
}

// all are all sums of a rule in an account: those of a rule without Per, or those of each value, in
// the order of the values. None of the values is zero. Money that has moved at values beyond
// mostValues counts in others together. As long as others is not zero, each value without sums of
// its own counts there, so the entries of a value are never in both.
type all struct {
	sums
	values []valueSums
	others sums
}

func (l *all) clone() all {
	c := all{l.sums.clone(), slices.Clone(l.values), l.others.clone()}
	for i := range c.values {
		c.values[i].sums = c.values[i].clone()
	}
	return c
}

// find returns the sums of a value. If it has none of its own, it is at place i.
func (l *all) find(value string) (i int, found bool) {
	return slices.BinarySearchFunc(l.values, value, func(s valueSums, value string) int { return strings.Compare(s.value, value) })
}

// full reports whether a value without sums of its own counts in others.
func (l *all) full() bool { return len(l.values) >= mostValues || !l.others.zero() }

// addValue adds to the sums of a value. A value whose sums are zero is forgotten.
func (l *all) addValue(value string, n units) bool {
	i, found := l.find(value)
	switch {
	case !found && l.full():
		return l.others.add(n)
	case !found:
		l.values = slices.Insert(l.values, i, valueSums{value: value})
	}
	ok := l.values[i].add(n)
	if l.values[i].zero() {
		l.values = slices.Delete(l.values, i, i+1)
	}
	return ok
}

// expireAll takes away the units of the holds that have expired by now, or makes them used.
func (l *all) expireAll(now int64) {
	l.expire(now)
	l.others.expire(now)
	for i := range l.values {
		l.values[i].expire(now)
	}
	l.values = slices.DeleteFunc(l.values, func(s valueSums) bool { return s.zero() })
}

// each calls f with all sums.
func (l *all) each(f func(*sums)) {
	f(&l.sums)
	f(&l.others)
	for i := range l.values {
		f(&l.values[i].sums)
	}
}

// unused takes the used units away.
func (l *all) unused() { l.each(func(s *sums) { s.used = 0 }) }

// total returns the sums of all values together.
func (l *all) total() (t sums) {
	l.each(func(s *sums) {
		t.used += s.used
		for _, o := range s.open {
			t.hold(units{held: o.held, expires: o.at, spends: o.spends})
		}
	})
	return t
}

// equal reports whether the sums are the same. Where values count together, another order of the
// entries would let others count so: then the totals are compared.
func (l *all) equal(m *all) bool {
	if !l.others.zero() || !m.others.zero() {
		x, y := l.total(), m.total()
		return x.equal(&y)
	}
	return l.sums.equal(&m.sums) && slices.EqualFunc(l.values, m.values, func(x, y valueSums) bool {
		return x.value == y.value && x.equal(&y.sums)
	})
}
