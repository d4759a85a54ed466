package main

import (
	"context"
	"fmt"
	"time"

	"github.com/brimgo/brim"
)

// shaperOrPolicer shows one burst through a policer, through a shaper, and through a shaper with a longest wait.
func shaperOrPolicer(ctx context.Context) (string, error) {
	limit := brim.Smooth(5, 2*time.Second)
	p := newPlot("20 arrivals, 25 ms apart; capacity 10, leak rate 5 per second", 560, 200, 2.5, 4)
	rows := []string{"MaxWait 0.5 s", "shaper", "policer", "arrivals"}
	for i, name := range rows {
		row := float64(i) + 0.5
		p.text(left-10, p.y(row)+4, "end", ink, name)
		p.line(faint, `stroke-width="0.5"`, [2]float64{0, row}, [2]float64{p.xMax, row})
	}
	for row, maxWait := range []time.Duration{500 * time.Millisecond, 0} {
		s, err := newStage()
		if err != nil {
			return "", err
		}
		turns, err := brim.NewShaper(s.lim, &brim.ShaperOptions{MaxWait: maxWait})
		if err != nil {
			return "", err
		}
		for k := range 20 {
			s.at(time.Duration(k) * 25 * time.Millisecond)
			r, err := turns.Reserve(ctx, limit.For("k"), 1)
			if err != nil {
				return "", err
			}
			at := s.now
			if r.State.Accepted {
				at = r.Turn()
			}
			p.mark(seconds(at.Sub(start)), float64(row)+0.5, r.State.Accepted)
		}
	}
	s, err := newStage()
	if err != nil {
		return "", err
	}
	for k := range 20 {
		since := time.Duration(k) * 25 * time.Millisecond
		s.at(since)
		st, err := s.lim.TryFillup(ctx, limit.For("k"), 1)
		if err != nil {
			return "", err
		}
		p.mark(seconds(since), 3.5, true)
		p.mark(seconds(since), 2.5, st.Accepted)
	}
	p.xAxis(0.5, "seconds; a bar goes through then, a cross is refused then")
	return p.svg(), nil
}

// twiceTheCapacity shows what a bucket lets through in the time that it takes to drain.
func twiceTheCapacity(ctx context.Context) (string, error) {
	limit := brim.Over(100, time.Minute)
	s, err := newStage()
	if err != nil {
		return "", err
	}
	p := newPlot("Over(100, time.Minute) under a client that takes all it can get, from second 60 on", 560, 240, 180, 300)
	var level, through [][2]float64
	sum := 0.0
	for sec := range 181 {
		s.at(time.Duration(sec) * time.Second)
		st, err := s.lim.State(ctx, limit.For("k"))
		if err != nil {
			return "", err
		}
		level, through = append(level, [2]float64{float64(sec), st.Level}), append(through, [2]float64{float64(sec), sum})
		if sec >= 60 && sec <= 120 {
			if sec == 60 {
				st, err = s.lim.TryFillup(ctx, limit.For("k"), 100)
			} else {
				st, err = s.lim.TryFillup(ctx, limit.For("k"), limit.LeakRate)
			}
			if err != nil {
				return "", err
			}
			if !st.Accepted {
				return "", fmt.Errorf("second %d: refused at level %v", sec, st.Level)
			}
			if sec == 60 {
				sum += 100
			} else {
				sum += limit.LeakRate
			}
			level, through = append(level, [2]float64{float64(sec), st.Level}), append(through, [2]float64{float64(sec), sum})
		}
	}
	p.line(faint, `stroke-dasharray="5 4"`, [2]float64{0, 100}, [2]float64{180, 100})
	p.line(faint, `stroke-dasharray="5 4"`, [2]float64{0, 200}, [2]float64{180, 200})
	p.line(refused, `stroke-width="2"`, level...)
	p.line(accepted, `stroke-width="2"`, through...)
	p.text(p.x(4), p.y(100)-6, "start", ink, "the capacity")
	p.text(p.x(4), p.y(200)-6, "start", ink, "twice the capacity")
	p.text(p.x(135), p.y(200)-6, "start", accepted, "let through")
	p.text(p.x(150), p.y(70), "start", refused, "level")
	p.xAxis(30, "seconds")
	p.yAxis(100, "%g", "units")
	return p.svg(), nil
}

// depthAndTimeout shows how many of a shaper's turns are of use under overload, when callers give up after 2 seconds without
// telling: arrivals at one and a half times the leak rate, for 3 minutes.
func depthAndTimeout(ctx context.Context) (string, error) {
	const (
		rate    = 20.0
		timeout = 2 * time.Second
		gap     = time.Second / 30
	)
	p := newPlot("A queue of 20 per second under 30 per second, whose callers give up after 2 s", 560, 240, 4, 1)
	var useful [][2]float64
	for depth := 250 * time.Millisecond; depth <= 4*time.Second; depth += 125 * time.Millisecond {
		s, err := newStage()
		if err != nil {
			return "", err
		}
		turns, err := brim.NewShaper(s.lim, nil)
		if err != nil {
			return "", err
		}
		all, inTime := 0, 0
		for since := time.Duration(0); since < 3*time.Minute; since += gap {
			s.at(since)
			r, err := turns.Reserve(ctx, brim.Smooth(rate, depth).For("k"), 1)
			switch {
			case err != nil:
				return "", err
			case !r.State.Accepted:
				continue
			}
			all++
			if r.Wait <= timeout {
				inTime++
			}
		}
		useful = append(useful, [2]float64{depth.Seconds(), float64(inTime) / float64(all)})
	}
	p.line(faint, `stroke-dasharray="5 4"`, [2]float64{timeout.Seconds(), 0}, [2]float64{timeout.Seconds(), 1})
	p.line(accepted, `stroke-width="2"`, useful...)
	p.text(p.x(timeout.Seconds())-8, p.y(0.5), "end", ink, "the callers' timeout")
	p.xAxis(1, "depth of the queue: capacity / leak rate, in seconds")
	p.yAxis(0.25, "%.2f", "turns still waited for")
	return p.svg(), nil
}
