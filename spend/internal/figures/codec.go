package figures

import (
	"math"

	"github.com/brimgo/brim/spend/internal/book"
	"github.com/brimgo/brim/store"
)

// Encode writes the tally of an account with a time. Rules gets all that most
// decisions leave as it is. Times in state are differences, which are short; those of holds, to
// first.
func (u *Tally) Encode(rules, state *book.Encoder, now, first int64) {
	r, e := encoder{rules}, encoder{state}
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
	e.all(&u.all, first)
	if r.Bool(u.Rule.based()); !u.Rule.based() {
		return
	}
	r.Int(u.baseSeq)
	r.all(&u.opening, 0)
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

// Decode reads a tally that Encode has written, which has no rule yet.
func Decode(u *Tally, rules, state *book.Decoder, seq, now, first int64) {
	r, d := decoder{rules}, decoder{state}
	*u = Tally{
		counter: counter{Name: r.String(), fingerprint: r.Fixed(), begun: r.Int()},
		Told:    r.Int(), countedSeq: seq, known: true,
	}
	if rolls := r.Bool(); rolls {
		u.edge = now - r.Int()
	} else {
		u.edge = r.Int()
		u.end = u.edge + r.Int()
	}
	u.quiet, u.all = u.edge+d.Int(), d.all(first)
	if r.Bool() {
		u.ground = &ground{baseSeq: r.Int(), opening: r.all(0), firstSeq: r.Int()}
	}
	if u.leaks() {
		limit := r.limit()
		if u.bucket.until = r.Int(); u.bucket.until != 0 {
			u.bucket.later = r.limit()
		}
		u.base, u.bucket.Record = r.record(limit), d.record(limit)
		u.bucket.Held = float64(u.held)
	}
}

type encoder struct{ *book.Encoder }

// all writes the complement of the number of values if others follow them.
func (e encoder) all(l *all, from int64) {
	e.sums(&l.sums, from)
	n := int64(len(l.values))
	if !l.others.zero() {
		n = ^n
	}
	e.Int(n)
	for i := range l.values {
		e.String(l.values[i].value)
		e.sums(&l.values[i].sums, from)
	}
	if n < 0 {
		e.sums(&l.others, from)
	}
}

// sums writes the times as the differences to the one before; the first, to from.
func (e encoder) sums(s *sums, from int64) {
	e.Int(s.used)
	e.Int(int64(len(s.open)))
	before := from
	for _, o := range s.open {
		e.Int(o.at - before)
		e.Int(o.held)
		e.Bool(o.spends)
		before = o.at
	}
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

type decoder struct{ *book.Decoder }

func (d decoder) all(from int64) (l all) {
	l.sums = d.sums(from)
	n := d.Int()
	if n < 0 {
		l.values = d.values(^n, from)
		l.others = d.sums(from)
		return l
	}
	l.values = d.values(n, from)
	return l
}

func (d decoder) sums(from int64) sums {
	used := d.Int()
	var list []open
	n, before := d.Count(), from
	for range n {
		if list == nil {
			list = make([]open, 0, n+1) // a decision adds one
		}
		before += d.Int()
		list = append(list, open{before, d.Int(), d.Bool()})
	}
	s := heldBy(list)
	s.used = used
	return s
}

// values reads the sums of values. All values share one string, which costs less than one for each.
func (d decoder) values(n, from int64) []valueSums {
	if n > int64(len(d.B)) {
		d.Damaged("a stored value ends too early")
		return nil
	}
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
