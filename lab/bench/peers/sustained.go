package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"time"

	"github.com/brimgo/brim/internal/load"
)

// sustained is the figures of a subject over a time in which bolt's journal is rotated. A turn in
// which a region of the journal fills also writes it to the bbolt file. Turns therefore differ, and
// their sums count.
type sustained struct {
	Buckets int `json:"buckets"`
	measured
	Seconds   float64 `json:"seconds"` // of all turns
	Bytes     float64 `json:"written_bytes,omitempty"`
	Rotations uint64  `json:"journal_rotations,omitempty"`
}

// perSecond returns the decisions per second of all turns.
func (s *sustained) perSecond() float64 { return s.decisions() / s.Seconds }

// bytesPerDecision returns the bytes written per decision of all turns.
func (s *sustained) bytesPerDecision() float64 { return s.Bytes / s.decisions() }

func (s *sustained) decisions() float64 { return float64(s.Accepted + s.Refused) }

// leastRotations is the number of rotations without which a figure of bolt does not count: the
// journal would have hidden a part of the work.
const leastRotations = 2

// syncName is the name of the reference that syncs one small write per decision.
const syncName = "fdatasync"

// sustainedNames are the subjects of the sustained measurement, brim's first.
var sustainedNames = []string{boltName, boltUpdate, syncName}

// sustainedCells are the workloads of the sustained measurement.
var sustainedCells = []cell{
	{"uniform", 1, 0, false},
	{"uniform", 64, 0, false},
	{"uniform", 256, 0, false},
	{"hot", 64, 0, false},
	{"hot", 256, 0, false},
}

// bytesCell is the workload of which the bytes per decision count.
var bytesCell = cell{"uniform", 64, 0, false}

// runSustained measures bolt and its references with each number of buckets. It returns the
// workloads that are complete, also with an error.
func (e *env) runSustained(ctx context.Context, p plan) (all []*sustained, err error) {
	for _, buckets := range p.SustainedOf {
		done, err := e.sustainedWith(ctx, p, buckets)
		all = append(all, done...)
		if err != nil {
			return all, fmt.Errorf("sustained, %d buckets: %w", buckets, err)
		}
	}
	return all, nil
}

// sustainedWith measures with one number of buckets, in files of their own.
func (e *env) sustainedWith(ctx context.Context, p plan, buckets int) (all []*sustained, err error) {
	dir, err := os.MkdirTemp(e.dir, "sustained-")
	if err != nil {
		return nil, err
	}
	of := &env{log: e.log, dir: dir, keys: names("tenant:%d", buckets), full: e.full, began: e.began}
	var subjects []*subject
	for _, s := range slices.Concat(brims(), references()) {
		if slices.Contains(sustainedNames, s.name) {
			subjects = append(subjects, s)
		}
	}
	e.say("sustained: creating %d buckets in each file", buckets)
	open, _, err := of.open(ctx, subjects)
	defer func() { err = errors.Join(err, closeAll(open), os.RemoveAll(dir)) }()
	if err != nil {
		return nil, err
	}
	for _, s := range open {
		s.charged = true
		if _, err := writtenByProcess(ctx); err == nil {
			s.written = writtenByProcess
		}
	}
	for i, c := range sustainedCells {
		e.say("sustained: %d buckets, %s (%d of %d)", buckets, c, i+1, len(sustainedCells))
		done, err := of.sustainedCell(ctx, p, c, open)
		if err != nil {
			return all, err
		}
		all = append(all, done...)
	}
	return all, nil
}

// sustainedCell measures the subjects of a workload in turns.
func (e *env) sustainedCell(ctx context.Context, p plan, c cell, open []*opened) ([]*sustained, error) {
	order, err := load.Draw(c.Distribution, len(e.keys), 1, 0, 6)
	if err != nil {
		return nil, err
	}
	if c.Callers > 1 { // nobody combines the bare syncs of several callers
		open = slices.DeleteFunc(slices.Clone(open), func(s *opened) bool { return s.name == syncName })
	}
	all := make([]*sustained, len(open))
	for i, s := range open {
		all[i] = &sustained{Buckets: len(e.keys), measured: measured{Subject: s.name, Cell: c}}
		if err := e.turn(ctx, p, p.Warm, s, order, &measured{Subject: s.name, Cell: c}); err != nil {
			return nil, err
		}
	}
	for again := 0; ; again++ {
		err := load.Interleave(p.SustainedTurns, len(open), func(_, i int) error {
			return e.sustainedTurn(ctx, p, open[i], order, all[i])
		})
		// The first subject is bolt.
		if err != nil || all[0].Rotations >= leastRotations || again == p.SustainedAgain {
			return all, err
		}
		e.say("sustained: the journal was rotated %d times, and must be %d times: as many turns again",
			all[0].Rotations, leastRotations)
	}
}

// sustainedTurn runs the turn of a subject, and adds its figures.
func (e *env) sustainedTurn(ctx context.Context, p plan, s *opened, order load.Order, to *sustained) error {
	before, err := s.rotated()
	if err != nil {
		return err
	}
	turn := measured{Subject: s.name, Cell: to.Cell}
	if err := e.turn(ctx, p, p.Sustained/time.Duration(p.SustainedTurns), s, order, &turn); err != nil {
		return err
	}
	after, err := s.rotated()
	to.add(&turn)
	to.Rotations += after - before
	return err
}

// add adds the figures of one turn.
func (s *sustained) add(turn *measured) {
	decisions := float64(turn.Accepted + turn.Refused)
	s.Seconds += decisions / turn.Rates[0]
	if len(turn.Written) > 0 {
		s.Bytes += turn.Written[0] * decisions
	}
	m := &s.measured
	m.Rates, m.P50, m.P99 = append(m.Rates, turn.Rates...), append(m.P50, turn.P50...), append(m.P99, turn.P99...)
	m.Written = append(m.Written, turn.Written...)
	m.Accepted, m.Refused = m.Accepted+turn.Accepted, m.Refused+turn.Refused
}

var writeBytes = regexp.MustCompile(`(?m)^write_bytes: (\d+)$`)

// writtenByProcess returns the bytes that this process has caused to be written to a disk so far.
// Linux alone counts them, and not those to a file system in memory.
func writtenByProcess(context.Context) (int64, error) {
	b, err := os.ReadFile("/proc/self/io")
	if err != nil {
		return 0, err
	}
	m := writeBytes.FindSubmatch(b)
	if m == nil {
		return 0, errors.New("/proc/self/io reports no write_bytes")
	}
	return strconv.ParseInt(string(m[1]), 10, 64)
}

// findSustained returns the figures of a subject, nil if they were not measured.
func (r *results) findSustained(subject string, buckets int, c cell) *sustained {
	i := slices.IndexFunc(r.Sustained, func(s *sustained) bool {
		return s.Subject == subject && s.Buckets == buckets && s.Cell == c
	})
	if i < 0 {
		return nil
	}
	return r.Sustained[i]
}

// sustainedRatio returns the ratio of bolt's decisions per second to those of a reference, of all
// turns together. ok is false if one of the two was not measured, or if the journal was rotated too
// seldom.
func (r *results) sustainedRatio(against string, buckets int, c cell) (ratio float64, ok bool) {
	ours, theirs := r.findSustained(boltName, buckets, c), r.findSustained(against, buckets, c)
	if ours == nil || theirs == nil || ours.Rotations < leastRotations {
		return 0, false
	}
	return ours.perSecond() / theirs.perSecond(), true
}
