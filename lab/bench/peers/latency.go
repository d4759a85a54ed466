package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/brimgo/brim/internal/load"
)

const (
	latencyCallers = 64 // of the closed loop
	// openCallers is the largest number of calls under way in the open loop. It is so large that
	// few calls wait for a caller.
	openCallers = 1024
	// openShare is the rate of the open loop, as a share of the largest rate of the subject.
	openShare = 0.5
)

// latency is the answer times of a subject, uniformly over its buckets.
type latency struct {
	Subject string `json:"subject"`
	Closed  *loop  `json:"closed_loop"`
	Open    *loop  `json:"open_loop,omitempty"`
}

// loop is the answer times of a subject in one kind of loop. A list has one element for each turn.
type loop struct {
	Offered   float64   `json:"offered_per_second,omitempty"` // of an open loop
	Rates     []float64 `json:"decisions_per_second"`
	P50       float64   `json:"p50_ms"` // of all turns
	P99       float64   `json:"p99_ms"`
	P999      float64   `json:"p999_ms"`
	P99s      []float64 `json:"p99_ms_of_turns"`
	Prunes    []float64 `json:"prune_ms,omitempty"` // the prune that ran within each turn
	Rotations uint64    `json:"journal_rotations,omitempty"`
	Failed    uint64    `json:"failed,omitempty"`

	took load.Histogram
}

// saturated reports whether the subject could not keep up with the open loop. Its answer times then
// depend on the length of the measurement.
func (l *loop) saturated() bool { return l.Offered > 0 && load.Median(l.Rates) < 0.95*l.Offered }

// runLatency measures the answer times of all subjects. The subjects take turns, first in a closed
// loop and then in an open one. It returns the measurements that were made, also with an error.
func (e *env) runLatency(ctx context.Context, p plan, subjects []*opened, largest func(name string) float64,
) (all []*latency, err error) {
	order, err := load.Draw("uniform", keyCount, 1, 0, 5)
	if err != nil {
		return nil, err
	}
	for _, s := range subjects {
		all = append(all, &latency{Subject: s.name})
	}
	for _, open := range []bool{false, true} {
		err := load.Interleave(p.LatencyTurns, len(subjects), func(round, i int) error {
			s, l := subjects[i], all[i]
			to := &l.Closed
			if open {
				to = &l.Open
			}
			if *to == nil {
				*to = &loop{}
				if open {
					(*to).Offered = openShare * max(largest(s.name), slices.Max(l.Closed.Rates))
				}
			}
			kind := "closed loop"
			if open {
				kind = fmt.Sprintf("open loop, %.0f calls a second", (*to).Offered)
			}
			e.say("latency: %s, %s (%d of %d)", s.name, kind, round+1, p.LatencyTurns)
			return e.latencyTurn(ctx, p, s, order, *to)
		})
		if err != nil {
			return measuredLatencies(all), fmt.Errorf("latency: %w", err)
		}
	}
	return measuredLatencies(all), nil
}

// measuredLatencies drops the parts of which no turn has ended.
func measuredLatencies(all []*latency) []*latency {
	for _, l := range all {
		if l.Open != nil && len(l.Open.Rates) == 0 {
			l.Open = nil
		}
	}
	return slices.DeleteFunc(all, func(l *latency) bool { return l.Closed == nil || len(l.Closed.Rates) == 0 })
}

// latencyTurn runs the turn of a subject. Half-way, expired buckets are pruned.
func (e *env) latencyTurn(ctx context.Context, p plan, s *opened, order load.Order, l *loop) error {
	o := load.Options{
		Callers: latencyCallers, For: p.Latency / time.Duration(p.LatencyTurns), Order: order,
		Tolerant: s.tolerant, Decide: s.decide,
	}
	if s.inMemory {
		o.Burst = p.memoryWork
	}
	work := load.Run
	if l.Offered > 0 {
		o.Callers = openCallers
		if s.inMemory {
			o.Callers = runtime.GOMAXPROCS(0)
		}
		work = func(ctx context.Context, o load.Options) (*load.Result, error) {
			return load.RunOpen(ctx, o, l.Offered)
		}
	}
	runtime.GC() // the subject must not collect the garbage of other subjects
	before, err := s.rotated()
	if err != nil {
		return fmt.Errorf("%s: %w", s.name, err)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	pruned := s.pruneAfter(ctx, o.For/2)
	res, err := work(ctx, o)
	if err != nil {
		cancel() // nobody waits for the time of the prune
	}
	took, pruneErr := pruned()
	if err := errors.Join(err, pruneErr); err != nil {
		return fmt.Errorf("%s: %w", s.name, err)
	}
	if err := s.settled(ctx); err != nil {
		return fmt.Errorf("%s: %w", s.name, err)
	}
	after, err := s.rotated()
	if err != nil {
		return fmt.Errorf("%s: %w", s.name, err)
	}
	l.add(res)
	l.Rotations += after - before
	if s.prune != nil {
		l.Prunes = append(l.Prunes, took.Seconds()*1e3)
	}
	return nil
}

// add adds the figures of a turn.
func (l *loop) add(res *load.Result) {
	l.Rates = append(l.Rates, res.PerSecond())
	l.P99s = append(l.P99s, res.Took.Quantile(0.99))
	l.Failed += res.Failed
	l.took.Add(&res.Took)
	l.P50, l.P99, l.P999 = l.took.Quantile(0.50), l.took.Quantile(0.99), l.took.Quantile(0.999)
}

// pruneAfter prunes the subject after a time, if it has expired buckets to prune. It returns a
// function that waits for the end of the prune, and tells how long it took.
func (t *target) pruneAfter(ctx context.Context, d time.Duration) (wait func() (time.Duration, error)) {
	var took time.Duration
	var err error
	var pruner sync.WaitGroup
	if t.prune != nil {
		pruner.Go(func() {
			select {
			case <-time.After(d):
			case <-ctx.Done():
				return
			}
			start := time.Now()
			_, err = t.prune(ctx)
			took = time.Since(start)
		})
	}
	return func() (time.Duration, error) {
		pruner.Wait()
		return took, err
	}
}

// rotated returns how often the target has rotated its journal, 0 if it has none.
func (t *target) rotated() (uint64, error) {
	if t.rotations == nil {
		return 0, nil
	}
	return t.rotations()
}
