package ui

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/brimgo/brim/internal/plot"
)

// minute is the length of the window of the present figures, in seconds.
const minute = 60

// overview holds the figures of the first page: those that a Recorder has recorded in the last
// [Window]. A series has an element for each second, the present second last.
type overview struct {
	now                       time.Time
	accepted, refused, failed [slots]uint32
	oldest                    time.Duration // of the calls in flight; 0 if there is none
	failure                   failedNow     // the last failed call
	answered                  time.Duration // since the last second with a decision; noDecision if there is none
	spends                    spendView
	unseen                    bool             // the Recorder does not see the calls of the program
	keys                      []tally          // with refusals; the most refused of the last minute first
	blocks                    map[string]block // that have not ended
}

// failedNow is the last failed call of the window.
type failedNow struct {
	text string // empty if none failed
	ago  time.Duration
}

// noDecision is the age of a decision that was not made.
const noDecision = time.Duration(math.MaxInt64)

// now returns the call, as it is at a time.
func (f *failedCall) now(now time.Time) failedNow {
	ago := max(0, now.Sub(f.at))
	if f.at.IsZero() || ago > Window {
		return failedNow{}
	}
	return failedNow{f.text, ago}
}

// tally are the refusals of one bucket.
type tally struct {
	key           string
	recent, all   uint32 // refusals of the last minute, and of the window
	since, latest int64  // seconds of the first and the last refusal; no pause of half a minute lies between
	before        bool   // the refusals may have begun before since: the Recorder knows no earlier second
	course        [sparks]uint32
}

// sparks is the number of bars of a sparkline.
const sparks = 60

// overview reads all records. It locks one bucket at a time, for some microseconds.
func (r *Recorder) overview() *overview {
	o := &overview{now: r.now()}
	now := o.now.Unix()
	for i := range r.sets {
		s := &r.sets[i]
		s.mu.Lock()
		used := s.used
		for at := range o.accepted {
			second := now - slots + 1 + int64(at)
			if t := &s.totals[uint64(second)%slots]; int64(t.second) == second {
				o.accepted[at] += t.accepted
				o.refused[at] += t.refused
			}
		}
		s.mu.Unlock()
		for way := range used {
			s.mu.Lock()
			t := s.tally(way, now)
			s.mu.Unlock()
			if t.all > 0 {
				o.keys = append(o.keys, t)
			}
		}
	}
	r.mu.Lock()
	o.blocks = maps.Clone(r.blocks)
	r.mu.Unlock()
	maps.DeleteFunc(o.blocks, func(_ string, b block) bool { return !b.until.After(o.now) })
	r.calls.mu.Lock()
	for at := range o.failed {
		second := now - slots + 1 + int64(at)
		if f := r.calls.failed[uint64(second)%slots]; int64(f.second) == second {
			o.failed[at] = f.n
		}
	}
	o.failure = r.calls.last.now(r.clock())
	r.calls.mu.Unlock()
	o.spends = r.spends.view(r.clock())
	o.answered = noDecision
	for at := slots - 1; at >= 0 && o.answered == noDecision; at-- {
		if o.accepted[at]+o.refused[at] > 0 {
			o.answered = o.now.Sub(time.Unix(now-slots+1+int64(at), 0))
		}
	}
	if start := r.calls.oldest(); start != 0 {
		o.oldest = max(1, r.clock().Sub(time.Unix(0, start)))
	}
	slices.SortFunc(o.keys, func(a, b tally) int {
		return cmp.Or(cmp.Compare(b.recent, a.recent), cmp.Compare(b.latest, a.latest), cmp.Compare(b.all, a.all), cmp.Compare(a.key, b.key))
	})
	return o
}

// tally returns the refusals of a way in the window whose last second is now.
func (s *set) tally(way int, now int64) tally {
	const pause = 30
	t := tally{key: s.keys[way]}
	begin := now - slots + 1
	s.each(way, now, func(one *slot) {
		second := int64(one.second)
		if one.refused == 0 {
			return
		}
		if t.all == 0 || second-t.latest > pause {
			t.since = second
		}
		t.latest = second
		t.all += one.refused
		t.course[(second-begin)*sparks/slots] += one.refused
		if now-second < minute {
			t.recent += one.refused
		}
	})
	t.before = s.born[way] < begin && t.since < begin+pause
	return t
}

// each calls f for each second of a way in which there were calls, in order of time. The last
// second of the window is now.
func (s *set) each(way int, now int64, f func(*slot)) {
	for second := max(now-slots+1, s.born[way]); second <= now; second++ {
		if one := &s.rings[uint64(second)%slots][way]; int64(one.second) == second && one.accepted+one.refused > 0 {
			f(one)
		}
	}
}

// sum adds the last n elements of a series.
func sum(series *[slots]uint32, n int) (all uint64) {
	for _, v := range series[slots-n:] {
		all += uint64(v)
	}
	return all
}

// course is the course of a bucket's level during the last [Window].
type course struct {
	slots             []slot // with calls, in order of time
	since             int64  // second from which on the calls are known
	accepted, refused uint64
}

// course returns the course of a bucket, or false if the Recorder does not keep the bucket.
func (r *Recorder) course(key string, now time.Time) (c course, ok bool) {
	s, hash := r.set(key)
	c.slots = make([]slot, 0, slots)
	s.mu.Lock()
	defer s.mu.Unlock()
	way := s.find(hash, key)
	if way < 0 {
		return c, false
	}
	c.since = max(s.born[way], now.Unix()-slots+1)
	s.each(way, now.Unix(), func(one *slot) {
		c.slots = append(c.slots, *one)
		c.accepted += uint64(one.accepted)
		c.refused += uint64(one.refused)
	})
	return c, true
}

// levels returns the level as a curve over the seconds since begin, until now. After the last call,
// the level leaks by the limit of that call. With several calls in a second, the curve passes all
// levels of that second.
func (c *course) levels(begin, now time.Time) []plot.Point {
	var points []plot.Point
	for i := range c.slots {
		one := &c.slots[i]
		first, end := one.seconds(one.first, begin), one.seconds(one.end, begin)
		if i > 0 {
			points = append(points, c.slots[i-1].leak(begin, first)...)
		}
		points = append(points, plot.Point{X: first, Y: float64(one.low)}, plot.Point{X: first, Y: float64(one.high)},
			plot.Point{X: end, Y: float64(one.level)})
	}
	if n := len(c.slots); n > 0 {
		points = append(points, c.slots[n-1].leak(begin, now.Sub(begin).Seconds())...)
	}
	return points
}

// leak returns the level from the last call of the slot on. until is in seconds after begin.
func (t *slot) leak(begin time.Time, until float64) []plot.Point {
	last := plot.Point{X: t.seconds(t.end, begin), Y: float64(t.level)}
	if t.rate >= 0 {
		return plot.Level([]plot.Point{last}, float64(t.rate), until)
	}
	changes := []plot.Point{last}
	if empties := t.seconds(0, begin) - float64(t.rate); empties > last.X && empties < until {
		changes = append(changes, plot.Point{X: empties, Y: last.Y}, plot.Point{X: empties})
	}
	return plot.Level(changes, 0, until)
}

// seconds returns the time from begin to a time in the slot.
func (t *slot) seconds(us uint32, begin time.Time) float64 {
	return time.Unix(int64(t.second), int64(us)*1000).Sub(begin).Seconds()
}
