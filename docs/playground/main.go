//go:build js && wasm

// Command playground runs brim's simulations in a browser. It gives the page's script one function,
// brimSimulate, which takes an object of inputs and returns an object of results or of an error.
//
// The engine is that of "brim simulate", so the same inputs give the same numbers. A test compares
// them.
package main

import (
	"context"
	"fmt"
	"math"
	"syscall/js"
	"time"

	"github.com/brimgo/brim"
	"github.com/brimgo/brim/internal/simulate"
)

// maxAttempts bounds a run, so that the page answers while a slider moves.
const maxAttempts = 5_000

func main() {
	js.Global().Set("brimSimulate", js.FuncOf(func(_ js.Value, args []js.Value) any {
		r, err := run(input{args[0]})
		if err != nil {
			return map[string]any{"error": err.Error()}
		}
		return r
	}))
	select {} // the function must remain callable
}

// input reads the members of the object that the page passes. A member that is missing is 0 or "".
type input struct{ js.Value }

func (in input) number(name string) float64 {
	if v := in.Get(name); v.Type() == js.TypeNumber {
		return v.Float()
	}
	return 0
}

func (in input) text(name string) string {
	if v := in.Get(name); v.Type() == js.TypeString {
		return v.String()
	}
	return ""
}

// millis reads a duration in milliseconds. A duration beyond the longest is the longest.
func (in input) millis(name string) time.Duration {
	return time.Duration(math.Round(min(in.number(name), 1e12))) * time.Millisecond
}

// pattern returns the arrivals that the page asks for.
func (in input) pattern() (simulate.Pattern, error) {
	p := simulate.Pattern{
		Shape: simulate.Shape(in.text("pattern")), Rate: in.number("rate"), Duration: in.millis("duration"),
		Seed: 1, Attempts: int(in.number("attempts")), RetryEvery: in.millis("retryEvery"), Jitter: in.number("jitter"),
	}
	if p.Shape == simulate.Bursts {
		p.Burst = int(in.number("burst"))
	}
	if err := p.Validate(); err != nil {
		return p, err
	}
	first := p.Rate * p.Duration.Seconds()
	if p.Shape == simulate.Bursts {
		first += float64(p.Burst)
	}
	if most := first * float64(max(1, p.Attempts)); most > maxAttempts {
		return p, fmt.Errorf("%.0f attempts are too many for this page, which takes %d; "+
			"lower the rate, the time or the attempts, or run brim simulate", most, maxAttempts)
	}
	return p, nil
}

// run runs one simulation.
func run(in input) (map[string]any, error) {
	pattern, err := in.pattern()
	if err != nil {
		return nil, err
	}
	limit := simulate.Limit{Limit: brim.Limit{Capacity: in.number("capacity"), LeakRate: in.number("leakRate")}}
	if in.text("use") == "queue" {
		limit.Use = simulate.Use{Queue: true, MaxWait: in.millis("maxWait")}
	}
	callers, err := simulate.NewCallers(pattern)
	if err != nil {
		return nil, err
	}
	var levels simulate.Levels
	var timeline simulate.Timeline
	rep, err := simulate.Run(context.Background(), callers, simulate.Options{
		Limits: []simulate.Limit{limit}, Cost: 1,
		Watch: func(e simulate.Event) {
			levels.Add(e)
			timeline.Add(e.At, e.Accepted)
		},
	})
	if err != nil {
		return nil, err
	}
	s, o := callers.Stats(), &rep.Outcomes[0]
	mean := 0.0
	if s.Served > 0 {
		mean = s.Total.Seconds() / float64(s.Served)
	}
	// Both pictures have numbers at the left. That of the rates has names at the right.
	width := in.number("width")
	return map[string]any{
		"callers": s.Callers, "attempts": s.Attempts, "accepted": o.Accepted, "refused": o.Refused, "share": o.Share(),
		"served": s.Served, "gaveUp": s.GaveUp, "busiest": s.Busiest, "meanWait": mean, "longestWait": s.Longest.Seconds(),
		"level": levels.Picture("Level of the bucket", limit, max(pattern.Duration, s.Last), max(0, width-90)),
		"rates": timeline.Picture("Requests over the time", max(0, width-160)),
	}, nil
}
