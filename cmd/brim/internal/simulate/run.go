// Package simulate runs arrivals through limits, each arrival at its own time.
//
// [Run] takes the arrivals from a [Source]: a log, a list or a [Pattern]. It decides every arrival
// by each of its limits, as if there were no other, and reports the answers. The arithmetic is
// that of [store.Record]. The arrivals are the clock, so a run always gives the same answers.
//
// Memory use is in proportion to the number of keys and of limits, and not to the number of
// arrivals.
package simulate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/brimgo/brim/store"
)

// chunk is the number of arrivals that are decided per commit. A commit takes as long as some
// hundred decisions. A larger chunk would keep other processes from the store for too long.
const chunk = 4096

var (
	// ErrNoRequests reports a source without any request.
	ErrNoRequests = errors.New("no requests")
	// ErrTooManyKeys reports a source with more keys than [Options.MaxKeys]. The report covers the
	// arrivals before the first key too many.
	ErrTooManyKeys = errors.New("too many keys")
)

// DefaultMaxKeys is the MaxKeys of Options that do not set one.
const DefaultMaxKeys = 10_000_000

// Options describe a run. Limits is required.
type Options struct {
	// Limits decide every arrival, each with buckets of its own. There must be at least one, and
	// exactly one with Store or with a [Reactive] source. A limit with an Algorithm must leak.
	// Store decides neither by an Algorithm nor by a Use.
	Limits []Limit
	// Store keeps the buckets. Without Store, Run keeps them in memory.
	Store *Store
	// Cost is the cost of every arrival, or 0 if the costs differ. It lets the run count in units
	// in which the cost is a whole number.
	Cost float64
	Top  int // number of the most refused keys in the report
	// Reorder is the time for which an arrival of a Source waits for earlier ones that come later,
	// so that arrivals are decided in the order of their times. The waiting arrivals are in
	// memory. 0 decides them as they come.
	Reorder time.Duration
	MaxKeys int // the run ends before the first key beyond this number; 0 means DefaultMaxKeys
	// Progress, if not nil, is called from time to time with the number of arrivals and of lines
	// that are none.
	Progress func(lines int64)
	// Watch, if not nil, is called with every decision. The limits decide in chunks: Watch sees
	// some thousand arrivals of the first limit, then the same arrivals of the second.
	Watch func(Event)
}

// Event is the decision of a limit about an arrival.
type Event struct {
	Limit      int // the index in Options.Limits
	Arrival    Arrival
	At         time.Time     // the time of the decision: that of the arrival, or of an earlier line with the same key
	Accepted   bool          // the cost fitted
	Level      float64       // of the bucket after the decision, in units of the limit
	RetryAfter time.Duration // after a refusal; see [store.State]
	Wait       time.Duration // in a queue, from the decision to the turn
	Full       bool          // the arrival brought the bucket to its capacity
	Spilled    float64       // units that were lost over the rim
}

// Run decides every arrival of src in the order of [Options.Reorder]. Within a bucket time never
// runs backwards: Run decides an arrival that is older than an earlier one with the same key at
// the time of the earlier one.
//
// Run counts lines that are not requests. A line whose cost one of the limits cannot count is
// such a line. If the source contains no request, the error is [ErrNoRequests]. After any error
// but one of the options, the report covers the part of the source that was decided; its Complete
// is false. If ctx ends, the error is its cause.
func Run(ctx context.Context, src Source, o Options) (*Report, error) {
	r, err := newRun(o)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	start := time.Now()
	if reactive, ok := src.(Reactive); ok {
		err = r.converse(ctx, reactive)
	} else {
		err = r.decideAll(ctx, src)
	}
	for i, g := range r.gates {
		r.report.Outcomes[i].Numbers = g.numbers()
	}
	r.finish(time.Since(start), err == nil)
	if g, ok := r.gates[0].(*stored); ok && err == nil && g.Keep {
		err = g.keep(ctx, r.clients)
	}
	if err == nil && r.report.Requests == 0 {
		err = ErrNoRequests
	}
	return &r.report, err
}

// run is a running simulation.
type run struct {
	Options
	gates   []gate
	report  Report
	numbers map[string]int // clients by key
	clients []client
	refused [][]int64 // by limit and client
	batch   []decision
}

// client is a key.
type client struct {
	key      string
	last     int64 // the time of its latest arrival
	requests int64
}

func newRun(o Options) (*run, error) {
	if o.MaxKeys <= 0 {
		o.MaxKeys = DefaultMaxKeys
	}
	r := &run{Options: o, numbers: make(map[string]int)}
	for _, l := range o.Limits {
		if err := l.Validate(); err != nil {
			return nil, err
		}
		g, err := newGate(l, o)
		if err != nil {
			return nil, err
		}
		r.gates = append(r.gates, g)
		r.report.Outcomes = append(r.report.Outcomes, Outcome{Limit: l})
	}
	r.refused = make([][]int64, len(o.Limits))
	return r, nil
}

// newGate returns the gate of a limit.
func newGate(l Limit, o Options) (gate, error) {
	u := newUnit(l, o.Cost)
	switch {
	case l.Use != Use{}:
		return newCalling(l.Use, u)
	case l.Algorithm != LeakyBucket:
		return newBaseline(l, u), nil
	case o.Store != nil:
		return &stored{unit: u, Store: o.Store}, nil
	}
	return &buckets{unit: u}, nil
}

// decideAll decides the arrivals of src in chunks.
func (r *run) decideAll(ctx context.Context, src Source) error {
	in, order := read(ctx, src), newOrder(r.Reorder)
	for received := 0; ; {
		var c lines
		select {
		case c = <-in.chunks:
			received = c.number
		case <-ctx.Done(): // a read that never returns, say from a terminal, must not delay this
			// A store would not decide the rest, because its context has ended.
			if r.Store == nil {
				c = in.rest(received)
				c.arrivals = order.add(c.arrivals, true)
				if err := r.decideReady(ctx, c); err != nil {
					return err
				}
			}
			return context.Cause(ctx)
		}
		c.arrivals = order.add(c.arrivals, c.err != nil)
		r.report.Disorder = order.disorder
		if err := r.decideReady(ctx, c); err != nil {
			return err
		}
		if r.Progress != nil {
			r.Progress(r.report.Requests + r.report.Unparsed)
		}
		if c.err == io.EOF {
			return nil
		}
		if c.err != nil {
			return c.err
		}
	}
}

// converse decides the arrivals of src one by one, and tells src the answers.
func (r *run) converse(ctx context.Context, src Reactive) error {
	watch := r.Watch
	r.Watch = func(e Event) {
		if watch != nil {
			watch(e)
		}
		src.Answer(e)
	}
	for n := int64(1); ; n++ {
		if n%chunk == 0 {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			if r.Progress != nil {
				r.Progress(r.report.Requests + r.report.Unparsed)
			}
		}
		a, err := src.Next()
		if err == io.EOF {
			return nil
		}
		c := lines{arrivals: []Arrival{a}}
		if e := (*LineError)(nil); errors.As(err, &e) {
			c = lines{bad: []*LineError{e}}
		} else if err != nil {
			return err
		}
		if err := r.decide(ctx, c); err != nil {
			return err
		}
	}
}

// decideReady decides arrivals that wait no longer, in chunks: at the end of a log they are many.
func (r *run) decideReady(ctx context.Context, c lines) error {
	for {
		part, n := c, min(chunk, len(c.arrivals))
		part.arrivals = c.arrivals[:n]
		if err := r.decide(ctx, part); err != nil || n == len(c.arrivals) {
			return err
		}
		c = lines{arrivals: c.arrivals[n:]}
	}
}

// decide decides the arrivals of a chunk by every limit, and counts them.
func (r *run) decide(ctx context.Context, c lines) error {
	var tooMany error
	r.batch = r.batch[:0]
	for _, a := range c.arrivals {
		if err := r.validate(&a); err != nil {
			c.bad = append(c.bad, &LineError{Line: a.Line, Why: reason(err)})
			continue
		}
		n, known := r.numbers[a.Key]
		if !known {
			if n = len(r.clients); n >= r.MaxKeys {
				tooMany = fmt.Errorf("line %d: %w: more than %d", a.Line, ErrTooManyKeys, r.MaxKeys)
				break
			}
			r.numbers[a.Key] = n
			r.clients = append(r.clients, client{key: a.Key, last: a.Time})
			for i := range r.refused {
				r.refused[i] = append(r.refused[i], 0)
			}
		}
		k := &r.clients[n]
		k.last = max(k.last, a.Time)
		r.batch = append(r.batch, decision{arrival: a, client: n, at: k.last})
	}
	r.report.unparsed(c.bad)
	if len(r.batch) == 0 {
		return tooMany
	}
	for i, g := range r.gates {
		if err := g.decide(ctx, r.batch); err != nil {
			return err
		}
		r.count(i, g)
	}
	for i := range r.batch {
		r.clients[r.batch[i].client].requests++
	}
	r.report.Requests += int64(len(r.batch))
	return tooMany
}

// validate returns an error if a bucket cannot decide the arrival.
func (r *run) validate(a *Arrival) error {
	op := store.Op{Amount: a.Cost}
	op.Key = a.Key
	if r.Store != nil {
		op.Key = r.Store.Prefix + a.Key
	}
	if a.Key == "" {
		return store.ErrInvalidKey
	}
	for _, l := range r.Limits {
		op.Limit = l.Limit
		if err := op.Validate(); err != nil {
			return err
		}
	}
	return nil
}

// count counts the decisions of one limit.
func (r *run) count(limit int, g gate) {
	o := &r.report.Outcomes[limit]
	for i := range r.batch {
		d := &r.batch[i]
		if d.state.Accepted {
			o.Accepted++
			o.UnitsAccepted += d.arrival.Cost
		} else {
			o.Refused++
			r.refused[limit][d.client]++
		}
		if r.Watch != nil {
			r.Watch(Event{
				Limit: limit, Arrival: d.arrival, At: time.UnixMicro(d.at).UTC(), Accepted: d.state.Accepted,
				Level: g.units(d.state.Level), RetryAfter: d.state.RetryAfter, Wait: d.wait,
				Full: d.state.Full, Spilled: g.units(d.state.Spilled),
			})
		}
		d.wait = 0 // the gate of the next limit may not set it
	}
}
