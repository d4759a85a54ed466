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

// chunk is the number of lines that are decided per commit. A commit takes as long as some
// hundred decisions. A larger chunk would keep other processes from the store for too long.
const chunk = 4096

// named is the number of bad lines that a report names.
const named = 3

// ErrNoRequests reports a trace that contains no request.
var ErrNoRequests = errors.New("no requests")

// Clock shows the time of the line that is being decided. Its Now must be the Clock of the
// store's options.
type Clock struct{ micros atomic.Int64 }

// Now returns the time of the line that is being decided.
func (c *Clock) Now() time.Time { return time.UnixMicro(c.micros.Load()) }

// Options describe a replay. Store, Clock and Limit are required.
type Options struct {
	Store store.Store
	// Update, if not nil, runs its function on a view of the store whose decisions are committed
	// together. It may run the function more than once.
	Update func(ctx context.Context, decide func(store.Store) error) error
	// Clock must be the clock of Store. The store must accept a clock that jumps ahead by any time.
	Clock *Clock
	Limit store.Limit
	// Over, if not 0, is the exact time in which a full bucket of Limit drains. The leak rate of
	// Limit is a rounded number.
	Over   time.Duration
	Cost   float64 // of every request; 0 if the costs differ
	Prefix string  // of the keys in the store
	Keep   bool    // the buckets stay in the store
	Top    int     // number of the most refused keys in the report
	// Progress, if not nil, is called from time to time with the number of lines done.
	Progress func(lines int64)
}

// Run decides every request of r in order. Within a bucket time never runs backwards: Run decides
// a line that is older than an earlier line with the same key at the time of the earlier line.
//
// Run counts lines that are not requests. If the trace contains no request, the error is
// [ErrNoRequests], and the report contains the reasons.
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
		case <-ctx.Done(): // a read that never returns, say from a terminal, must not delay this
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
	err      error // the error that ended the reading
}

// read parses a chunk while the one before is decided, until the trace ends or ctx is done.
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

// run is a running replay.
type run struct {
	Options
	factor  float64     // units of the store per unit of the limit
	scaled  store.Limit // the limit in units of the store
	report  Report
	tallies map[string]*tally
}

// tally counts the decisions of a key.
type tally struct {
	accepted, refused int64
	last              int64 // the time of its latest line
}

// decision is a request for the store, with its answer.
type decision struct {
	op       store.Op
	cost     float64 // in units of the limit
	at       int64
	tally    *tally
	accepted bool
}

// decide decides the requests of a chunk in one commit, and counts them.
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
		// The scaled capacity is below the largest amount, so a cost above the largest amount is
		// refused as well.
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

// update calls decide with the store, in one commit if the store can do so.
func (r *run) update(ctx context.Context, decide func(store.Store) error) error {
	if r.Update == nil {
		return decide(r.Store)
	}
	return r.Update(ctx, decide)
}
