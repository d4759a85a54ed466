// Package replay runs the requests of a trace through buckets, each at its own time.
package replay

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"github.com/brimgo/brim/cmd/brim/internal/trace"
	"github.com/brimgo/brim/store"
)

// chunk is how many lines are decided per commit. A commit takes as long as some hundred decisions; a store that others use
// is not kept from them for long.
const chunk = 4096

// named is how many lines that do not parse a report names.
const named = 3

// ErrNoRequests is a trace of which no line is a request.
var ErrNoRequests = errors.New("no requests")

// Clock is the time of the line that is being decided. A store is opened with its Now.
type Clock struct{ micros atomic.Int64 }

// Now returns the time of the line that is being decided.
func (c *Clock) Now() time.Time { return time.UnixMicro(c.micros.Load()) }

// Options say what to replay into. Store, Clock and Limit are required.
type Options struct {
	Store store.Store
	// Update, if not nil, runs its function on a view of the store whose decisions are committed together. It may run the
	// function more than once.
	Update func(ctx context.Context, decide func(store.Store) error) error
	// Clock must be what Store reads its time from. The store must believe times that are any distance ahead of it.
	Clock *Clock
	Limit store.Limit
	// Over, if not 0, is the time in which a full bucket of Limit drains: exactly, where the leak rate is rounded.
	Over   time.Duration
	Cost   float64 // of every request, if they all have one; else 0
	Prefix string  // of the keys in the store
	Keep   bool    // will the buckets be left there?
	Top    int     // how many of the most refused keys to report
	// Progress, if not nil, is told the number of lines done, now and then.
	Progress func(lines int64)
}

// Run decides every request that r yields, in order, and reports what became of them. Within a bucket time never runs
// backwards: a line that is older than one before it with the same key is decided at the time of that one.
//
// Lines that are no requests are counted; if there are no others, the error is [ErrNoRequests] and the report says why.
func Run(ctx context.Context, r *trace.Reader, o Options) (*Report, error) {
	if err := o.Limit.Validate(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	run := &run{Options: o, tallies: make(map[string]*tally)}
	run.factor, run.scaled = scale(o.Limit, o.Over, o.Cost)
	start := time.Now()
	chunks := read(ctx, r)
	for ended := false; !ended; {
		var c lines
		select {
		case c = <-chunks:
		case <-ctx.Done(): // a read that never returns, from a terminal for instance, must not be waited for
			return nil, context.Cause(ctx)
		}
		if ended = c.err == io.EOF; !ended && c.err != nil {
			return nil, c.err
		}
		if err := run.decide(ctx, c); err != nil {
			return nil, err
		}
		if o.Progress != nil {
			o.Progress(run.report.Requests + run.report.Unparsed)
		}
	}
	run.finish(time.Since(start))
	if o.Keep {
		if err := run.unscale(ctx); err != nil {
			return nil, err
		}
	}
	if run.report.Requests == 0 {
		return &run.report, ErrNoRequests
	}
	return &run.report, nil
}

// lines is a chunk of a trace.
type lines struct {
	requests []trace.Request
	bad      []*trace.LineError
	err      error // that ended the reading
}

// read parses one chunk while another is decided, until the trace ends or ctx is done.
func read(ctx context.Context, r *trace.Reader) <-chan lines {
	chunks := make(chan lines)
	go func() {
		for {
			c := readChunk(r)
			select {
			case chunks <- c:
			case <-ctx.Done():
				return
			}
			if c.err != nil {
				return
			}
		}
	}()
	return chunks
}

func readChunk(r *trace.Reader) (c lines) {
	c.requests = make([]trace.Request, 0, chunk)
	for range chunk {
		req, err := r.Next()
		if e := (*trace.LineError)(nil); errors.As(err, &e) {
			c.bad = append(c.bad, e)
			continue
		}
		if err != nil {
			c.err = err
			return c
		}
		c.requests = append(c.requests, req)
	}
	return c
}

// run is a replay under way.
type run struct {
	Options
	factor  float64     // by which the store's units are smaller than the limit's
	scaled  store.Limit // the limit in the store's units
	report  Report
	tallies map[string]*tally
}

// tally is what became of one key's requests.
type tally struct {
	accepted, refused int64
	last              int64 // the time of its latest line
}

// decision is one request, ready for the store.
type decision struct {
	op       store.Op
	cost     float64 // in the limit's units
	at       int64
	tally    *tally
	accepted bool
}

func (r *run) decide(ctx context.Context, c lines) error {
	decisions := make([]decision, 0, len(c.requests))
	for i := range c.requests {
		req := &c.requests[i]
		op := store.Op{Bucket: r.Limit.For(r.Prefix + req.Key), Amount: req.Cost}
		err := op.Validate()
		if req.Key == "" {
			err = store.ErrInvalidKey
		}
		if err != nil {
			c.bad = append(c.bad, &trace.LineError{Line: req.Line, Why: reason(err)})
			continue
		}
		t := r.tallies[req.Key]
		if t == nil {
			t = &tally{last: req.Time}
			r.tallies[req.Key] = t
		}
		t.last = max(t.last, req.Time)
		// What exceeds the largest amount exceeds the scaled capacity too, which is below it.
		op.Limit, op.Amount = r.scaled, min(req.Cost*r.factor, store.MaxAmount)
		decisions = append(decisions, decision{op: op, cost: req.Cost, at: t.last, tally: t})
	}
	r.report.unparsed(c.bad)
	if len(decisions) == 0 {
		return nil
	}
	err := r.update(ctx, func(s store.Store) error {
		for i := range decisions {
			d := &decisions[i]
			r.Clock.micros.Store(d.at)
			st, err := s.Fill(ctx, d.op)
			if err != nil {
				return err
			}
			d.accepted = st.Accepted
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("replay: %w", err)
	}
	for i := range decisions {
		d := &decisions[i]
		r.report.Requests++
		if d.accepted {
			r.report.Accepted++
			r.report.UnitsAccepted += d.cost
			d.tally.accepted++
		} else {
			r.report.Refused++
			d.tally.refused++
		}
	}
	return nil
}

func (r *run) update(ctx context.Context, decide func(store.Store) error) error {
	if r.Update == nil {
		return decide(r.Store)
	}
	return r.Update(ctx, decide)
}
