package main

import (
	"context"
	"fmt"
	"runtime"
	"time"

	"github.com/brimgo/brim/internal/load"
)

// contestant is a subject that is compared with others. trial measures it for a time, and adds the
// figures to a row.
type contestant struct {
	row   *row
	trial func(ctx context.Context, length time.Duration, to *row) error
}

// warmUp is the length of the first trial of each subject, which does not count.
const warmUp = 100 * time.Millisecond

// contest makes the trials of contestants, round by round.
func (b *bench) contest(ctx context.Context, all []contestant) error {
	trial := func(c contestant, length time.Duration, to *row) error {
		runtime.GC() // the subject must not collect the garbage of other subjects
		if err := c.trial(ctx, length, to); err != nil {
			return fmt.Errorf("%s: %s: %w", c.row.Workload, c.row.Subject, err)
		}
		return nil
	}
	for _, c := range all {
		if err := trial(c, min(warmUp, b.length), &row{}); err != nil {
			return err
		}
	}
	return load.Interleave(b.rounds, len(all), func(_, i int) error { return trial(all[i], b.length, all[i].row) })
}

// meter reads a count before and after a trial.
type meter struct {
	name string
	read func(ctx context.Context) (float64, error)
	// unit is the factor of a figure per decision. If it is 0, the figure is the difference
	// itself. If it is negative, the figure is the decisions for each unit.
	unit float64
}

// work is a load on a subject.
type work struct {
	load.Options
	each    int  // decisions of a call; 0 stands for 1
	refused bool // all calls are on full buckets
	meters  []meter
	drain   func(ctx context.Context) error
	charged bool // the time of drain is a part of the trial
	// strict refuses a decision that is certainly wrong. Otherwise one in a hundred may be.
	strict bool
}

// on returns a subject as a contestant, under a load that is the same for all subjects of the
// workload.
func (b *bench) on(s *opened, workload string, w work) contestant {
	w.Decide = s.decide
	w.Tolerant, w.meters, w.drain, w.strict = s.tolerant, append(w.meters, s.meters...), s.drain, s.group == ours
	if s.inMemory {
		w.Burst = inMemoryBurst
	}
	return contestant{b.new(workload, s.name, s.group, s.against), w.trial}
}

// inMemoryBurst is the number of decisions in memory that a caller makes between two readings of
// the clock.
const inMemoryBurst = 64

// decide asks for one unit of a bucket by its number.
func (s *opened) decide(ctx context.Context, key int, full bool) (bool, error) {
	if full {
		return s.full(ctx, s.env.full[key])
	}
	return s.roomy(ctx, s.env.keys[key])
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

func (w work) trial(ctx context.Context, length time.Duration, to *row) error {
	before, err := w.read(ctx)
	if err != nil {
		return err
	}
	w.For = length
	res, err := load.Run(ctx, w.Options)
	if err != nil {
		return err
	}
	after, err := w.read(ctx)
	if err == nil && w.drain != nil {
		start := time.Now()
		if err = w.drain(ctx); w.charged {
			res.Elapsed += time.Since(start)
		}
	}
	if err != nil {
		return err
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
	wrong := res.Refused
	if w.refused {
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
