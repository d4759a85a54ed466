package simulate

import (
	"context"
	"slices"
	"time"

	"github.com/brimgo/brim/store"
)

// Algorithm is a way to limit requests. A [Limit] of capacity C that drains in the time W stands
// for C units per window of length W, for algorithms with a window. The zero value is LeakyBucket,
// whose decisions are brim's own. The others are baselines to compare it with.
type Algorithm string

// The algorithms.
const (
	LeakyBucket Algorithm = ""
	// NaiveCounter stores a row for each accepted request, and counts the rows of the last W. It
	// counts and inserts in two steps, so it does not see rows that were counted for less than
	// naiveGap ago and are not yet inserted.
	NaiveCounter Algorithm = "naive counter"
	// FixedWindow counts in windows that begin at multiples of W.
	FixedWindow Algorithm = "fixed window"
	// Rollups is a FixedWindow that counts the window before as well.
	Rollups Algorithm = "rollups"
	// SlidingCounter is a FixedWindow that adds the share of the window before that the last W
	// still overlaps, as if its requests had been spread evenly.
	SlidingCounter Algorithm = "sliding counter"
	// SlidingLog stores each accepted request, and sums up those of the last W. It is exact.
	SlidingLog Algorithm = "sliding log"
	// TokenBucket holds C tokens, gains LeakRate of them per second, and takes them for a request.
	TokenBucket Algorithm = "token bucket"
	// GCRA stores the theoretical arrival time: the time at which a client who takes LeakRate per
	// second would come. A request may come before it by as much as C units take, less its own.
	GCRA Algorithm = "GCRA"
)

// Algorithms are all algorithms, brim's own last.
func Algorithms() []Algorithm {
	return []Algorithm{NaiveCounter, FixedWindow, Rollups, SlidingCounter, SlidingLog, TokenBucket, GCRA, LeakyBucket}
}

// String returns the name of the algorithm.
func (a Algorithm) String() string {
	if a == LeakyBucket {
		return "leaky bucket"
	}
	return string(a)
}

// naiveGap is the time between the two steps of a NaiveCounter, about one round trip to a
// database.
const naiveGap = 2 * time.Millisecond

// window returns the W of a limit, in microseconds.
func (l Limit) window() int64 {
	if l.Over > 0 {
		return l.Over.Microseconds()
	}
	return l.MaxWait().Microseconds()
}

// baseline is a gate of an algorithm other than brim's.
type baseline struct {
	unit
	algorithm Algorithm
	window    int64
	clients   []counts
	most      int // the largest number of numbers that a client needed
}

// counts is the memory of a baseline for one client.
type counts struct {
	window        int64   // the number of the current window
	current, last float64 // units accepted in it, and in the window before; the tokens; the theoretical arrival time
	log           []entry
}

// entry is an accepted request.
type entry struct {
	at   int64
	cost float64
}

func newBaseline(l Limit, u unit) *baseline {
	return &baseline{unit: u, algorithm: l.Algorithm, window: max(1, l.window())}
}

func (g *baseline) numbers() int { return g.most }

func (g *baseline) decide(_ context.Context, batch []decision) error {
	for i := range batch {
		d := &batch[i]
		if d.client == len(g.clients) {
			c := counts{window: floorDiv(d.at, g.window)}
			switch g.algorithm {
			case TokenBucket:
				c.current, c.window = g.scaled.Capacity, d.at
			case GCRA:
				c.window = d.at // the theoretical arrival time counts from here, in units of the leak
			}
			g.clients = append(g.clients, c)
		}
		c := &g.clients[d.client]
		cost := g.amount(d.arrival.Cost)
		used := g.used(c, d.at)
		fits := cost == 0 || used+cost <= g.scaled.Capacity
		if g.algorithm == TokenBucket {
			fits = cost == 0 || c.current >= cost
		}
		if fits {
			g.accept(c, d.at, cost)
			used += cost
		}
		d.state = store.State{Accepted: fits, Level: used}
	}
	return nil
}

// used returns the units that count against a request at the given time.
func (g *baseline) used(c *counts, at int64) float64 {
	switch g.algorithm {
	case SlidingLog, NaiveCounter:
		kept := slices.IndexFunc(c.log, func(e entry) bool { return e.at > at-g.window })
		if kept < 0 {
			kept = len(c.log)
		}
		c.log = c.log[:copy(c.log, c.log[kept:])]
		sum := 0.0
		for _, e := range c.log {
			if g.algorithm == SlidingLog || e.at+naiveGap.Microseconds() <= at {
				sum += e.cost
			}
		}
		return sum
	case TokenBucket:
		gained := float64(g.scaled.LeakRate * (float64(at-c.window) / 1e6))
		c.current, c.window = min(g.scaled.Capacity, c.current+gained), at
		return g.scaled.Capacity - c.current
	case GCRA:
		return max(0, c.current-float64(g.scaled.LeakRate*(float64(at-c.window)/1e6)))
	}
	switch now := floorDiv(at, g.window); now - c.window {
	case 0:
	case 1:
		c.window, c.current, c.last = now, 0, c.current
	default:
		c.window, c.current, c.last = now, 0, 0
	}
	switch g.algorithm {
	case Rollups:
		return c.last + c.current
	case SlidingCounter:
		overlap := 1 - float64(at-c.window*g.window)/float64(g.window)
		return float64(c.last*overlap) + c.current // not fused, so that every processor rounds alike
	}
	return c.current
}

// accept counts an accepted request.
func (g *baseline) accept(c *counts, at int64, cost float64) {
	switch g.algorithm {
	case SlidingLog, NaiveCounter:
		c.log = append(c.log, entry{at, cost})
		g.most = max(g.most, 2*len(c.log))
	case TokenBucket:
		c.current -= cost
		g.most = 2
	case GCRA:
		now := float64(g.scaled.LeakRate * (float64(at-c.window) / 1e6))
		c.current = max(c.current, now) + cost
		g.most = 1
	case FixedWindow:
		c.current += cost
		g.most = 2
	default:
		c.current += cost
		g.most = 3
	}
}

// Exactness compares decisions with the rule "at most C units within any W". Its Add is the Watch
// of a run with one limit. Use [NewExactness].
type Exactness struct {
	limit Limit
	logs  map[string][]entry // accepted requests of the last W

	// Most is the largest number of units that were accepted for one key within a W.
	Most float64
	// Beyond counts accepted requests that broke the rule, and Early refused requests that would
	// not have broken it.
	Beyond, Early int64
}

// NewExactness returns an Exactness for the decisions of a limit.
func NewExactness(l Limit) *Exactness {
	return &Exactness{limit: l, logs: make(map[string][]entry)}
}

// Add compares a decision.
func (x *Exactness) Add(e Event) {
	at, log := e.At.UnixMicro(), x.logs[e.Arrival.Key]
	for len(log) > 0 && log[0].at <= at-x.limit.window() {
		log = log[1:]
	}
	sum := 0.0
	for _, a := range log {
		sum += a.cost
	}
	fits := sum+e.Arrival.Cost <= x.limit.Capacity
	switch {
	case e.Accepted && !fits:
		x.Beyond++
	case !e.Accepted && fits:
		x.Early++
	}
	if e.Accepted {
		log = append(log, entry{at, e.Arrival.Cost})
		x.Most = max(x.Most, sum+e.Arrival.Cost)
	}
	x.logs[e.Arrival.Key] = log
}

// floorDiv divides and rounds towards minus infinity, for times before 1970.
func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}
