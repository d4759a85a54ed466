package figures

import (
	"math"

	"github.com/brimgo/brim/spend/internal/book"
	"github.com/brimgo/brim/store"
)

// Encode writes those of the tallies of an account that are known, at its time. Rules gets all that
// most decisions leave as it is. Times in state are differences, which are short. The lists of open
// holds follow those that ends has already, and Encode writes all of them.
func Encode(all []*Tally, rules, state *book.Encoder, ends *book.Ends, now int64) {
	r, e := encoder{rules, new(book.Ends)}, encoder{state, ends}
	known := int64(0)
	for _, u := range all {
		if u.Known() {
			known++
		}
	}
	r.Int(known)
	for _, u := range all {
		if u.Known() {
			e.tally(u, r, now)
		}
	}
	r.ends.Encode(rules, 0)
	e.ends.Encode(state, now)
}

// Decode reads that which [Encode] has written. The tallies have no rules yet, and entry seq is the
// last one that they have counted.
func Decode(rules, state *book.Decoder, ends *book.Ends, seq, now int64) []*Tally {
	r, d := decoder{rules, new(book.Ends)}, decoder{state, ends}
	tallies := make([]Tally, r.Count()) // at once, which costs less than one by one
	kept := make([]*Tally, len(tallies))
	for i := range tallies {
		kept[i] = &tallies[i]
		d.tally(kept[i], r, seq, now)
	}
	r.ends.Decode(rules, 0)
	d.ends.Decode(state, now)
	for _, u := range kept {
		if u.leaks() {
			u.bucket.Held = float64(u.held)
		}
	}
	return kept
}

type encoder struct {
	*book.Encoder
	ends *book.Ends
}

// tally writes the figures of a tally, and that which most decisions leave as it is to r.
func (e encoder) tally(u *Tally, r encoder, now int64) {
	r.String(u.Name)
	r.Fixed(u.fingerprint)
	r.Int(u.begun)
	r.Int(u.Told)
	rolls := u.Rule.Span() == Rolls && u.edge == u.Rule.edge(now)
	if r.Bool(rolls); rolls {
		r.Int(now - u.edge) // always the same
	} else {
		r.Int(u.edge)
		r.Int(u.end - u.edge)
	}
	e.Int(u.quiet - u.edge)
	e.all(&u.all)
	if r.Bool(u.Rule.based()); !u.Rule.based() {
		return
	}
	r.Int(u.baseSeq)
	r.all(&u.opening)
	if r.Int(u.firstSeq); u.firstSeq == 0 {
		return // the rule is not Leaky
	}
	r.limit(u.bucket.Limit)
	if r.Int(u.bucket.until); u.bucket.until != 0 {
		r.limit(u.bucket.later)
	}
	r.record(&u.base)
	e.record(&u.bucket.Record)
}

// all writes the complement of the number of values if others follow them.
func (e encoder) all(l *all) {
	e.sums(&l.sums)
	n := int64(len(l.values))
	if !l.others.zero() {
		n = ^n
	}
	e.Int(n)
	for i := range l.values {
		e.String(l.values[i].value)
		e.sums(&l.values[i].sums)
	}
	if n < 0 {
		e.sums(&l.others)
	}
}

// sums writes the used units, and the number of the holds.
func (e encoder) sums(s *sums) {
	e.Int(s.used)
	e.ends.Write(e.Encoder, len(s.open), func(i int) book.End {
		x := book.End{At: s.open[i].at, X: s.open[i].held}
		if s.open[i].spends {
			x.Y = 1
		}
		return x
	})
}

func (e encoder) limit(l store.Limit) {
	e.Float(l.Capacity)
	e.Float(l.LeakRate)
}

// record writes the level and the time of a bucket.
func (e encoder) record(r *store.Record) {
	e.Float(r.Level)
	e.Int(r.Time)
}

type decoder struct {
	*book.Decoder
	ends *book.Ends
}

func (d decoder) tally(u *Tally, r decoder, seq, now int64) {
	u.counter = counter{Name: r.String(), fingerprint: r.Fixed(), begun: r.Int()}
	u.Told, u.countedSeq, u.known = r.Int(), seq, true
	if rolls := r.Bool(); rolls {
		u.edge = now - r.Int()
	} else {
		u.edge = r.Int()
		u.end = u.edge + r.Int()
	}
	u.quiet = u.edge + d.Int()
	d.all(&u.all)
	if r.Bool() {
		u.ground = &ground{baseSeq: r.Int()}
		r.all(&u.opening)
		u.firstSeq = r.Int()
	}
	if u.leaks() {
		limit := r.limit()
		if u.bucket.until = r.Int(); u.bucket.until != 0 {
			u.bucket.later = r.limit()
		}
		u.base, u.bucket.Record = r.record(limit), d.record(limit)
	}
}

func (d decoder) all(l *all) {
	d.sums(&l.sums)
	n := d.Int()
	if n >= 0 {
		l.values = d.values(n)
		return
	}
	l.values = d.values(^n)
	d.sums(&l.others)
}

// sums reads sums, which must stay at their place until the ends are read.
func (d decoder) sums(s *sums) {
	s.used = d.Int()
	n := d.Count()
	if n == 0 {
		d.ends.Read(0, nil)
		return
	}
	s.open = make([]open, n, n+1) // a decision adds one
	state := d.Decoder            // so that the ends need not outlive the call
	d.ends.Read(n, func(i int, x book.End) {
		if x.Y&1 != x.Y {
			state.Damaged("a stored truth value is %d", x.Y)
		}
		s.open[i] = open{x.At, x.X, x.Y == 1}
		s.held += x.X
	})
}

// values reads the sums of values. All values share one string, which costs less than one for each.
func (d decoder) values(n int64) []valueSums {
	if n > int64(len(d.B)) {
		d.Damaged("a stored value ends too early")
		return nil
	}
	if n == 0 {
		return nil
	}
	rest := string(d.B)
	list := make([]valueSums, n)
	for i := range list {
		length := d.Count()
		at := len(rest) - len(d.B)
		d.B = d.B[length:]
		list[i].value = rest[at : at+length]
		d.sums(&list[i].sums)
	}
	return list
}

// limit reads the limit of a bucket. Its capacity may be 0.
func (d decoder) limit() store.Limit {
	l := store.Limit{Capacity: d.Float(), LeakRate: d.Float()}
	if !(l.Capacity >= 0 && l.Capacity <= math.MaxFloat64 && l.LeakRate > 0 && l.LeakRate <= math.MaxFloat64) {
		d.Damaged("a bucket has a capacity of %v and leaks %v a second", l.Capacity, l.LeakRate)
	}
	return l
}

// record reads the level and the time of a bucket. The sums have its held units.
func (d decoder) record(limit store.Limit) store.Record {
	r := store.Record{Level: d.Float(), Time: d.Int(), Limit: limit}
	if !(r.Level >= 0 && r.Level <= math.MaxFloat64) { // a comparison with NaN is false
		d.Damaged("a bucket holds %v units", r.Level)
	}
	return r
}
