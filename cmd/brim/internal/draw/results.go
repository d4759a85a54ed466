package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/brimgo/brim/internal/load"
	"github.com/brimgo/brim/internal/plot"
)

// measured are the rows of a results.json that lab/bench has written.
type measured []struct {
	Part, Workload, Subject, Group string
	Figures                        []struct {
		Name   string
		Rounds []float64
	}
}

// resultPictures draws the figures of dir/results.json, and returns the pictures by path. A run of
// some subjects or workloads gives fewer pictures.
func resultPictures(dir string) (map[string]string, error) {
	text, err := os.ReadFile(filepath.Join(dir, "results.json"))
	if err != nil {
		return nil, err
	}
	var results struct{ Rows measured }
	if err := json.Unmarshal(text, &results); err != nil {
		return nil, err
	}
	all := make(map[string]string)
	for name, svg := range map[string]string{
		"uniform.svg": results.Rows.dots("100,000 buckets, uniform, 64 callers, all accepted", "uniform, 64 callers, accepted"),
		"hot.svg":     results.Rows.dots("One hot bucket, 64 callers, all accepted", "hot, 64 callers, accepted"),
		"growth.svg":  results.Rows.growth("Time per decision as buckets grow in number", "µs per decision"),
	} {
		if svg != "" {
			all[filepath.Join(dir, name)] = svg
		}
	}
	return all, nil
}

// rate returns the median of the decisions per second of a row, 0 if they were not measured.
func (m measured) rate(row int) float64 {
	for _, f := range m[row].Figures {
		if f.Name == "decisions/s" {
			return load.Median(f.Rounds)
		}
	}
	return 0
}

// dots draws the decisions per second in a workload, the fastest subject first. It returns "" if
// the run has not measured it.
func (m measured) dots(title, workload string) string {
	b := plot.DotPlot{
		Title: title, Axis: "decisions per second", Groups: []string{"brim", "bare reference", "naive", "peer"},
		Description: "Decisions per second of brim's stores, bare references, a naive implementation and peers, " +
			"the fastest first. The axis is logarithmic.",
	}
	for i, row := range m {
		if row.Part == "cells" && row.Workload == workload {
			b.Rows = append(b.Rows, plot.Row{Name: row.Subject, Value: m.rate(i), Group: max(0, slices.Index(b.Groups, row.Group))})
		}
	}
	if len(b.Rows) == 0 {
		return ""
	}
	slices.SortStableFunc(b.Rows, func(a, b plot.Row) int { return cmp.Compare(b.Value, a.Value) })
	return b.SVG()
}

// growth draws the time per decision against the number of buckets. It returns "" if the run has
// not measured it.
func (m measured) growth(title, label string) string {
	f := plot.Figure{
		Title: title, Width: 480, Height: 300,
		Description: "A curve for each backend, from a thousand buckets up. Both axes are logarithmic.",
		X:           plot.Axis{Label: "buckets", Log: true},
		Y:           plot.Axis{Label: label, Log: true},
	}
	for i, row := range m {
		var buckets float64
		_, err := fmt.Sscanf(row.Subject, "%g buckets", &buckets)
		if row.Part != "growth" || err != nil || m.rate(i) == 0 {
			continue // an interrupted run has made no decisions
		}
		n := len(f.Curves)
		if n == 0 || f.Curves[n-1].Name != row.Workload {
			f.Curves = append(f.Curves, plot.Curve{Name: row.Workload, Color: plot.Color(n), Dots: true})
			n++
		}
		f.Curves[n-1].Points = append(f.Curves[n-1].Points, plot.Point{X: buckets, Y: 1e6 / m.rate(i)})
	}
	if len(f.Curves) == 0 {
		return ""
	}
	return f.SVG()
}
