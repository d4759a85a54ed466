package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/brimgo/brim/internal/plot"
	"github.com/brimgo/brim/internal/table"
)

// leastShare is the least share of a kept ratio that a new run must reach. A ratio whose rounds
// differ by more may fall to the lowest round of the kept run, since chance alone led there once.
const leastShare = 0.85

// checkedCells are the workloads whose ratios a check compares.
func checkedCells(cores int) []cell {
	return []cell{
		{"uniform", 1, 0, false},
		{"uniform", 64, 0, false},
		{"uniform", 256, 0, false},
		{"hot", 64, 0, false},
		{"hot", 256, 0, false},
		{"uniform", cores, 0, true},
		{"hot", cores, 0, true},
		{"uniform", cores, 1, true},
		{"hot", cores, 1, true},
	}
}

// withReferences returns brim's subjects among all and those that they are compared with.
func withReferences(all []*subject) []*subject {
	return slices.DeleteFunc(slices.Clone(all), func(s *subject) bool {
		return s.group != ours && !slices.ContainsFunc(all, func(o *subject) bool {
			return o.group == ours && o.against == s.name
		})
	})
}

// readKept reads the results with which a run is compared.
func readKept(path string) (*results, error) {
	const remedy = "run \"make bench-peers\" on a quiet machine; it writes lab/bench/results/results.json"
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: there are no results to compare with; %s", err, remedy)
	}
	if err != nil {
		return nil, err
	}
	var r results
	if err := json.Unmarshal(b, &r); err != nil {
		return nil, fmt.Errorf("%s: %w; %s", path, err, remedy)
	}
	switch {
	case r.Plan.Quick:
		return nil, fmt.Errorf("%s is of a quick run, which is too short to compare with; %s", path, remedy)
	case r.Machine == nil || len(r.Measured) == 0:
		return nil, fmt.Errorf("%s has no decisions per second; %s", path, remedy)
	}
	return &r, nil
}

// checked is a ratio that a check compares.
type checked struct {
	name  string // of both subjects and the workload
	ratio float64
	least float64 // of a round
}

// checked returns the ratios of brim's subjects in the given workloads. A subject that decides in
// memory counts in the workloads in memory alone, and the others count in the others.
func (r *results) checked(cells []cell, wanted func(subject string) bool) (all []checked) {
	for _, c := range cells {
		for _, s := range r.Subjects {
			inMemory := slices.ContainsFunc(r.Measured, func(m *measured) bool { return m.Subject == s.Name && m.Cell.InMemory })
			if s.Group != groupNames[ours] || inMemory != c.InMemory || !wanted(s.Name) {
				continue
			}
			if v, ok := r.ratio(s.Name, s.Against, c, rates); ok {
				a, b := r.find(s.Name, c).Rates, r.find(s.Against, c).Rates
				least := v
				for i := range min(len(a), len(b)) {
					least = min(least, a[i]/b[i])
				}
				all = append(all, checked{fmt.Sprintf("%s / %s: %s", s.Name, s.Against, c), v, least})
			}
		}
	}
	return all
}

// compare compares the ratios of a run with those of an earlier one, of the subjects that are
// wanted. It returns a table of all ratios. The error names each ratio that is too low or missing.
func compare(kept, now *results, cells []cell, wanted func(subject string) bool) (text string, err error) {
	then, today := kept.checked(cells, wanted), now.checked(cells, wanted)
	t := table.Numeric("ratio of decisions per second", "kept", "now", "share", "verdict")
	var failed []string
	fail := func(format string, args ...any) { failed = append(failed, "  "+fmt.Sprintf(format, args...)) }
	for _, k := range then {
		was := plot.Number(k.ratio)
		i := slices.IndexFunc(today, func(c checked) bool { return c.name == k.name })
		if i < 0 {
			t.Add(k.name, was, "", "", "MISSING")
			fail("%s: kept is %s, and this run has not measured it; is a server missing, or the number of cores another?",
				k.name, was)
			continue
		}
		is, share, verdict := plot.Number(today[i].ratio), today[i].ratio/k.ratio, "ok"
		switch {
		case share >= leastShare:
		case today[i].ratio >= k.least:
			verdict = "as low as a kept round"
		default:
			verdict = "TOO LOW"
			fail("%s: %s now, %s kept: %.2f of it, want %v, or %s as in the lowest round that is kept",
				k.name, is, was, share, leastShare, plot.Number(k.least))
		}
		t.Add(k.name, was, is, fmt.Sprintf("%.2f", share), verdict)
	}
	for _, c := range today {
		if slices.ContainsFunc(then, func(k checked) bool { return k.name == c.name }) {
			continue
		}
		t.Add(c.name, "", plot.Number(c.ratio), "", "MISSING")
		fail("%s: %s now, and the kept results have no such ratio; record them anew with \"make bench-peers\"",
			c.name, plot.Number(c.ratio))
	}
	text = differences(kept.Machine, now.Machine) + t.Markdown()
	if len(failed) > 0 {
		return text, fmt.Errorf("%d of %d ratios are too low or missing:\n%s", len(failed), len(t.Rows), strings.Join(failed, "\n"))
	}
	return text, nil
}

// differences tells which of the things that ratios depend on are others than in the kept results.
func differences(kept, now *machine) string {
	var b strings.Builder
	for _, d := range []struct{ thing, was, is string }{
		{"processor", fmt.Sprintf("%d x %s", kept.Cores, kept.CPU), fmt.Sprintf("%d x %s", now.Cores, now.CPU)},
		{"Go", kept.Go, now.Go},
		{"PostgreSQL", kept.Servers[postgresServer], now.Servers[postgresServer]},
		{"Redis", kept.Servers[redisEverysec], now.Servers[redisEverysec]},
	} {
		if d.was != d.is {
			fmt.Fprintf(&b, "NOTE: the %s of the kept results is %s, and here it is %s; ratios may differ for that reason.\n",
				d.thing, d.was, d.is)
		}
	}
	if b.Len() > 0 {
		b.WriteString("\n")
	}
	return b.String()
}
