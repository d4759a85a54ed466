package main

import (
	"slices"

	"github.com/brimgo/brim/internal/load"
)

// results are all figures of a run. They are written as JSON.
type results struct {
	Machine  *machine      `json:"machine"`
	Plan     plan          `json:"plan"`
	Subjects []subjectInfo `json:"subjects"`
	Skipped  []string      `json:"skipped"` // because their servers are missing
	Measured []*measured   `json:"measured"`
	Rushes   []rushes      `json:"rushes"` // units admitted beyond the limit
	Firsts   []*measured   `json:"first_inserts,omitempty"`
	Storage  *storage      `json:"storage,omitempty"`
	// RefusedAllocations is the number of allocations of a refusal from memory; nil if it was not
	// measured.
	RefusedAllocations *float64     `json:"refused_allocations,omitempty"`
	Latencies          []*latency   `json:"latencies,omitempty"`
	Growth             []*grown     `json:"growth,omitempty"`
	LeftOut            []string     `json:"growth_left_out,omitempty"` // sizes for which the memory did not suffice
	Sustained          []*sustained `json:"sustained,omitempty"`
	// Ended is the reason why the run ended early, "" if it did not.
	Ended string `json:"ended_early,omitempty"`
}

// subjectInfo describes a subject in the results.
type subjectInfo struct {
	Name    string `json:"name"`
	Group   string `json:"group"`
	Keeps   string `json:"keeps"`
	Against string `json:"ratio_to"`
	group   group
}

func infos(subjects []*opened) []subjectInfo {
	all := make([]subjectInfo, len(subjects))
	for i, s := range subjects {
		all[i] = subjectInfo{
			Name:    s.name,
			Group:   groupNames[s.group],
			Keeps:   s.keeps,
			Against: s.against,
			group:   s.group,
		}
	}
	return all
}

// find returns the figures of a subject in a cell, nil if it was not measured there.
func (r *results) find(subject string, c cell) *measured {
	return find(r.Measured, subject, c)
}

func find(all []*measured, subject string, c cell) *measured {
	i := slices.IndexFunc(all, func(m *measured) bool { return m.Subject == subject && m.Cell == c })
	if i < 0 {
		return nil
	}
	return all[i]
}

// ratio returns the median ratio of a figure of two subjects in a cell, paired by round. of
// selects the figure. ok is false if one of the subjects was not measured.
func (r *results) ratio(ours, theirs string, c cell, of func(*measured) []float64) (ratio float64, ok bool) {
	a, b := r.find(ours, c), r.find(theirs, c)
	if a == nil || b == nil {
		return 0, false
	}
	return load.Ratio(of(a), of(b))
}

// largestRate returns the most decisions per second that a subject made on uniform buckets with
// room, with any number of callers. It returns 0 if none was measured.
func (r *results) largestRate(subject string) (largest float64) {
	for _, m := range r.Measured {
		if m.Subject == subject && m.Cell.Distribution == "uniform" && m.Cell.Refused == 0 {
			largest = max(largest, load.Median(m.Rates))
		}
	}
	return largest
}

// empty reports whether nothing was measured.
func (r *results) empty() bool {
	return len(r.Measured)+len(r.Rushes)+len(r.Latencies)+len(r.Growth)+len(r.Sustained) == 0
}

func rates(m *measured) []float64 { return m.Rates }
func p99s(m *measured) []float64  { return m.P99 }

// cells returns the cells that were measured, in their order.
func (r *results) cells() []cell {
	var all []cell
	for _, m := range r.Measured {
		if !slices.Contains(all, m.Cell) {
			all = append(all, m.Cell)
		}
	}
	return all
}

// grownTo returns the measurement of a backend with a number of buckets, nil if there is none.
func (r *results) grownTo(backend string, buckets int) *grown {
	i := slices.IndexFunc(r.Growth, func(g *grown) bool { return g.Backend == backend && g.Buckets == buckets })
	if i < 0 {
		return nil
	}
	return r.Growth[i]
}

// growth returns the median ratio of the time per decision of a backend with one number of buckets
// to the time with another, paired by round. ok is false if one of the two was not measured.
func (r *results) growth(backend string, from, to int) (ratio float64, ok bool) {
	small, large := r.grownTo(backend, from), r.grownTo(backend, to)
	if small == nil || large == nil {
		return 0, false
	}
	return load.Ratio(small.Rates, large.Rates)
}
