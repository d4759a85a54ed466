package figures

import (
	"slices"
	"time"

	"github.com/brimgo/brim/spend/internal/money"
	"github.com/brimgo/brim/spend/ledger"
	"github.com/brimgo/brim/store"
)

// Wait is the first time at which a rule has room, or MaxTime if waiting does not help. If AtLeast
// is set, the rule may have room only later: the decision has looked no further.
type Wait struct {
	At      int64
	AtLeast bool
}

// After returns the time from now until w, or [store.Never] for MaxTime and for a time that a
// Duration cannot reach.
func (w Wait) After(now int64) time.Duration {
	us := w.At - now
	if w.At == MaxTime || us > int64(store.Never)/1000 {
		return store.Never
	}
	return time.Duration(us) * time.Microsecond
}

// Wait returns the first time, not before from, at which the rule has room for n more units, if
// nobody else spends. Room comes from holds that expire, entries that leave the window, and periods
// that end. It looks at about limit entries.
func (f *Figure) Wait(p Past, n, from int64, limit int) (Wait, error) {
	m := f.Amounts
	w, err := f.waitBy(p, n, m.Now, p.Time(), limit)
	if w.At = max(w.At, from); err != nil || w.At < m.Until || m.Until == MaxTime {
		return w, err
	}
	if w, err = f.waitBy(p, n, m.Then, m.Until, limit); err == nil {
		w.At = max(w.At, m.Until, from)
	}
	return w, err
}

// waitBy is Wait for a rule whose amount does not change, from a time on.
func (f *Figure) waitBy(p Past, n, amount, from int64, limit int) (Wait, error) {
	span := f.Rule.Span()
	if n > amount || span == Alone && amount == 0 {
		return Wait{At: MaxTime}, nil
	}
	need := money.Subtract(n, f.room(amount))
	end := int64(MaxTime) // at which all units leave
	switch {
	case span == Leaks:
		return f.leakWait(n, amount, from), nil
	case span == Repeats:
		end = f.ends(p.Time())
	}
	switch {
	case span == Alone || need <= 0:
		return Wait{At: from}, nil
	case f.shared:
		return f.valueWait(p, end)
	case span == Rolls:
		return f.windowWait(p, need, limit)
	}
	return f.freed(need, end), nil
}

// freed returns the first time at which expired holds have given back need units, and at the latest
// end.
func (f *Figure) freed(need, end int64) Wait {
	for _, x := range f.open {
		if x.spends {
			continue
		}
		if need -= x.held; need <= 0 {
			return Wait{At: min(x.at, end)}
		}
	}
	return Wait{At: end}
}

// valueWait returns a time before which no value leaves the rule, and at the latest end.
func (f *Figure) valueWait(p Past, end int64) (Wait, error) {
	first := end
	if f.Rule.Span() == Rolls {
		entries, through, err := p.Page(ledger.EndOf(f.edge), MaxTime, 1)
		if err != nil {
			return Wait{}, err
		}
		date := through.Dated
		if len(entries) > 0 {
			date = entries[0].Dated
		}
		first = date + f.Rule.Length.Microseconds()
	}
	f.each(func(s *sums) {
		if len(s.open) > 0 {
			first = min(first, s.open[0].at)
		}
	})
	return Wait{At: first, AtLeast: first != end}, nil
}

// windowWait is waitBy for a window that lacks need units, at least one. It goes through the
// entries from the oldest on.
func (f *Figure) windowWait(p Past, need int64, limit int) (Wait, error) {
	w := emptying{need: need, width: f.Rule.Length.Microseconds(), held: sums{open: slices.Clone(f.open)}, answer: Wait{At: MaxTime}}
	through, more, err := f.evict(p, limit, w.leave)
	if err == nil && !w.found && more && !w.expire(through+w.width) {
		w.answer = Wait{At: through + w.width, AtLeast: true}
	}
	return w.answer, err
}

// emptying is a window that entries leave and in which holds expire, until it lacks no more units.
type emptying struct {
	need   int64 // still lacking
	width  int64
	held   sums // in the window
	answer Wait
	found  bool
}

// expire takes the units of the holds that expire before end, and reports whether the answer is
// found.
func (w *emptying) expire(end int64) bool {
	for !w.found && len(w.held.open) > 0 && w.held.open[0].at < end {
		x := w.held.open[0]
		if w.held.open = w.held.open[1:]; x.spends {
			continue // the units are used from then on
		}
		if w.need -= x.held; w.need <= 0 {
			w.answer, w.found = Wait{At: x.at}, true
		}
	}
	return w.found
}

// leave takes the units of a date when it leaves the window, and reports whether to go on. A
// correction has the date of the corrected entry, and leaves together with that entry.
func (w *emptying) leave(l *eviction) bool {
	end := l.date + w.width
	if w.expire(end) {
		return false
	}
	used := l.used
	for _, x := range l.open {
		switch {
		case x.at >= end:
			w.need -= x.held
			w.held.hold(units{held: -x.held, expires: x.at, spends: x.spends})
		case x.spends:
			used += x.held
		}
	}
	if w.need -= used; w.need <= 0 {
		w.answer, w.found = Wait{At: end}, true
	}
	return !w.found
}

// leakWait is waitBy for a Leaky rule. The bucket leaks, and holds expire.
func (f *Figure) leakWait(n, amount, from int64) Wait {
	later := *f.Tally
	later.ground = later.ground.clone()
	later.expire(from)
	later.bucket.setLimit(f.Rule.Bucket(amount), from)
	for {
		// The record alone determines the level at a later time.
		at := int64(MaxTime)
		if d := later.bucket.wait(n, from); d < store.Never {
			at = from + d.Microseconds()
		}
		if len(later.open) == 0 || at <= later.open[0].at {
			return Wait{At: at}
		}
		from = later.open[0].at
		later.expire(from)
	}
}

// eviction is the units of a rule that leave its window together: the sums of the entries of one
// date.
type eviction struct {
	date int64
	sums
}

// gather adds the units of an entry to the last of list, or to a new one for another date. It
// leaves the units of holds out that have expired by now.
func (f *Figure) gather(list []eviction, e *ledger.Entry, now int64) []eviction {
	if !f.Rule.Matches(e.Tags, e.SpendAmount) || f.Rule.Each && e.Tags[f.Rule.Per] != f.value {
		return list
	}
	n := f.units(e, now)
	if n.used == 0 && n.held == 0 {
		return list
	}
	if last := len(list) - 1; last < 0 || list[last].date != e.Dated {
		list = append(list, eviction{date: e.Dated})
	}
	list[len(list)-1].add(n)
	return list
}

// evict calls each with the units of each date that leaves the window of the rule, in that order,
// until each returns false. It goes through about limit entries. If there are more, more is set,
// and all entries dated before through were among them. The units of a date are whole: of a part of
// them, a later correction may take back.
func (f *Figure) evict(p Past, limit int, each func(*eviction) bool) (through int64, more bool, err error) {
	if f.ahead != nil {
		for i := range f.ahead {
			if !each(&f.ahead[i]) {
				break
			}
		}
		return 0, false, nil
	}
	var list []eviction
	after := ledger.EndOf(f.edge)
	for size := Horizon; ; size = min(8*size, maxPage) {
		entries, to, err := p.Page(after, MaxTime, size)
		if err != nil {
			return 0, false, err
		}
		for i := range entries {
			list = f.gather(list, &entries[i], p.Time())
		}
		for len(list) > 0 && ledger.EndOf(list[0].date).Compare(to) <= 0 {
			if !each(&list[0]) {
				return 0, false, nil
			}
			list = list[1:]
		}
		switch limit -= size; {
		case to.Dated == MaxTime:
			return 0, false, nil
		case limit <= 0:
			return to.Dated, true, nil
		}
		after = to
	}
}
