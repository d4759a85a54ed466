package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"

	"github.com/brimgo/brim/internal/plot"
	"github.com/brimgo/brim/internal/table"
)

// leastShare is the least share of a kept ratio that a new run must reach. A ratio whose rounds
// differ by more may fall to the lowest round of the kept run, since chance alone led there once.
const leastShare = 0.85

// checkedWorkloads are the workloads whose ratios a check compares.
func checkedWorkloads(cores int) []workload {
	return []workload{
		{"uniform", 1, false, false},
		{"uniform", 64, false, false},
		{"uniform", 256, false, false},
		{"hot", 64, false, false},
		{"hot", 256, false, false},
		{"uniform", cores, false, true},
		{"hot", cores, false, true},
		{"uniform", cores, true, true},
		{"hot", cores, true, true},
	}
}

// withReferences returns brim's subjects among all and those that they are compared with.
func withReferences(all []*subject) []*subject {
	return slices.DeleteFunc(slices.Clone(all), func(s *subject) bool {
		return s.group != ours && !slices.ContainsFunc(all, func(o *subject) bool { return o.group == ours && o.against == s.name })
	})
}

// readKept reads the results with which a run is compared.
func readKept(path string) (*results, error) {
	text, err := os.ReadFile(path)
	var r results
	if err == nil {
		err = json.Unmarshal(text, &r)
	}
	switch {
	case err != nil:
	case r.Quick:
		err = errors.New("a quick run is too short to compare with")
	case !slices.ContainsFunc(r.Rows, func(o *row) bool { return o.Part == "cells" }):
		err = errors.New("the run has no decisions per second")
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w; \"make bench-peers\" writes results to compare with", path, err)
	}
	return &r, nil
}

// checked is a ratio that a check compares.
type checked struct {
	name         string  // of both subjects and the workload
	ratio, least float64 // of all rounds and of one
}

// checked returns the ratios of brim's subjects that a check compares. A subject that decides in
// memory counts in the workloads in memory alone.
func (r *results) checked(wanted func(subject string) bool) (all []checked) {
	inMemory := func(o *row) bool { return strings.HasSuffix(o.Workload, ", in memory") }
	for _, o := range r.Rows {
		apart := func(other *row) bool { return other.Subject == o.Subject && inMemory(other) }
		compared := slices.ContainsFunc(checkedWorkloads(runtime.GOMAXPROCS(0)), func(w workload) bool { return w.String() == o.Workload })
		if o.Part != "cells" || o.Group != ours || !compared || !wanted(o.Subject) || !inMemory(o) && slices.ContainsFunc(r.Rows, apart) {
			continue
		}
		if v, ok := r.ratio(o, rateFigure); ok {
			a, b, least := o.of(rateFigure), r.reference(o).of(rateFigure), v
			for i := range min(len(a), len(b)) {
				least = min(least, a[i]/b[i])
			}
			all = append(all, checked{fmt.Sprintf("%s / %s: %s", o.Subject, o.Against, o.Workload), v, least})
		}
	}
	return all
}

// compare compares the ratios of a run with those of an earlier one, of the subjects that are
// wanted. It returns a table of all ratios. The error names each ratio that is too low or missing.
func compare(kept, now *results, wanted func(subject string) bool) (text string, err error) {
	then, today := kept.checked(wanted), now.checked(wanted)
	named := func(all []checked, name string) int {
		return slices.IndexFunc(all, func(c checked) bool { return c.name == name })
	}
	t := table.Numeric("ratio of decisions per second", "kept", "lowest kept round", "now", "verdict")
	var failed []string
	add := func(c checked, is, verdict string, ok bool) {
		t.Add(c.name, plot.Number(c.ratio), plot.Number(c.least), is, verdict)
		if !ok {
			failed = append(failed, fmt.Sprintf("  %s: %s; kept %s, now %s", c.name, verdict, plot.Number(c.ratio), is))
		}
	}
	for _, k := range then {
		i := named(today, k.name)
		switch {
		case i < 0:
			add(k, "", "MISSING: a server or other cores?", false)
		case today[i].ratio >= leastShare*k.ratio:
			add(k, plot.Number(today[i].ratio), "ok", true)
		case today[i].ratio >= k.least:
			add(k, plot.Number(today[i].ratio), "as low as a kept round", true)
		default:
			add(k, plot.Number(today[i].ratio), "TOO LOW", false)
		}
	}
	for _, c := range today {
		if named(then, c.name) < 0 {
			add(checked{name: c.name}, plot.Number(c.ratio), "MISSING in the kept results", false)
		}
	}
	text = t.Markdown()
	if !slices.Equal(kept.Machine, now.Machine) {
		text = fmt.Sprintf("Ratios may differ because the kept results are those of %s, and these of %s.\n\n%s",
			strings.Join(kept.Machine, ", "), strings.Join(now.Machine, ", "), text)
	}
	if len(failed) > 0 {
		err = fmt.Errorf("%d of %d ratios are too low or missing:\n%s", len(failed), len(t.Rows), strings.Join(failed, "\n"))
	}
	return text, err
}
