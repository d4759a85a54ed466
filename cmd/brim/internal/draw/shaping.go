package main

import (
	"context"
	"fmt"
	"time"

	"github.com/brimgo/brim"
	"github.com/brimgo/brim/cmd/brim/internal/simulate"
	"github.com/brimgo/brim/internal/plot"
)

// The burst of shaperOrPolicer, and the limit that it meets.
const (
	arrivals   = 20
	arrivalGap = 25 * time.Millisecond
)

var burstLimit = brim.Smooth(5, 2*time.Second)

// shaperOrPolicer shows one burst through a policer, through a shaper, and through a shaper with
// a longest wait.
func shaperOrPolicer(ctx context.Context) (string, error) {
	f := plot.Figure{
		Title: fmt.Sprintf("%d arrivals, %v apart; capacity %g, leak rate %g per second",
			arrivals, arrivalGap, burstLimit.Capacity, burstLimit.LeakRate),
		Description: "Three rows show one burst of arrivals. The policer lets the first arrivals through at once " +
			"and refuses most of the others. The shaper lets the same number through, evenly spaced. " +
			"The shaper with a longest wait refuses the arrivals that would wait longer.",
		Height: 200,
		X: plot.Axis{
			Label: "seconds; a bar marks when a call goes through, a cross when one is refused",
			Max:   2.5,
			Step:  0.5,
		},
		Y: plot.Axis{Rows: []string{"arrivals", "policer", "shaper", "MaxWait 0.5 s"}},
	}
	mark := func(at time.Duration, row int, accepted bool) {
		m := plot.Mark{At: plot.Point{X: at.Seconds(), Y: float64(row)}}
		if !accepted {
			m.Shape, m.Color = plot.Cross, plot.Orange
		}
		f.Marks = append(f.Marks, m)
	}
	policer := simulate.Limit{Limit: burstLimit}
	shaper, impatient := policer, policer
	shaper.Use.Queue = true
	impatient.Use = simulate.Use{Queue: true, MaxWait: 500 * time.Millisecond}
	events, _, err := watch(ctx, every(0, arrivalGap, arrivals, 1), policer, shaper, impatient)
	if err != nil {
		return "", err
	}
	for row, decided := range events {
		for _, e := range decided {
			at := e.At.Sub(simulate.Start)
			if row == 0 {
				mark(at, 0, true)
			}
			mark(at+e.Wait, 1+row, e.Accepted)
		}
	}
	return f.SVG(), nil
}

// twiceTheCapacity shows the units that a bucket lets through in the time that it takes to drain.
func twiceTheCapacity(ctx context.Context) (string, error) {
	const begin, end, until = 60, 120, 180 // seconds
	limit := simulate.Over(100, time.Minute)
	levels, totals := []plot.Point{{}}, []plot.Point{{}}
	total := 0.0
	var client []simulate.Arrival
	for second := begin; second <= end; second++ {
		amount := limit.LeakRate
		if second == begin {
			amount = limit.Capacity
		}
		at := simulate.Start.Add(time.Duration(second) * time.Second)
		client = append(client, simulate.Arrival{Time: at.UnixMicro(), Key: "k", Cost: amount})
	}
	rep, err := simulate.Run(ctx, simulate.Of(client...), simulate.Options{
		Limits: []simulate.Limit{limit},
		Watch: func(e simulate.Event) {
			total += e.Arrival.Cost
			second := e.At.Sub(simulate.Start).Seconds()
			levels = append(levels, plot.Point{X: second, Y: e.Level})
			totals = append(totals, plot.Point{X: second, Y: total})
		},
	})
	if err != nil {
		return "", err
	}
	if refused := rep.Outcomes[0].Refused; refused > 0 {
		return "", fmt.Errorf("%d of the client's requests are refused", refused)
	}
	f := plot.Figure{
		Title: "Over(100, time.Minute) under a client that takes all it can get, from second 60 on",
		Description: "The level jumps to the capacity at second 60, stays there for a minute while the client takes " +
			"every unit that leaks, and then falls to 0 within a minute. The total let through by second 120 is " +
			"twice the capacity.",
		X: plot.Axis{Label: "seconds", Max: until, Step: 30},
		Y: plot.Axis{Label: "units", Max: 300, Step: 100},
		Guides: []plot.Guide{
			{At: limit.Capacity, Label: "the capacity"},
			{At: 2 * limit.Capacity, Label: "twice the capacity"},
		},
		Curves: []plot.Curve{
			{Name: "level", Color: plot.Orange, Points: plot.Level(levels, limit.LeakRate, until)},
			{Name: "let through", Points: plot.Steps(totals, until)},
		},
	}
	return f.SVG(), nil
}

// depthAndTimeout shows the share of a shaper's turns that are of use under overload, by the
// depth of its queue. Calls arrive at one and a half times the leak rate for 3 minutes. Their
// callers give up after 2 seconds, and do not say so.
func depthAndTimeout(ctx context.Context) (string, error) {
	const timeout = 2 * time.Second
	var useful []plot.Point
	for depth := 250 * time.Millisecond; depth <= 4*time.Second; depth += 125 * time.Millisecond {
		share, err := usefulTurns(ctx, depth, timeout)
		if err != nil {
			return "", err
		}
		useful = append(useful, plot.Point{X: depth.Seconds(), Y: share})
	}
	f := plot.Figure{
		Title: "A queue of 20 per second under 30 per second, whose callers give up after 2 s",
		Description: "The share of turns whose caller is still waiting. It is 1 for every queue that is no deeper " +
			"than the callers' timeout of 2 seconds, and almost 0 for every deeper one.",
		X:      plot.Axis{Label: "depth of the queue: capacity / leak rate, in seconds", Max: 4, Step: 1},
		Y:      plot.Axis{Label: "share of the turns whose callers still wait", Max: 1, Step: 0.25},
		Guides: []plot.Guide{{At: timeout.Seconds(), Vertical: true, Label: "the callers' timeout"}},
		Curves: []plot.Curve{{Points: useful}},
	}
	return f.SVG(), nil
}

// usefulTurns returns the share of the turns of a queue that come within the callers' timeout.
func usefulTurns(ctx context.Context, depth, timeout time.Duration) (float64, error) {
	const (
		rate = 20.0
		gap  = time.Second / 30
	)
	queue := simulate.Limit{Limit: brim.Smooth(rate, depth), Use: simulate.Use{Queue: true}}
	events, _, err := watch(ctx, every(0, gap, int(3*time.Minute/gap), 1), queue)
	if err != nil {
		return 0, err
	}
	all, inTime := 0, 0
	for _, e := range events[0] {
		if e.Accepted {
			all++
		}
		if e.Accepted && e.Wait <= timeout {
			inTime++
		}
	}
	return float64(inTime) / float64(all), nil
}
