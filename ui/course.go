package ui

import (
	"cmp"
	"hash/maphash"
	"slices"
	"time"

	"github.com/brimgo/brim/internal/plot"
)

// tally counts the decisions on one bucket during the last [Window].
type tally struct {
	key               string
	accepted, refused uint64
}

// tallies returns a tally of each bucket that is kept, the most refused first. It locks one bucket
// at a time, for some microseconds.
func (r *Recorder) tallies(now time.Time) []tally {
	var all []tally
	for i := range r.sets {
		s := &r.sets[i]
		for way := range ways {
			s.mu.Lock()
			if way >= s.used {
				s.mu.Unlock()
				break
			}
			t := tally{key: s.keys[way]}
			s.each(way, now.Unix(), func(one *slot) {
				t.accepted += uint64(one.accepted)
				t.refused += uint64(one.refused)
			})
			s.mu.Unlock()
			if t.accepted+t.refused > 0 {
				all = append(all, t)
			}
		}
	}
	slices.SortFunc(all, func(a, b tally) int {
		return cmp.Or(cmp.Compare(b.refused, a.refused), cmp.Compare(b.accepted, a.accepted), cmp.Compare(a.key, b.key))
	})
	return all
}

// each calls f for each slot of a way with calls in the window that ends with the second now, in
// order of time.
func (s *set) each(way int, now int64, f func(*slot)) {
	for second := max(now-slots+1, s.born[way]); second <= now; second++ {
		if one := &s.rings[uint64(second)%slots][way]; int64(one.second) == second && one.accepted+one.refused > 0 {
			f(one)
		}
	}
}

// course is the course of a bucket's level during the last [Window].
type course struct {
	slots []slot // with calls, in order of time
	since int64  // second from which on the calls are known
}

// course returns the course of a bucket, or false if the Recorder does not keep the bucket.
func (r *Recorder) course(key string, now time.Time) (c course, ok bool) {
	hash := maphash.String(r.seed, key)
	s := &r.sets[hash>>32*uint64(len(r.sets))>>32]
	c.slots = make([]slot, 0, slots)
	s.mu.Lock()
	defer s.mu.Unlock()
	way := s.find(uint32(hash), key)
	if way < 0 {
		return c, false
	}
	c.since = max(s.born[way], now.Unix()-slots+1)
	s.each(way, now.Unix(), func(one *slot) { c.slots = append(c.slots, *one) })
	return c, true
}

// levels returns the level as a curve over the seconds since begin, for a [Window] from there.
// After the last call, the level leaks by the limit of that call. With several calls in a second,
// the curve passes all levels of that second.
func (c *course) levels(begin time.Time) []plot.Point {
	var points []plot.Point
	for i := range c.slots {
		one := &c.slots[i]
		first, end := one.seconds(one.first, begin), one.seconds(one.end, begin)
		if i > 0 {
			before := &c.slots[i-1]
			from := plot.Point{X: before.seconds(before.end, begin), Y: float64(before.level)}
			points = append(points, plot.Level([]plot.Point{from}, float64(before.rate), first)...)
		}
		points = append(points, plot.Point{X: first, Y: float64(one.low)}, plot.Point{X: first, Y: float64(one.high)},
			plot.Point{X: end, Y: float64(one.level)})
	}
	if n := len(c.slots); n > 0 {
		last := &c.slots[n-1]
		from := plot.Point{X: last.seconds(last.end, begin), Y: float64(last.level)}
		points = append(points, plot.Level([]plot.Point{from}, float64(last.rate), slots)...)
	}
	return points
}

// seconds returns the time from begin to a time in the slot.
func (t *slot) seconds(us uint32, begin time.Time) float64 {
	return time.Unix(int64(t.second), int64(us)*1000).Sub(begin).Seconds()
}

// refusals returns the time of each second with refusals, from begin, and their number in all.
func (c *course) refusals(begin time.Time) (seconds []float64, refused uint64) {
	for i := range c.slots {
		if one := &c.slots[i]; one.refused > 0 {
			seconds = append(seconds, one.seconds(one.end, begin))
			refused += uint64(one.refused)
		}
	}
	return seconds, refused
}
