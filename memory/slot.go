package memory

import "github.com/brimgo/brim/store"

// slot contains a bucket. Most buckets hold nothing, were never blocked, and share their limit
// with many others. Such a bucket needs only a level, a time and the number of its limit. The
// record of any other bucket stands in a [wide].
type slot struct {
	level float64
	time  int64 // microseconds; of a record in wide, its index
	limit uint8 // index in the table's limits, or inWide
	name  name
}

const (
	// maxLimits is the number of limits that slots of a table may refer to. A new limit is
	// compared with all of them.
	maxLimits = 64
	inWide    = 0xff
)

// load sets r to the record of a slot in use.
func (t *table) load(s *slot, r *store.Record) {
	if s.limit == inWide {
		*r = t.wide.records[s.time]
		return
	}
	r.Level, r.Held, r.Time, r.Limit, r.BlockedUntil = s.level, 0, s.time, t.limits[s.limit], 0
}

// save stores the record of a slot in use. A record in wide stays there until the table is
// resized, so that a bucket with frequent holds does not move to and fro.
func (t *table) save(s *slot, r *store.Record) {
	if s.limit == inWide {
		t.wide.records[s.time] = *r
		return
	}
	if r.Held == 0 && r.BlockedUntil == 0 {
		if int(s.limit) < len(t.limits) && t.limits[s.limit] == r.Limit {
			s.level, s.time = r.Level, r.Time
			return
		}
		if i, ok := t.limit(r.Limit); ok {
			s.level, s.time, s.limit = r.Level, r.Time, i
			return
		}
	}
	if t.wide == nil {
		t.wide = &wide{}
	}
	s.level, s.time, s.limit = 0, t.wide.add(r), inWide
}

// limit returns the number of a limit, which it adds if there is room.
func (t *table) limit(l store.Limit) (i uint8, ok bool) {
	for i := range t.limits {
		if t.limits[i] == l {
			return uint8(i), true
		}
	}
	if len(t.limits) == maxLimits {
		return 0, false
	}
	t.limits = append(t.limits, l)
	return uint8(len(t.limits) - 1), true
}

// wide contains whole records.
type wide struct {
	records []store.Record
	free    []int64 // indexes of dropped records
}

// add stores a record and returns its index.
func (w *wide) add(r *store.Record) int64 {
	if last := len(w.free) - 1; last >= 0 {
		i := w.free[last]
		w.free = w.free[:last]
		w.records[i] = *r
		return i
	}
	w.records = append(w.records, *r)
	return int64(len(w.records) - 1)
}

// drop frees the record of a slot that is to be emptied, if wide contains it.
func (w *wide) drop(s *slot) {
	if s.limit == inWide {
		w.free = append(w.free, s.time)
	}
}
