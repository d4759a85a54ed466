package main

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/brimgo/brim/internal/load"
	"github.com/brimgo/brim/internal/plot"
)

// pictures draws the results, and returns the pictures by file name. A run of some subjects or
// workloads gives fewer pictures.
func (r *results) pictures() map[string]string {
	all := map[string]string{
		"uniform.svg": r.drawRates("100,000 buckets, uniform, 64 callers, all accepted", "uniform, 64 callers, accepted"),
		"hot.svg":     r.drawRates("One hot bucket, 64 callers, all accepted", "hot, 64 callers, accepted"),
		"growth.svg":  r.drawGrowth("Time per decision as buckets grow in number", "µs per decision"),
	}
	for name, svg := range all {
		if svg == "" {
			delete(all, name)
		}
	}
	return all
}

// drawRates draws the decisions per second in a workload, the fastest subject first. It returns ""
// if the run has not measured it.
func (r *results) drawRates(title, workload string) string {
	b := plot.DotPlot{
		Title: title, Axis: "decisions per second", Groups: []string{"brim", "bare reference", "naive", "peer"},
		Description: "Decisions per second of brim's stores, bare references, a naive implementation and peers, " +
			"the fastest first. The axis is logarithmic.",
	}
	for _, o := range r.Rows {
		if o.Part == "cells" && o.Workload == workload {
			b.Rows = append(b.Rows, plot.Row{Name: o.Subject, Value: load.Median(o.of(rateFigure)), Group: max(0, slices.Index(b.Groups, o.Group))})
		}
	}
	if len(b.Rows) == 0 {
		return ""
	}
	slices.SortStableFunc(b.Rows, func(a, b plot.Row) int { return cmp.Compare(b.Value, a.Value) })
	return b.SVG()
}

// drawGrowth draws the time per decision against the number of buckets. It returns "" if the run
// has not measured it.
func (r *results) drawGrowth(title, label string) string {
	f := plot.Figure{
		Title: title, Width: 480, Height: 300,
		Description: "A curve for each backend, from a thousand buckets up. Both axes are logarithmic.",
		X:           plot.Axis{Label: "buckets", Log: true},
		Y:           plot.Axis{Label: label, Log: true},
	}
	for _, o := range r.Rows {
		var buckets float64
		_, err := fmt.Sscanf(o.Subject, "%g buckets", &buckets)
		rate := load.Median(o.of(rateFigure))
		if o.Part != "growth" || err != nil || rate == 0 {
			continue // an interrupted run has made no decisions
		}
		n := len(f.Curves)
		if n == 0 || f.Curves[n-1].Name != o.Workload {
			f.Curves = append(f.Curves, plot.Curve{Name: o.Workload, Color: plot.Color(n), Dots: true})
			n++
		}
		f.Curves[n-1].Points = append(f.Curves[n-1].Points, plot.Point{X: buckets, Y: 1e6 / rate})
	}
	if len(f.Curves) == 0 {
		return ""
	}
	return f.SVG()
}
