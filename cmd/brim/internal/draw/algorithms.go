package main

import (
	"context"
	"fmt"
	"time"

	"github.com/brimgo/brim"
	"github.com/brimgo/brim/cmd/brim/internal/simulate"
	"github.com/brimgo/brim/internal/plot"
)

// every returns n arrivals of one client, the first after begin, and cost units each.
func every(begin, gap time.Duration, n int, cost float64) []simulate.Arrival {
	all := make([]simulate.Arrival, n)
	for i := range all {
		at := simulate.Start.Add(begin + time.Duration(i)*gap)
		all[i] = simulate.Arrival{Time: at.UnixMicro(), Key: "client", Cost: cost}
	}
	return all
}

// watch runs arrivals through limits, and returns the decisions of each.
func watch(ctx context.Context, arrivals []simulate.Arrival, limits ...simulate.Limit) ([][]simulate.Event, *simulate.Report, error) {
	events := make([][]simulate.Event, len(limits))
	rep, err := simulate.Run(ctx, simulate.Of(arrivals...), simulate.Options{
		Limits: limits,
		Watch:  func(e simulate.Event) { events[e.Limit] = append(events[e.Limit], e) },
	})
	return events, rep, err
}

// by returns a limit for each of the algorithms.
func by(l simulate.Limit, algorithms ...simulate.Algorithm) []simulate.Limit {
	all := make([]simulate.Limit, len(algorithms))
	for i, a := range algorithms {
		all[i] = l
		all[i].Algorithm = a
	}
	return all
}

// since returns the time of a decision in seconds.
func since(e simulate.Event) float64 { return e.At.Sub(simulate.Start).Seconds() }

// levelsOf returns the levels of decisions.
func levelsOf(events []simulate.Event) []plot.Point {
	points := make([]plot.Point, len(events))
	for i, e := range events {
		points[i] = plot.Point{X: since(e), Y: e.Level}
	}
	return points
}

// windowEdge shows the requests that three algorithms let through within the last minute.
func windowEdge(ctx context.Context) (string, error) {
	const window, until = 60.0, 300.0
	var bursts []simulate.Arrival
	for i := range 6 {
		bursts = append(bursts, every(time.Duration(i)*50*time.Second, 0, 150, 1)...)
	}
	algorithms := []simulate.Algorithm{simulate.FixedWindow, simulate.LeakyBucket, simulate.SlidingLog}
	events, _, err := watch(ctx, bursts, by(simulate.Over(100, time.Minute), algorithms...)...)
	if err != nil {
		return "", err
	}
	f := plot.Figure{
		Title: "150 requests at once every 50 seconds, under 100 per minute",
		Description: "Three curves over five minutes: the requests that an algorithm let through within the last minute. " +
			"The fixed window reaches 200, the leaky bucket 183, and the sliding log never exceeds the limit of 100.",
		X:      plot.Axis{Label: "seconds", Max: until, Step: 60},
		Y:      plot.Axis{Label: "requests let through within the last minute", Max: 250, Step: 50},
		Guides: []plot.Guide{{At: 100, Label: "the limit"}},
	}
	for i, a := range algorithms {
		f.Curves = append(f.Curves, plot.Curve{
			Name: a.String(), Color: []plot.Color{plot.Orange, plot.Blue, plot.Green}[i],
			Points: plot.Steps(within(events[i], window), until),
		})
	}
	return f.SVG(), nil
}

// within returns the number of accepted requests of the last window seconds, at each change.
func within(events []simulate.Event, window float64) []plot.Point {
	points := []plot.Point{{}}
	var recent []float64 // the times of accepted requests
	leave := func(until float64) {
		for len(recent) > 0 && recent[0]+window <= until {
			at := recent[0] + window
			recent = recent[1:]
			points = append(points, plot.Point{X: at, Y: float64(len(recent))})
		}
	}
	for _, e := range events {
		leave(since(e))
		if e.Accepted {
			recent = append(recent, since(e))
			points = append(points, plot.Point{X: since(e), Y: float64(len(recent))})
		}
	}
	return points
}

// bytesPerClient shows the memory of each algorithm for a client who uses the limit up.
func bytesPerClient(ctx context.Context) (string, error) {
	kinds := []struct {
		name      string
		algorithm simulate.Algorithm
		color     plot.Color
	}{
		{"sliding log, naive counter", simulate.SlidingLog, plot.Orange},
		{"sliding counter, rollups", simulate.SlidingCounter, plot.Green},
		{"buckets, fixed window", simulate.LeakyBucket, plot.Blue},
		{"GCRA", simulate.GCRA, plot.Violet},
	}
	f := plot.Figure{
		Title: "Bytes for one client who uses the limit up",
		Description: "Four curves over the limit; both axes are logarithmic. A sliding log takes 16 bytes for each request, " +
			"160,000 for a limit of 10,000. All others take from 8 to 24 bytes for every limit.",
		X: plot.Axis{Label: "limit: requests in a window", Log: true},
		Y: plot.Axis{Label: "bytes, without the overhead of a store", Log: true},
	}
	for _, k := range kinds {
		c := plot.Curve{Name: k.name, Color: k.color, Dots: true}
		for requests := 1; requests <= 10_000; requests *= 10 {
			limits := by(simulate.Over(float64(requests), time.Hour), k.algorithm)
			_, rep, err := watch(ctx, every(0, 0, requests, 1), limits...)
			if err != nil {
				return "", err
			}
			c.Points = append(c.Points, plot.Point{X: float64(requests), Y: float64(8 * rep.Outcomes[0].Numbers)})
		}
		f.Curves = append(f.Curves, c)
	}
	return f.SVG(), nil
}

// mirrorImages shows the tokens of one bucket and the level of another on the same arrivals.
func mirrorImages(ctx context.Context) (string, error) {
	const until = 60.0
	limit := simulate.Over(30, 30*time.Second)
	arrivals := append(every(5*time.Second, 0, 30, 1), every(25*time.Second, 200*time.Millisecond, 40, 1)...)
	events, _, err := watch(ctx, arrivals, by(limit, simulate.TokenBucket, simulate.LeakyBucket)...)
	if err != nil {
		return "", err
	}
	start := []plot.Point{{}}
	tokens := plot.Level(append(start, levelsOf(events[0])...), limit.LeakRate, until)
	for i := range tokens {
		tokens[i].Y = limit.Capacity - tokens[i].Y
	}
	f := plot.Figure{
		Title: "30 per 30 seconds: tokens and level are mirror images",
		Description: "The tokens of a token bucket and the level of a leaky bucket over a minute, on the same arrivals. " +
			"At each time their sum is the capacity of 30.",
		X:      plot.Axis{Label: "seconds; 30 requests at 5, and 5 per second from 25 to 33", Max: until, Step: 10},
		Y:      plot.Axis{Label: "units", Max: 35, Step: 5},
		Guides: []plot.Guide{{At: limit.Capacity, Label: "the capacity"}},
		Curves: []plot.Curve{
			{Name: "tokens", Color: plot.Orange, Points: tokens},
			{Name: "level", Points: plot.Level(append(start, levelsOf(events[1])...), limit.LeakRate, until)},
		},
	}
	return f.SVG(), nil
}

// queueOrMeter shows the requests that have gone through: without a limit, through a meter and
// through a queue.
func queueOrMeter(ctx context.Context) (string, error) {
	const until = 2.5
	meter := simulate.Limit{Limit: burstLimit}
	queue := meter
	queue.Use.Queue = true
	events, _, err := watch(ctx, every(0, arrivalGap, arrivals, 1), meter, queue)
	if err != nil {
		return "", err
	}
	totals := make([][]plot.Point, 3) // without a limit, meter, queue
	for i := range totals {
		totals[i] = []plot.Point{{}}
	}
	through := func(i int, at float64) {
		totals[i] = append(totals[i], plot.Point{X: at, Y: float64(len(totals[i]))})
	}
	for i, e := range events[0] {
		through(0, since(e))
		if e.Accepted {
			through(1, since(e))
		}
		if e := events[1][i]; e.Accepted {
			through(2, since(e)+e.Wait.Seconds())
		}
	}
	f := plot.Figure{
		Title: fmt.Sprintf("%d requests, %v apart; capacity %g, leak rate %g per second", arrivals, arrivalGap,
			burstLimit.Capacity, burstLimit.LeakRate),
		Description: "The number of requests that have gone through, over the time. Without a limit 20 go through in half a " +
			"second. A meter lets 12 through in 0.4 seconds. A queue lets the same 12 through, one each 0.2 seconds.",
		X: plot.Axis{Label: "seconds", Max: until, Step: 0.5},
		Y: plot.Axis{Label: "requests gone through", Max: 25, Step: 5},
		Curves: []plot.Curve{
			{Name: "no limit", Color: plot.Grey, Points: plot.Steps(totals[0], until)},
			{Name: "meter", Color: plot.Orange, Points: plot.Steps(totals[1], until)},
			{Name: "queue", Points: plot.Steps(totals[2], until)},
		},
	}
	return f.SVG(), nil
}

// retryStorm shows the attempts of refused callers who come back, with and without jitter.
func retryStorm(ctx context.Context) (string, error) {
	const bin, until = 0.1, 12.0 // seconds
	f := plot.Figure{
		Title: "200 callers at once, who come back every second or after a random time",
		Description: "The attempts in each tenth of a second. Callers who come back every second come as one crowd each time. " +
			"Callers whose wait is up to twice as long at random spread out, and fewer of them give up after eight attempts.",
		X: plot.Axis{Label: "seconds", Max: until, Step: 2},
		Y: plot.Axis{Label: "attempts in 0.1 s", Max: 250, Step: 50},
	}
	for i, jitter := range []float64{0, 1} {
		callers, err := simulate.NewCallers(simulate.Pattern{
			Shape: simulate.Bursts, Burst: 200, Rate: 10, Duration: 10 * time.Second, Attempts: 8,
			RetryEvery: time.Second, Jitter: jitter, Seed: 1,
		})
		if err != nil {
			return "", err
		}
		counts := make([]float64, int(until/bin))
		_, err = simulate.Run(ctx, callers, simulate.Options{
			Limits: []simulate.Limit{{Limit: brim.Limit{Capacity: 20, LeakRate: 10}}},
			Watch: func(e simulate.Event) {
				if n := int(e.At.Sub(simulate.Start) / (100 * time.Millisecond)); n < len(counts) {
					counts[n]++
				}
			},
		})
		if err != nil {
			return "", err
		}
		c := plot.Curve{
			Name:  fmt.Sprintf("%s: %d give up", []string{"every second", "with jitter"}[i], callers.Stats().GaveUp),
			Color: []plot.Color{plot.Orange, plot.Blue}[i],
		}
		var points []plot.Point
		for n, v := range counts {
			points = append(points, plot.Point{X: float64(n) * bin, Y: v})
		}
		c.Points = plot.Steps(points, until)
		f.Curves = append(f.Curves, c)
	}
	return f.SVG(), nil
}

// fiveFills shows the level of a bucket that is filled up to the rim.
func fiveFills(ctx context.Context) (string, error) {
	const until = 9.0
	limit := simulate.Limit{Limit: brim.Limit{Capacity: 3, LeakRate: 1.5}, Use: simulate.Use{Fillup: true}}
	var fills []simulate.Arrival
	for _, fill := range []struct{ at, amount float64 }{{1, 1}, {1.7, 2}, {2, 1}, {2.3, 2}, {6, 3}} {
		fills = append(fills, every(time.Duration(fill.at*float64(time.Second)), 0, 1, fill.amount)...)
	}
	events, _, err := watch(ctx, fills, limit)
	if err != nil {
		return "", err
	}
	f := plot.Figure{
		Title: "Fills of 1, 2, 1, 2 and 3 into a bucket of 3 that leaks 1.5 per second",
		Description: "The level over nine seconds. After the fills it is 1, 2, 2.55, 3 and 3. " +
			"The fourth fill overflows. The bucket is empty at 4.3 seconds, and is full again at 6.",
		X:      plot.Axis{Label: "seconds", Max: until, Step: 1},
		Y:      plot.Axis{Label: "level", Max: 4, Step: 1},
		Guides: []plot.Guide{{At: limit.Capacity, Label: "the capacity"}},
		Curves: []plot.Curve{{Points: plot.Level(append([]plot.Point{{}}, levelsOf(events[0])...), limit.LeakRate, until)}},
	}
	return f.SVG(), nil
}

// afterOutage shows how long a newcomer waits in a queue that is full at the end of an outage.
func afterOutage(ctx context.Context) (string, error) {
	const until = 1200.0
	queue := simulate.Limit{Limit: brim.Limit{Capacity: 10_000, LeakRate: 50}}
	f := plot.Figure{
		Title: "A queue of 10,000 that leaks 50 per second, full after an outage",
		Description: "The wait of a newcomer, over twenty minutes. If nobody comes, it falls from 200 seconds to 0 in 200 " +
			"seconds. If 40 callers come per second, it takes 1,000 seconds.",
		X: plot.Axis{Label: "seconds since the end of the outage", Max: until, Step: 200},
		Y: plot.Axis{Label: "wait in seconds", Max: 250, Step: 50},
	}
	for i, name := range []string{"nobody comes", "40 per second"} {
		callers := every(0, 0, 1, queue.Capacity)
		if i == 1 {
			callers = append(callers, every(25*time.Millisecond, 25*time.Millisecond, until*40-1, 1)...)
		}
		events, _, err := watch(ctx, callers, queue)
		if err != nil {
			return "", err
		}
		wait := plot.Level(levelsOf(events[0]), queue.LeakRate, until)
		for k := range wait {
			wait[k].Y /= queue.LeakRate
		}
		f.Curves = append(f.Curves, plot.Curve{Name: name, Color: []plot.Color{plot.Blue, plot.Orange}[i], Points: wait})
	}
	return f.SVG(), nil
}
