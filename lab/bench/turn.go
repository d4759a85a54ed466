package main

import (
	"context"
	"fmt"
	"runtime"
	"time"

	"github.com/brimgo/brim/internal/load"
)

// contestant is a subject that takes turns with others. turn measures it for a time, and adds the
// figures to a row.
type contestant struct {
	row  *row
	turn func(ctx context.Context, length time.Duration, to *row) error
}

// warmUp is the length of the first turn of each subject, which does not count.
const warmUp = 100 * time.Millisecond

// contest lets contestants take turns.
func (b *bench) contest(ctx context.Context, all []contestant) error {
	turn := func(c contestant, length time.Duration, to *row) error {
		runtime.GC() // the subject must not collect the garbage of other subjects
		if err := c.turn(ctx, length, to); err != nil {
			return fmt.Errorf("%s: %s: %w", c.row.Workload, c.row.Subject, err)
		}
		return nil
	}
	for _, c := range all {
		if err := turn(c, min(warmUp, b.length), &row{}); err != nil {
			return err
		}
	}
	return load.Interleave(b.rounds, len(all), func(_, i int) error { return turn(all[i], b.length, all[i].row) })
}

// meter reads a count before and after a turn.
type meter struct {
	name string
	read func(ctx context.Context) (float64, error)
	// unit is the factor of a figure per decision. If it is 0, the figure is the difference
	// itself. If it is negative, the figure is the decisions for each unit.
	unit float64
}

// work is the turn of a subject under load.
type work struct {
	load.Options
	perSecond float64 // calls that begin in a second, in an open loop; 0 for a closed loop
	each      int     // decisions of a call; 0 stands for 1
	refused   float64 // the share of calls on full buckets
	meters    []meter
	drain     func(ctx context.Context) error
	charged   bool // the time and the writes of drain are a part of the turn
	// prune, unless it is nil, runs half-way through the turn.
	prune func(ctx context.Context) (int64, error)
	// strict refuses a decision that is certainly wrong. Otherwise one in a hundred may be.
	strict bool
}

// on returns a subject as a contestant, under a load that is the same for all subjects of the
// workload.
func (b *bench) on(s *opened, workload string, w work) contestant {
	w.Decide = s.decide(b.env)
	w.Tolerant, w.meters, w.drain, w.strict = s.tolerant, append(w.meters, s.meters...), s.drain, s.group == ours
	if s.inMemory {
		w.Burst = inMemoryBurst
	}
	return contestant{b.new(workload, s.name, s.group, s.against), w.turn}
}

// inMemoryBurst is the number of decisions in memory that a caller makes between two readings of
// the clock.
const inMemoryBurst = 64

// decide returns a function that asks for one unit of the bucket keys[key] or full[key] of e.
func (t *target) decide(e *env) func(ctx context.Context, key int, full bool) (bool, error) {
	return func(ctx context.Context, key int, full bool) (bool, error) {
		if full {
			return t.full(ctx, e.full[key])
		}
		return t.roomy(ctx, e.keys[key])
	}
}

// read reads all meters.
func (w *work) read(ctx context.Context) ([]float64, error) {
	all := make([]float64, len(w.meters))
	for i, m := range w.meters {
		var err error
		if all[i], err = m.read(ctx); err != nil {
			return nil, fmt.Errorf("%s: %w", m.name, err)
		}
	}
	return all, nil
}

func (w work) turn(ctx context.Context, length time.Duration, to *row) error {
	before, err := w.read(ctx)
	if err != nil {
		return err
	}
	pruned := w.pruneAfter(ctx, length/2)
	w.For = length
	var res *load.Result
	if w.perSecond > 0 {
		res, err = load.RunOpen(ctx, w.Options, w.perSecond)
	} else {
		res, err = load.Run(ctx, w.Options)
	}
	if err != nil {
		return err
	}
	if err := pruned(to); err != nil {
		return err
	}
	drain := func() error {
		if w.drain == nil {
			return nil
		}
		return w.drain(ctx)
	}
	if w.charged {
		start := time.Now()
		if err := drain(); err != nil {
			return err
		}
		res.Elapsed += time.Since(start)
		to.add(elapsed, res.Elapsed.Seconds())
	}
	after, err := w.read(ctx)
	if err != nil {
		return err
	}
	if !w.charged {
		if err := drain(); err != nil {
			return err
		}
	}
	each := float64(max(1, w.each))
	to.add(rateFigure, res.PerSecond()*each)
	to.add("p50 ms", res.Took.Quantile(0.50))
	to.add(p99Figure, res.Took.Quantile(0.99))
	to.add("p99.9 ms", res.Took.Quantile(0.999))
	decisions := float64(max(1, res.Accepted+res.Refused)) * each
	for i, m := range w.meters {
		v := after[i] - before[i]
		switch {
		case m.unit > 0:
			v *= m.unit / decisions
		case m.unit < 0:
			v = decisions / max(1, v)
		}
		to.add(m.name, v)
	}
	if w.Tolerant {
		to.add("failed %", 100*float64(res.Failed)/max(1, float64(res.Failed)+decisions))
	}
	return w.judge(res, to)
}

// judge returns an error if the subject has accepted calls on full buckets, or refused calls on
// buckets with room. Its speed would mean nothing.
func (w *work) judge(res *load.Result, to *row) error {
	var wrong uint64
	switch w.refused {
	case 0:
		wrong = res.Refused
	case 1:
		wrong = res.Accepted
	}
	if wrong == 0 {
		return nil
	}
	to.add("wrong decisions", float64(wrong))
	if w.strict || 100*wrong > res.Accepted+res.Refused {
		return fmt.Errorf("%d of %d decisions were wrong", wrong, res.Accepted+res.Refused)
	}
	return nil
}

// pruneAfter prunes the subject after a time. It returns a function that waits for the prune and
// adds its time to a row. A turn that is over before that time has no prune.
func (w *work) pruneAfter(ctx context.Context, d time.Duration) (wait func(to *row) error) {
	if w.prune == nil {
		return func(*row) error { return nil }
	}
	var took time.Duration
	done := make(chan error, 1)
	timer := time.AfterFunc(d, func() {
		start := time.Now()
		_, err := w.prune(ctx)
		took = time.Since(start)
		done <- err
	})
	return func(to *row) error {
		if timer.Stop() {
			return nil
		}
		err := <-done
		to.add("prune ms", took.Seconds()*1e3)
		return err
	}
}
