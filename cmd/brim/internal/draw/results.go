package main

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/brimgo/brim/internal/plot"
	"github.com/brimgo/brim/internal/table"
)

// report is the text of a results.md that bench/peers has written.
type report string

// section returns the first table below the heading that begins with the given text. It returns
// nil if there is none: a run of some subjects or workloads leaves tables out.
func (r report) section(heading string) *table.Table {
	_, text, found := strings.Cut(string(r), "\n## "+heading)
	if !found {
		return nil
	}
	text, _, _ = strings.Cut(text, "\n## ")
	t, err := table.ReadMarkdown(text)
	if err != nil {
		return nil
	}
	return t
}

// resultPictures draws the figures of dir/results.md, and returns the pictures by path.
func resultPictures(dir string) (map[string]string, error) {
	text, err := os.ReadFile(filepath.Join(dir, "results.md"))
	if err != nil {
		return nil, err
	}
	r := report(text)
	all := make(map[string]string)
	for _, p := range []struct {
		file, title, heading, column string
	}{
		{"uniform.svg", "100,000 buckets, uniform, 64 callers, all accepted", "Decisions per second, all accepted, uniform", "64 callers"},
		{"hot.svg", "One hot bucket, 64 callers, all accepted", "Decisions per second, all accepted, hot", "64 callers"},
	} {
		svg, err := r.dots(p.title, p.heading, p.column)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", p.file, err)
		}
		if svg != "" {
			all[filepath.Join(dir, p.file)] = svg
		}
	}
	svg, err := r.growth("Time per decision as buckets grow in number", "µs per decision")
	if err != nil {
		return nil, fmt.Errorf("growth.svg: %w", err)
	}
	if svg != "" {
		all[filepath.Join(dir, "growth.svg")] = svg
	}
	return all, nil
}

// dots draws one column of decisions per second, the fastest subject first. It returns "" if the
// report has no such figures.
func (r report) dots(title, heading, column string) (string, error) {
	subjects, figures := r.section("Subjects"), r.section(heading)
	if subjects == nil || figures == nil {
		return "", nil
	}
	b := plot.DotPlot{
		Title: title, Axis: "decisions per second",
		Description: "Decisions per second of brim's stores, bare references, a naive implementation and peers, " +
			"the fastest first. The axis is logarithmic.",
	}
	group := make(map[string]int)
	kinds := subjects.Cells("kind")
	for i, name := range subjects.Cells("subject") {
		if !slices.Contains(b.Groups, kinds[i]) {
			b.Groups = append(b.Groups, kinds[i])
		}
		group[name] = slices.Index(b.Groups, kinds[i])
	}
	names := figures.Cells("subject")
	for i, cell := range figures.Cells(column) {
		if cell == "" {
			continue // the subject does not take part in this workload
		}
		text, _, _ := strings.Cut(cell, " ") // bytes of log may follow in parentheses
		v, err := plot.ParseNumber(text)
		if err != nil {
			return "", err
		}
		b.Rows = append(b.Rows, plot.Row{Name: names[i], Value: v, Group: group[names[i]]})
	}
	if len(b.Rows) == 0 {
		return "", nil
	}
	slices.SortStableFunc(b.Rows, func(a, b plot.Row) int { return cmp.Compare(b.Value, a.Value) })
	return b.SVG(), nil
}

// growth draws one column of the table of growth against the number of buckets. It returns "" if
// the report has no such table.
func (r report) growth(title, column string) (string, error) {
	t := r.section("Growth")
	if t == nil {
		return "", nil
	}
	f := plot.Figure{
		Title: title, Width: 480, Height: 300,
		Description: "A curve for each backend, from a thousand buckets up. Both axes are logarithmic.",
		X:           plot.Axis{Label: "buckets", Log: true},
		Y:           plot.Axis{Label: column, Log: true},
	}
	buckets, figures := t.Cells("buckets"), t.Cells(column)
	for i, backend := range t.Cells("backend") {
		if figures[i] == "" {
			continue // the run was interrupted before it measured this
		}
		x, err := plot.ParseNumber(buckets[i])
		if err != nil {
			return "", err
		}
		y, err := plot.ParseNumber(figures[i])
		if err != nil {
			return "", err
		}
		n := len(f.Curves)
		if n == 0 || f.Curves[n-1].Name != backend {
			f.Curves = append(f.Curves, plot.Curve{Name: backend, Color: plot.Color(n), Dots: true})
			n++
		}
		f.Curves[n-1].Points = append(f.Curves[n-1].Points, plot.Point{X: x, Y: y})
	}
	return f.SVG(), nil
}
