package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/brimgo/brim/internal/load"
	"github.com/brimgo/brim/internal/plot"
	"github.com/brimgo/brim/internal/table"
)

// markdown returns the results as a Markdown document.
func (r *results) markdown() string {
	var b strings.Builder
	b.WriteString("# brim and its peers\n\n")
	r.writeMachine(&b)
	if r.Ended != "" {
		fmt.Fprintf(&b, "\n**The run ended early**, and has only a part of the figures: %s.\n", r.Ended)
	}
	if r.Plan.Quick {
		b.WriteString("\nThis was a quick run. Its rounds are too few and too short to judge by.\n")
	}
	for _, distribution := range load.Distributions {
		fmt.Fprintf(&b, "\n## Decisions per second, all accepted, %s\n\n", distribution)
		b.WriteString(r.throughput(distribution))
		if distribution != "zipf" {
			b.WriteString(r.picture(distribution, cell{distribution, 64, 0, false}))
		}
	}
	b.WriteString("\n## Mixes with refusals\n\n")
	b.WriteString("Decisions per second, and bytes that the server writes to its log per decision.\n\n")
	b.WriteString(r.mixes(func(c cell) bool { return c.Refused > 0 && !c.InMemory }))
	b.WriteString("\n## In memory, one caller per core\n\n")
	b.WriteString(r.mixes(func(c cell) bool { return c.InMemory }))
	r.writeLatencies(&b)
	r.writeSustained(&b)
	b.WriteString("\n## Admitted beyond the limit\n\n")
	fmt.Fprintf(&b, "%d callers ask for units of a new bucket of %d at once, %d times in all.\n\n", rushCallers,
		rushCapacity, rushTries)
	b.WriteString(r.rushTable())
	if len(r.Growth) > 0 {
		b.WriteString("\n## Growth\n\nA scan visits every bucket. Pruning finds no expired bucket. ")
		b.WriteString("For PostgreSQL and Redis, the time to open is the time until the first answer through new connections. ")
		b.WriteString("Memory has nothing to open.\n\n")
		for _, left := range r.LeftOut {
			fmt.Fprintf(&b, "**Left out:** %s.\n\n", left)
		}
		b.WriteString(r.growthTable())
		b.WriteString("\n![time per decision against the number of buckets](growth.svg)\n")
	}
	r.writeStorage(&b)
	b.WriteString("\n## Subjects\n\n")
	t := table.Numeric("subject", "kind", "place of its buckets, and the event that an answer waits for", "ratio to")
	for _, s := range r.Subjects {
		t.Add(s.Name, s.Group, s.Keeps, s.Against)
	}
	b.WriteString(t.Markdown())
	if failed := r.failures(); failed != "" {
		b.WriteString("\n## Failed calls and wrong decisions\n\n" + failed)
	}
	return b.String()
}

// picture shows the picture that internal/draw makes of a cell, if the cell was measured.
func (r *results) picture(name string, c cell) string {
	if !slices.Contains(r.cells(), c) {
		return ""
	}
	return fmt.Sprintf("\n![decisions per second: %s](%s.svg)\n", c, name)
}

func (r *results) writeMachine(b *strings.Builder) {
	m := r.Machine
	fmt.Fprintf(b, "%d cores, %s, %s, kernel %s, %s.\n", m.Cores, m.CPU, m.OS, m.Kernel, m.Go)
	fmt.Fprintf(b, "Figures are medians of %d rounds of %v each, in which the subjects take turns. ",
		r.Plan.Rounds, r.Plan.Slice)
	b.WriteString("A ratio is the median of the ratios of the rounds.\n\n")
	for _, name := range slices.Sorted(maps.Keys(m.Servers)) {
		fmt.Fprintf(b, "- %s: %s\n", name, m.Servers[name])
	}
	for _, name := range slices.Sorted(maps.Keys(m.Modules)) {
		fmt.Fprintf(b, "- %s %s\n", name, m.Modules[name])
	}
	for _, s := range m.Settings {
		fmt.Fprintf(b, "- %s\n", s)
	}
	for _, s := range r.Skipped {
		fmt.Fprintf(b, "- **Skipped: %s**, because its server is missing\n", s)
	}
}

// throughput returns the table of decisions per second of each subject under each number of
// callers, with further figures for 64 callers.
func (r *results) throughput(distribution string) string {
	cells := slices.DeleteFunc(r.cells(),
		func(c cell) bool { return c.Distribution != distribution || c.Refused > 0 || c.InMemory })
	t := table.Numeric("subject")
	for _, c := range cells {
		t.AddColumns(fmt.Sprintf("%d callers", c.Callers))
	}
	t.AddColumns("p50 ms at 64", "p99 ms at 64", "log bytes at 64", "server µs at 64", "ratio at 64", "to")
	at64 := cell{distribution, 64, 0, false}
	for _, s := range r.Subjects {
		row := []string{s.Name}
		for _, c := range cells {
			row = append(row, r.number(s.Name, c, rates))
		}
		ratio := ""
		if v, ok := r.ratio(s.Name, s.Against, at64, rates); ok {
			ratio = plot.Number(v)
		}
		row = append(row, r.number(s.Name, at64, func(m *measured) []float64 { return m.P50 }),
			r.number(s.Name, at64, p99s), r.number(s.Name, at64, written), r.number(s.Name, at64, worked), ratio, s.Against)
		t.Add(row...)
	}
	return t.Markdown()
}

func written(m *measured) []float64 { return m.Written }
func worked(m *measured) []float64  { return m.Worked }

// number returns the median of a figure of a subject in a cell, "" if it was not measured there.
func (r *results) number(subject string, c cell, of func(*measured) []float64) string {
	m := r.find(subject, c)
	if m == nil || len(of(m)) == 0 {
		return ""
	}
	return plot.Number(load.Median(of(m)))
}

// mixes returns a table with one column per wanted cell.
func (r *results) mixes(wanted func(cell) bool) string {
	cells := slices.DeleteFunc(r.cells(), func(c cell) bool { return !wanted(c) })
	t := table.Numeric("subject")
	for _, c := range cells {
		t.AddColumns(strings.TrimSuffix(c.String(), ", in memory"))
	}
	for _, s := range r.Subjects {
		row, measured := []string{s.Name}, false
		for _, c := range cells {
			text := r.number(s.Name, c, rates)
			measured = measured || text != ""
			if bytes := r.number(s.Name, c, written); bytes != "" {
				text += " (" + bytes + " B)"
			}
			row = append(row, text)
		}
		if measured {
			t.Add(row...)
		}
	}
	return t.Markdown()
}

func (r *results) rushTable() string {
	t := table.Numeric("subject", "rushes", "worst: admitted beyond the limit")
	for _, rush := range r.Rushes {
		t.Add(rush.Subject, fmt.Sprint(rush.Rushes), fmt.Sprint(rush.Worst))
	}
	return t.Markdown()
}

func (r *results) growthTable() string {
	t := table.Numeric("backend", "buckets", "µs per decision", "times that at 10k", "bytes per bucket", "open ms", "scan ms", "prune ms")
	for _, g := range r.Growth {
		open := ""
		if g.Open > 0 {
			open = plot.Number(g.Open)
		}
		cost, times := "", ""
		if len(g.Rates) > 0 { // a run that was interrupted has made no decisions
			cost = plot.Number(1e6 / load.Median(g.Rates))
		}
		if v, ok := r.growth(g.Backend, growthFrom, g.Buckets); ok {
			times = plot.Number(v)
		}
		t.Add(g.Backend, plot.Number(float64(g.Buckets)), cost, times,
			plot.Number(g.Bytes), open, plot.Number(g.Scan), plot.Number(g.Prune))
	}
	return t.Markdown()
}

// failures returns the table of subjects with failed calls or wrong decisions, "" if there are
// none.
func (r *results) failures() string {
	t := table.Numeric("subject", "workload", "failed", "wrong", "of", "first error")
	for _, m := range r.Measured {
		if m.Failed > 0 || m.wrong() > 0 {
			t.Add(m.Subject, m.Cell.String(), fmt.Sprint(m.Failed), fmt.Sprint(m.wrong()),
				fmt.Sprint(m.Accepted+m.Refused+m.Failed), m.Error)
		}
	}
	if len(t.Rows) == 0 {
		return ""
	}
	return t.Markdown()
}
