package simulate

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/brimgo/brim"
	"github.com/brimgo/brim/memory"
)

// Use is the way in which callers use a bucket. In the zero value an arrival goes in if it fits, as
// with [brim.Limiter.TryFillup]. At most one of Fillup, Queue and Penalty may be set; see Validate.
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
	case u.MaxWait > 0 && !u.Queue:
		return errors.New("a longest wait needs a queue")
	}
	return nil
}

// calling is a gate that calls brim's own methods on a store in memory.
type calling struct {
	unit
	use    Use
	clock  Clock
	lim    *brim.Limiter
	shaper *brim.Shaper
}

func newCalling(use Use, u unit) (*calling, error) {
	g := &calling{unit: u, use: use}
	s := memory.New(&memory.Options{Clock: g.clock.Now, MaxSkew: MaxSkew})
	g.lim = brim.New(s, &brim.Options{AsStored: true}).WithPenalty(use.Penalty)
	var err error
	if g.shaper, err = brim.NewShaper(g.lim, &brim.ShaperOptions{MaxWait: use.MaxWait}); err != nil {
		return nil, fmt.Errorf("simulate: %w", err)
	}
	return g, nil
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
	g.clock.micros.Store(d.at)
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
