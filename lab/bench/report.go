package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/brimgo/brim/internal/load"
	"github.com/brimgo/brim/internal/plot"
	"github.com/brimgo/brim/internal/table"
)

// results are all figures of a run.
type results struct {
	Machine []string `json:"machine"` // and the versions of Go and of the servers
	Quick   bool     `json:"quick"`
	Rows    []*row   `json:"rows"`
	Broken  []string `json:"broken,omitempty"`      // bounds that a subject promises
	Ended   string   `json:"ended_early,omitempty"` // the reason why the run ended early
}

// row is the figures of a subject in a workload.
type row struct {
	Part     string    `json:"part"`
	Workload string    `json:"workload"`
	Subject  string    `json:"subject"`
	Group    string    `json:"group,omitempty"`
	Against  string    `json:"against,omitempty"` // the subject that it is compared with in the same workload
	Figures  []*figure `json:"figures"`
}

// figure has one value for each round, so that the rounds of two subjects can be paired.
type figure struct {
	Name   string    `json:"name"`
	Rounds []float64 `json:"rounds"`
}

// The figures that are compared.
const (
	rateFigure = "decisions/s"
	p99Figure  = "p99 ms"
)

// add adds the value of a round.
func (r *row) add(name string, v float64) {
	for _, f := range r.Figures {
		if f.Name == name {
			f.Rounds = append(f.Rounds, v)
			return
		}
	}
	r.Figures = append(r.Figures, &figure{name, []float64{v}})
}

// of returns the rounds of a figure, nil if it was not measured.
func (r *row) of(name string) []float64 {
	for _, f := range r.Figures {
		if f.Name == name {
			return f.Rounds
		}
	}
	return nil
}

// new adds an empty row.
func (b *bench) new(workload, subject, group, against string) *row {
	r := &row{Part: b.name, Workload: workload, Subject: subject, Group: group, Against: against}
	b.Rows = append(b.Rows, r)
	return r
}

// reference returns the row that a row is compared with, nil if there is none.
func (r *results) reference(of *row) *row {
	i := slices.IndexFunc(r.Rows, func(o *row) bool {
		return o.Part == of.Part && o.Workload == of.Workload && o.Subject == of.Against && o != of
	})
	if i < 0 {
		return nil
	}
	return r.Rows[i]
}

// ratio returns the median ratio of a figure to that of the row's reference, paired by round.
func (r *results) ratio(of *row, figure string) (ratio float64, ok bool) {
	other := r.reference(of)
	if other == nil {
		return 0, false
	}
	return load.Ratio(of.of(figure), other.of(figure))
}

// markdown returns a table for each workload.
func (r *results) markdown() string {
	var b strings.Builder
	b.WriteString("# brim and its peers\n\n")
	for _, line := range r.Machine {
		fmt.Fprintf(&b, "- %s\n", line)
	}
	if r.Quick {
		b.WriteString("- This was a quick run. Its rounds are too few and too short to judge by.\n")
	}
	if r.Ended != "" {
		fmt.Fprintf(&b, "- **The run ended early**: %s\n", r.Ended)
	}
	b.WriteString("\nFigures are medians of the rounds, and ratios are medians of the ratios of the rounds.\n")
	for rest := r.Rows; len(rest) > 0; {
		n := slices.IndexFunc(rest, func(o *row) bool { return o.Part != rest[0].Part || o.Workload != rest[0].Workload })
		if n < 0 {
			n = len(rest)
		}
		fmt.Fprintf(&b, "\n## %s: %s\n\n%s", rest[0].Part, rest[0].Workload, r.table(rest[:n]))
		rest = rest[n:]
	}
	return b.String()
}

// table returns the table of a workload.
func (r *results) table(rows []*row) string {
	var names, compared []string // figures
	for _, o := range rows {
		for _, f := range o.Figures {
			if !slices.Contains(names, f.Name) {
				names = append(names, f.Name)
			}
		}
		for _, name := range []string{rateFigure, p99Figure} {
			if _, ok := r.ratio(o, name); ok && !slices.Contains(compared, name) {
				compared = append(compared, name)
			}
		}
	}
	t := table.Numeric("subject", names...)
	for _, name := range compared {
		t.AddColumns(name + ", ratio")
	}
	if len(compared) > 0 {
		t.AddColumns("to")
	}
	for _, o := range rows {
		cells := []string{o.Subject}
		for _, name := range names {
			cells = append(cells, number(load.Median(o.of(name)), len(o.of(name)) > 0))
		}
		for _, name := range compared {
			cells = append(cells, number(r.ratio(o, name)))
		}
		if r.reference(o) != nil {
			cells = append(cells, o.Against)
		}
		t.Add(cells...)
	}
	return t.Markdown()
}

// number formats a figure, as "" if it is missing.
func number(v float64, ok bool) string {
	if !ok {
		return ""
	}
	return plot.Number(v)
}

// write writes the results into a directory, unless it is "" or nothing was measured.
func (r *results) write(dir string) error {
	r.Rows = slices.DeleteFunc(r.Rows, func(o *row) bool { return len(o.Figures) == 0 })
	if dir == "" || len(r.Rows) == 0 {
		return nil
	}
	text, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for name, content := range map[string]string{"results.json": string(text) + "\n", "results.md": r.markdown()} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644); err != nil {
			return err
		}
	}
	return nil
}
