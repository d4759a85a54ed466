package main

import (
	"context"
	"fmt"
	"time"

	"github.com/brimgo/brim/cmd/brim/internal/simulate"
	"github.com/brimgo/brim/internal/table"
)

// maxCompared is the largest number of attempts of a comparison. Some algorithms look at every
// earlier request for each decision.
const maxCompared = 100_000

// algorithmJSON is the JSON of one algorithm of a comparison.
type algorithmJSON struct {
	Algorithm string `json:"algorithm"`
	callersJSON
	MostInWindow float64 `json:"most_in_window"` // units that one key got within the time in which the limit drains
	Beyond       int64   `json:"beyond"`         // accepted requests that exceeded the capacity in such a window
	TooEarly     int64   `json:"too_early"`      // refused requests that would not have
	Bytes        int     `json:"bytes"`          // for one key: eight for each number that the algorithm kept
}

// comparisonJSON is the JSON of a comparison.
type comparisonJSON struct {
	Pattern    string          `json:"pattern"`
	Window     float64         `json:"window"` // seconds
	Complete   bool            `json:"complete"`
	Algorithms []algorithmJSON `json:"algorithms"`
}

// checkCompare returns an error if the flags do not fit --compare.
func (f *simulateFlags) checkCompare(l simulate.Limit) error {
	p := &f.pattern
	attempts := f.attempts()
	switch {
	case f.plot != "" || f.each || f.timeout > 0:
		return usagef("--compare prints a table of its own; leave out --plot, --each and --timeout")
	case l.Use != simulate.Use{}:
		return usagef("--compare needs plain decisions; leave out --fillup, --queue and --penalty")
	case l.LeakRate == 0:
		return usagef("--compare needs a limit that leaks: without it there is no window")
	case attempts > maxCompared:
		return usagef("%.0f attempts are too many to compare; choose a shorter --duration with at most %d", attempts, maxCompared)
	case p.Attempts > 1 && p.RetryEvery == 0:
		return usagef("--compare with --attempts needs --retry-every, because not every algorithm names a time")
	}
	return nil
}

// compare runs the pattern through every algorithm, each with callers of its own.
func (a *app) compare(ctx context.Context, l simulate.Limit, f *simulateFlags) error {
	window := l.MaxWait()
	if l.Over > 0 {
		window = l.Over
	}
	result := comparisonJSON{Pattern: f.shape, Window: window.Seconds(), Complete: true, Algorithms: []algorithmJSON{}}
	p := a.progress("simulate")
	defer p.end()
	for i, algorithm := range simulate.Algorithms() {
		callers, err := simulate.NewCallers(f.pattern)
		if err != nil {
			return usageError{err}
		}
		l.Algorithm = algorithm
		exactness := simulate.NewExactness(l)
		rep, err := simulate.Run(ctx, callers, simulate.Options{
			Limits: []simulate.Limit{l}, Cost: f.cost(), Watch: exactness.Add,
			Progress: func(int64) { p.set(float64(i)/float64(len(simulate.Algorithms())), algorithm.String()) },
		})
		if err != nil && (rep == nil || ctx.Err() == nil) {
			return err
		}
		if result.Complete = err == nil; !result.Complete {
			break
		}
		o := &rep.Outcomes[0]
		result.Algorithms = append(result.Algorithms, algorithmJSON{
			Algorithm: algorithm.String(), callersJSON: newCallersJSON(o, callers.Stats()),
			MostInWindow: exactness.Most, Beyond: exactness.Beyond, TooEarly: exactness.Early, Bytes: 8 * o.Numbers,
		})
	}
	p.end()
	if err := a.describeComparison(&result, window); err != nil {
		return err
	}
	if !result.Complete {
		return context.Cause(ctx)
	}
	return nil
}

func (a *app) describeComparison(result *comparisonJSON, window time.Duration) error {
	if a.json {
		return a.printJSON(result)
	}
	t := table.New(table.Left("ALGORITHM"), table.Right("ACCEPTED"), table.Right("REFUSED"),
		table.Right("MOST IN "+span(window)), table.Right("BEYOND"), table.Right("TOO EARLY"), table.Right("BYTES"))
	for i := range result.Algorithms {
		r := &result.Algorithms[i]
		t.Add(r.Algorithm, fmt.Sprint(r.Accepted), fmt.Sprint(r.Refused), units(r.MostInWindow), fmt.Sprint(r.Beyond),
			fmt.Sprint(r.TooEarly), fmt.Sprint(r.Bytes))
	}
	return a.printTables(t)
}
