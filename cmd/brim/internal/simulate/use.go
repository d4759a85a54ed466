package simulate

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/brimgo/brim"
	"github.com/brimgo/brim/store"
)

// Use is the way in which callers use a bucket. In the zero value an arrival goes in if it fits, as
// with [brim.Limiter.TryFillup]. At most one of Fillup, Queue and Penalty may be set.
type Use struct {
	// Fillup puts every arrival in, up to the rim, as [brim.Limiter.Fillup] does. An arrival that
	// loses units counts as refused.
	Fillup bool
	// Queue gives each arrival a turn, as a [brim.Shaper] does. MaxWait is the longest wait for it;
	// 0 means that the capacity alone bounds the wait.
	Queue   bool
	MaxWait time.Duration
	// Penalty blocks the bucket after a refusal, as [brim.Limiter.WithPenalty] does; 0 means no
	// block.
	Penalty time.Duration
}

// Validate returns an error if the ways exclude each other.
func (u Use) Validate() error {
	ways := 0
	for _, set := range []bool{u.Fillup, u.Queue, u.Penalty != 0} {
		if set {
			ways++
		}
	}
	switch {
	case ways > 1:
		return errors.New("a bucket is filled up to the rim, used as a queue or blocked after a refusal: choose one")
	case u.MaxWait < 0:
		return fmt.Errorf("the longest wait is %v; it must be positive", u.MaxWait)
	case u.MaxWait > 0 && !u.Queue:
		return errors.New("a longest wait needs a queue")
	}
	return nil
}

// calling is a gate that calls brim's own methods on a store in memory.
type calling struct {
	unit
	use    Use
	cells  *cells
	lim    *brim.Limiter
	shaper *brim.Shaper
}

// cells is a store of records for one goroutine. Of the methods of a store it has Fill alone, which
// is the only one that the gate's calls reach. Package memory would add its logger to a program in a
// browser.
type cells struct {
	store.Store
	now     int64
	records map[string]store.Record
}

// Fill decides one operation.
func (c *cells) Fill(_ context.Context, op store.Op) (st store.State, err error) {
	r, known := c.records[op.Key]
	if !known {
		r.Time = c.now
	}
	effect, err := r.FillTo(&st, &op, c.now, MaxSkew)
	if err == nil && effect&store.Write != 0 {
		c.records[op.Key] = r
	}
	return st, err
}

func newCalling(use Use, u unit) (*calling, error) {
	if err := use.Validate(); err != nil {
		return nil, fmt.Errorf("simulate: %w", err)
	}
	c := &cells{records: make(map[string]store.Record)}
	lim := brim.New(c, &brim.Options{AsStored: true}).WithPenalty(use.Penalty)
	shaper, err := brim.NewShaper(lim, &brim.ShaperOptions{MaxWait: use.MaxWait})
	if err != nil {
		return nil, fmt.Errorf("simulate: %w", err)
	}
	return &calling{unit: u, use: use, cells: c, lim: lim, shaper: shaper}, nil
}

func (g *calling) numbers() int { return 2 } // the level and its time

func (g *calling) decide(ctx context.Context, batch []decision) error {
	for i := range batch {
		if err := g.call(ctx, &batch[i]); err != nil {
			return fmt.Errorf("simulate: %w", err)
		}
	}
	return nil
}

func (g *calling) call(ctx context.Context, d *decision) (err error) {
	g.cells.now = d.at
	bucket, amount := g.scaled.For(d.arrival.Key), g.amount(d.arrival.Cost)
	switch {
	case g.use.Queue:
		r, err := g.shaper.Reserve(ctx, bucket, amount)
		if err != nil {
			return err
		}
		d.state = r.State
		if r.State.Accepted {
			d.wait = r.Turn().Sub(r.State.At)
		}
	case g.use.Fillup:
		d.state, err = g.lim.Fillup(ctx, bucket, amount)
	default:
		d.state, err = g.lim.TryFillup(ctx, bucket, amount)
	}
	return err
}
