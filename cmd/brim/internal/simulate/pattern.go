package simulate

import (
	"container/heap"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/brimgo/brim/store"
)

// Start is the time at which every pattern begins.
var Start = time.Date(2024, 6, 1, 12, 0, 0, 0, time.UTC)

// MaxArrivals is the largest number of first attempts in a [Pattern], and MaxAttempts the largest
// number of attempts of one caller.
const (
	MaxArrivals = 100_000_000
	MaxAttempts = 1000
)

// Shape is the way in which the arrivals of a [Pattern] follow each other.
type Shape string

// The shapes of patterns.
const (
	Constant Shape = "constant" // evenly spaced
	Poisson  Shape = "poisson"  // at random, each independently of the others
	Bursts   Shape = "bursts"   // many at one moment, then none until the next burst
	Listed   Shape = "listed"   // at given times, with given costs
)

// Timed is an arrival of the shape Listed.
type Timed struct {
	At   time.Duration // after Start
	Cost float64       // units
}

// Pattern describes synthetic arrivals. Rate and Duration are required, or the List alone if the
// shape is Listed. The same pattern always gives the same arrivals.
type Pattern struct {
	Shape    Shape         // "" means Constant
	Rate     float64       // arrivals per second in the mean, without retries
	Burst    int           // arrivals of a burst, if the shape is Bursts; bursts follow every Burst/Rate seconds
	Duration time.Duration // first attempts come within this time after [Start]; retries may come later
	Keys     int           // the arrivals come from that many keys, in turn or, if Poisson, at random; 0 means 1
	Cost     float64       // units of every arrival; 0 means 1
	Seed     uint64        // of the random numbers
	List     []Timed       // in the order of time, if the shape is Listed; Rate, Burst, Duration and Cost have no effect
	// Attempts is the largest number of attempts of a caller. 0 and 1 mean that refused callers do
	// not come back.
	Attempts int
	// RetryEvery is the wait of a refused caller before the next attempt. 0 means the RetryAfter
	// of the refusal; a caller whose cost never fits then gives up.
	RetryEvery time.Duration
	// Jitter prolongs each wait at random by up to this share of itself.
	Jitter float64
	// Timeout is the time after which nobody waits for a served caller any more; 0 means none.
	Timeout time.Duration
}

// Validate returns an error that names the first field that is out of range.
func (p *Pattern) Validate() error {
	if p.Shape == Listed {
		if err := validateList(p.List); err != nil {
			return err
		}
		return p.validateRetries()
	}
	arrivals := p.Rate * p.Duration.Seconds()
	switch {
	case p.Shape != "" && p.Shape != Constant && p.Shape != Poisson && p.Shape != Bursts:
		return fmt.Errorf("pattern is %q; it must be %s, %s or %s", string(p.Shape), Constant, Poisson, Bursts)
	case !(p.Rate > 0 && p.Rate <= 1e6):
		return fmt.Errorf("rate is %v; it must be above 0 and at most 1e6 per second", p.Rate)
	case p.Duration <= 0:
		return fmt.Errorf("duration is %v; it must be positive", p.Duration)
	case arrivals > MaxArrivals:
		return fmt.Errorf("rate times duration is %.0f arrivals; it must be at most %d", arrivals, MaxArrivals)
	case (p.Shape == Bursts) != (p.Burst > 0) || p.Burst > MaxArrivals:
		return fmt.Errorf("burst is %d; it must be from 1 to %d in the pattern %s, and 0 in others",
			p.Burst, MaxArrivals, Bursts)
	case !(p.Cost >= 0 && p.Cost <= store.MaxAmount):
		return fmt.Errorf("cost is %v; it must be above 0 and at most 2^53", p.Cost)
	}
	return p.validateRetries()
}

// validateList returns an error about the first arrival that is out of order or out of range.
func validateList(list []Timed) error {
	last := time.Duration(0)
	for _, a := range list {
		switch {
		case a.At < last:
			return fmt.Errorf("at: an arrival at %v follows one at %v; they must be in the order of time", a.At, last)
		case a.At > longestRetry:
			return fmt.Errorf("at: an arrival is at %v; it must be within %v", a.At, longestRetry)
		case !(a.Cost > 0 && a.Cost <= store.MaxAmount):
			return fmt.Errorf("at: the cost is %v; it must be above 0 and at most 2^53", a.Cost)
		}
		last = a.At
	}
	return nil
}

// validateRetries checks the fields that every shape has.
func (p *Pattern) validateRetries() error {
	switch {
	case p.Keys < 0 || p.Keys > DefaultMaxKeys:
		return fmt.Errorf("keys is %d; it must be from 1 to %d", p.Keys, DefaultMaxKeys)
	case p.Attempts < 0 || p.Attempts > MaxAttempts:
		return fmt.Errorf("attempts is %d; it must be from 1 to %d", p.Attempts, MaxAttempts)
	case p.RetryEvery < 0 || p.RetryEvery > longestRetry:
		return fmt.Errorf("retry-every is %v; it must be from 0 to %v", p.RetryEvery, longestRetry)
	case !(p.Jitter >= 0 && p.Jitter <= 10):
		return fmt.Errorf("jitter is %v; it must be from 0 to 10", p.Jitter)
	}
	return nil
}

// longestRetry keeps the time of a thousand attempts within a Duration. A caller who would have to
// wait longer gives up.
const longestRetry = 24 * time.Hour

// Callers are the callers of a [Pattern]. Use a new one, from [NewCallers], for each limit.
// Callers are a [Reactive] source.
type Callers struct {
	pattern Pattern
	rand    *rand.Rand
	next    int64 // the number of the next first attempt
	poisson float64
	waiting calls // callers who come back
	current call
	second  int64 // the second of the last attempt, and the attempts in it
	within  int64
	through map[int64]int64 // callers served, by second, from the second of the last attempt on

	stats CallerStats
}

// CallerStats count callers. A caller makes one attempt or more.
type CallerStats struct {
	Callers  int64 // first attempts
	Attempts int64
	Served   int64         // callers who were accepted at last
	GaveUp   int64         // callers who were not
	TooLate  int64         // served callers who had waited for longer than the timeout
	Busiest  int64         // the most attempts within a second that begins with a whole second
	Through  int64         // the most callers served within such a second, each at its turn
	Longest  time.Duration // the longest time from the first attempt to the accepted one
	Total    time.Duration // the sum of these times
	Last     time.Duration // the time of the last attempt or turn after Start
}

// call is an attempt.
type call struct {
	at      int64 // microseconds after Start
	first   int64 // the time of the caller's first attempt
	number  int64 // of the caller; it orders attempts of the same time
	key     int
	attempt int // counted from 1
	cost    float64
}

// NewCallers returns the callers of a pattern, who have not called yet.
func NewCallers(p Pattern) (*Callers, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	if p.Shape == "" {
		p.Shape = Constant
	}
	p.Keys, p.Attempts = max(p.Keys, 1), max(p.Attempts, 1)
	if p.Cost == 0 {
		p.Cost = 1
	}
	c := &Callers{pattern: p, rand: rand.New(rand.NewPCG(p.Seed, p.Seed)), through: make(map[int64]int64)}
	if p.Shape == Poisson {
		c.poisson = c.rand.ExpFloat64() / p.Rate
	}
	return c, nil
}

// Stats returns the counts so far.
func (c *Callers) Stats() CallerStats { return c.stats }

// Next returns the next attempt of any caller.
func (c *Callers) Next() (Arrival, error) {
	fresh, ok := c.fresh()
	switch {
	case len(c.waiting) > 0 && (!ok || c.waiting[0].at < fresh.at):
		c.current = heap.Pop(&c.waiting).(call)
	case !ok:
		return Arrival{}, io.EOF
	default:
		c.current = fresh
		c.advance()
	}
	c.count()
	return Arrival{
		Time: Start.UnixMicro() + c.current.at,
		Key:  "client-" + strconv.Itoa(c.current.key), Cost: c.current.cost,
	}, nil
}

// count counts the current attempt.
func (c *Callers) count() {
	s := &c.stats
	s.Attempts++
	if c.current.attempt == 1 {
		s.Callers++
	}
	if second := c.current.at / 1e6; second != c.second {
		for ; c.second < second && len(c.through) > 0; c.second++ {
			delete(c.through, c.second) // a turn never lies before the attempt
		}
		c.second, c.within = second, 0
	}
	c.within++
	s.Busiest = max(s.Busiest, c.within)
	s.Last = max(s.Last, time.Duration(c.current.at)*time.Microsecond)
}

// fresh returns the next first attempt.
func (c *Callers) fresh() (call, bool) {
	p := &c.pattern
	key := int(c.next % int64(p.Keys))
	if p.Shape == Listed {
		if c.next >= int64(len(p.List)) {
			return call{}, false
		}
		a := p.List[c.next]
		at := a.At.Microseconds()
		return call{at: at, first: at, number: c.next, key: key, attempt: 1, cost: a.Cost}, true
	}
	seconds := float64(c.next) / p.Rate
	switch p.Shape {
	case Poisson:
		seconds = c.poisson
	case Bursts:
		seconds = float64(c.next/int64(p.Burst)) * float64(p.Burst) / p.Rate
	}
	// A multiple of 1/rate is often a rounding off a whole microsecond, and must not fall below it.
	at := int64(math.Floor(float64(seconds*1e6) + 1e-3))
	return call{at: at, first: at, number: c.next, key: key, attempt: 1, cost: p.Cost}, at < p.Duration.Microseconds()
}

// advance takes the first attempt that fresh returned.
func (c *Callers) advance() {
	if c.pattern.Shape == Poisson {
		c.current.key = c.rand.IntN(c.pattern.Keys)
		c.poisson += c.rand.ExpFloat64() / c.pattern.Rate
	}
	c.next++
}

// Answer takes the answer to the attempt that Next returned.
func (c *Callers) Answer(e Event) {
	call, s := c.current, &c.stats
	if e.Accepted {
		turn := time.Duration(call.at)*time.Microsecond + e.Wait
		took := turn - time.Duration(call.first)*time.Microsecond
		s.Served++
		if c.pattern.Timeout > 0 && took > c.pattern.Timeout {
			s.TooLate++
		}
		second := int64(turn / time.Second)
		c.through[second]++
		s.Through = max(s.Through, c.through[second])
		s.Last = max(s.Last, turn)
		s.Total += took
		s.Longest = max(s.Longest, took)
		return
	}
	wait := c.pattern.RetryEvery
	if wait == 0 {
		wait = e.RetryAfter
	}
	if call.attempt >= c.pattern.Attempts || wait > longestRetry {
		s.GaveUp++
		return
	}
	jitter := float64(wait) * c.pattern.Jitter * c.rand.Float64()
	call.at += max(1, (wait + time.Duration(jitter)).Microseconds())
	call.attempt++
	heap.Push(&c.waiting, call)
}

// calls is a heap of attempts, the next one first.
type calls []call

func (h calls) Len() int { return len(h) }
func (h calls) Less(i, j int) bool {
	return h[i].at < h[j].at || h[i].at == h[j].at && h[i].number < h[j].number
}
func (h calls) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *calls) Push(c any)   { *h = append(*h, c.(call)) }

func (h *calls) Pop() any {
	last := len(*h) - 1
	c := (*h)[last]
	*h = (*h)[:last]
	return c
}
