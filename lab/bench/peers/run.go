package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/brimgo/brim/internal/load"
	"github.com/brimgo/brim/migrations"
)

// plan is the length of each part of a run.
type plan struct {
	Quick   bool          `json:"quick"`
	Rounds  int           `json:"rounds"`
	Slice   time.Duration `json:"slice_ns"` // of one subject's turn
	Warm    time.Duration `json:"warm_up_ns"`
	HotFor  time.Duration `json:"hot_key_ns"` // time for which one bucket is filled
	Largest int           `json:"largest"`    // number of buckets at which growth ends
	Rushes  int           `json:"rushes"`

	// Latency and Sustained are the times of all turns of a subject, in each loop or workload.
	Latency        time.Duration `json:"latency_ns"`
	LatencyTurns   int           `json:"latency_turns"`
	Sustained      time.Duration `json:"sustained_ns"`
	SustainedTurns int           `json:"sustained_turns"`
	SustainedAgain int           `json:"sustained_again"` // how often the turns are repeated for want of rotations
	SustainedOf    []int         `json:"sustained_buckets"`

	apart      bool // subjects in memory are measured in the cells in memory alone
	memoryWork int  // decisions in memory that a caller makes between two readings of the clock
}

func newPlan(quick, large bool) plan {
	p := plan{
		Rounds:  5,
		Slice:   250 * time.Millisecond,
		Warm:    80 * time.Millisecond,
		HotFor:  30 * time.Second,
		Largest: 1_000_000,
		Rushes:  5,

		Latency: time.Minute, LatencyTurns: 3,
		Sustained: time.Minute, SustainedTurns: 6, SustainedAgain: 4, SustainedOf: []int{100_000, 1_000_000},

		memoryWork: 64,
	}
	if quick {
		p.Quick, p.Rounds, p.Slice, p.Warm = true, 3, 30*time.Millisecond, 10*time.Millisecond
		p.HotFor, p.Largest, p.Rushes = 3*time.Second, 100_000, 2
		p.Latency, p.LatencyTurns = time.Second, 2
		p.Sustained, p.SustainedTurns, p.SustainedAgain, p.SustainedOf = 3*time.Second, 3, 0, p.SustainedOf[:1]
	}
	if large {
		p.Largest = 10_000_000
	}
	return p
}

// measured is the figures of a subject in a cell. They are in the order of the rounds, so that
// the figures of two subjects can be paired.
type measured struct {
	Subject string    `json:"subject"`
	Cell    cell      `json:"cell"`
	Rates   []float64 `json:"decisions_per_second"`
	P50     []float64 `json:"p50_ms"`
	P99     []float64 `json:"p99_ms"`
	Written []float64 `json:"log_bytes_per_decision,omitempty"`
	// Worked is the time that the servers computed per decision.
	Worked []float64 `json:"server_cpu_us_per_decision,omitempty"`
	// The decisions of all rounds. Calls on full buckets must be refused, and calls on buckets
	// with room accepted.
	Accepted uint64 `json:"accepted"`
	Refused  uint64 `json:"refused"`
	Failed   uint64 `json:"failed,omitempty"` // calls that ended with an error, and so without a decision
	Error    string `json:"error,omitempty"`  // the first error
}

// open opens the subjects, and starts the servers that they need. It skips a subject whose server
// does not start, and reports that.
func (e *env) open(ctx context.Context, subjects []*subject) (open []*opened, skipped []string, err error) {
	missing := make(map[string]error)
	for _, s := range subjects {
		if _, tried := missing[s.server]; s.server != "" && !tried {
			e.say("starting %s", s.server)
			if missing[s.server] = e.start(ctx, s.server); missing[s.server] != nil {
				e.say("NO %s: %v", s.server, missing[s.server])
			}
		}
		if missing[s.server] != nil {
			skipped = append(skipped, s.name)
			e.say("SKIPPED: %s, which needs %s", s.name, s.server)
			continue
		}
		t, err := s.open(ctx, e)
		if err != nil {
			return open, skipped, fmt.Errorf("%s: %w", s.name, err)
		}
		open = append(open, &opened{s, t})
		e.say("opened %s", s.name)
	}
	return open, skipped, ctx.Err()
}

// choose returns the subjects whose names contain one of the words in only, and the subjects that
// they are compared with. It returns all subjects if only is "".
func choose(all []*subject, only string) ([]*subject, error) {
	if only == "" {
		return all, nil
	}
	wanted := make(map[string]bool)
	for word := range strings.SplitSeq(only, ",") {
		found := false
		for _, s := range all {
			if strings.Contains(s.name, strings.TrimSpace(word)) {
				wanted[s.name], wanted[s.against], found = true, true, true
			}
		}
		if !found {
			return nil, fmt.Errorf("no subject has a name that contains %q", word)
		}
	}
	return slices.DeleteFunc(slices.Clone(all), func(s *subject) bool { return !wanted[s.name] }), nil
}

// runCell measures all subjects of a cell in turns.
func (e *env) runCell(ctx context.Context, p plan, c cell, subjects []*opened) ([]*measured, error) {
	order, err := c.order()
	if err != nil {
		return nil, err
	}
	subjects = slices.DeleteFunc(slices.Clone(subjects), func(s *opened) bool {
		return !c.takes(s) || p.apart && s.inMemory != c.InMemory
	})
	// Subjects that are compared with the same subject run one after the other, so that other
	// work of the machine weighs on both sides of a ratio.
	slices.SortStableFunc(subjects, func(a, b *opened) int { return cmp.Compare(a.against, b.against) })
	all := make([]*measured, len(subjects))
	for i, s := range subjects {
		all[i] = &measured{Subject: s.name, Cell: c}
		if err := e.turn(ctx, p, p.Warm, s, order, &measured{Subject: s.name, Cell: c}); err != nil {
			return nil, err
		}
	}
	return all, load.Interleave(p.Rounds, len(subjects), func(_, i int) error {
		return e.turn(ctx, p, p.Slice, subjects[i], order, all[i])
	})
}

// turn runs the part of a subject in a round.
func (e *env) turn(ctx context.Context, p plan, d time.Duration, s *opened, order load.Order, m *measured) error {
	o := load.Options{Callers: m.Cell.Callers, For: d, Order: order, Tolerant: s.tolerant, Decide: s.decide}
	if s.inMemory {
		o.Burst = p.memoryWork
	}
	runtime.GC() // the subject must not collect the garbage of other subjects
	before, err := s.used(ctx)
	if err != nil {
		return fmt.Errorf("%s: %w", s.name, err)
	}
	res, err := load.Run(ctx, o)
	if err == nil && s.charged {
		start := time.Now()
		err = s.settled(ctx)
		res.Elapsed += time.Since(start)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", s.name, err)
	}
	after, err := s.used(ctx)
	if err == nil && !s.charged {
		err = s.settled(ctx)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", s.name, err)
	}
	decisions := float64(max(1, res.Accepted+res.Refused))
	if s.written != nil {
		m.Written = append(m.Written, float64(after.written-before.written)/decisions)
	}
	if s.worked != nil {
		m.Worked = append(m.Worked, float64((after.worked-before.worked).Microseconds())/decisions)
	}
	m.Rates = append(m.Rates, res.PerSecond())
	m.P50, m.P99 = append(m.P50, res.Took.Quantile(0.50)), append(m.P99, res.Took.Quantile(0.99))
	m.Accepted, m.Refused, m.Failed = m.Accepted+res.Accepted, m.Refused+res.Refused, m.Failed+res.Failed
	if m.Error == "" && res.Err != nil {
		m.Error = res.Err.Error()
	}
	return m.sane(s.group == ours)
}

// usage is the resources that the servers of a subject have used so far.
type usage struct {
	written int64
	worked  time.Duration
}

// settled ends the work that a turn has left in the background.
func (t *target) settled(ctx context.Context) error {
	if t.settle == nil {
		return nil
	}
	return t.settle(ctx)
}

func (t *target) used(ctx context.Context) (u usage, err error) {
	if t.written != nil {
		if u.written, err = t.written(ctx); err != nil {
			return u, err
		}
	}
	if t.worked != nil {
		u.worked, err = t.worked(ctx)
	}
	return u, err
}

// sane returns an error if the subject has accepted calls on full buckets, or refused calls on
// buckets with room. Its speed would mean nothing. A peer, for which strict is not set, may be
// wrong once in a hundred calls, and the report then shows it.
func (m *measured) sane(strict bool) error {
	wrong := m.wrong()
	if wrong == 0 || !strict && 100*wrong <= m.Accepted+m.Refused {
		return nil
	}
	if m.Cell.Refused == 0 {
		return fmt.Errorf("%s refused %d of %d calls on buckets with room", m.Subject, wrong, m.Accepted+m.Refused)
	}
	return fmt.Errorf("%s accepted %d of %d calls on full buckets", m.Subject, wrong, m.Accepted+m.Refused)
}

// wrong returns the number of decisions that were certainly wrong.
func (m *measured) wrong() uint64 {
	switch m.Cell.Refused {
	case 0:
		return m.Refused
	case 1:
		return m.Accepted
	default:
		return 0
	}
}

// rushes is the number of units that a subject admitted beyond the limit, in the worst of several
// rushes.
type rushes struct {
	Subject string `json:"subject"`
	Worst   int64  `json:"worst"`
	Rushes  int    `json:"rushes"`
}

func (e *env) runRushes(ctx context.Context, p plan, subjects []*opened) ([]rushes, error) {
	var all []rushes
	for _, s := range subjects {
		if s.rush == nil {
			continue
		}
		e.say("rush: %s", s.name)
		r := rushes{Subject: s.name, Rushes: p.Rushes}
		for n := range p.Rushes {
			beyond, err := rush(ctx, s.target, fmt.Sprintf("rush:%d", n))
			if err != nil {
				return nil, fmt.Errorf("%s: %w", s.name, err)
			}
			r.Worst = max(r.Worst, beyond)
		}
		all = append(all, r)
	}
	return all, nil
}

// closeAll closes the subjects.
func closeAll(open []*opened) error {
	var errs []error
	for _, s := range open {
		errs = append(errs, s.close())
	}
	return errors.Join(errs...)
}

func (e *env) migrate(ctx context.Context, schema string) error {
	return migrations.Up(ctx, e.pool, &migrations.Options{Schema: schema})
}
