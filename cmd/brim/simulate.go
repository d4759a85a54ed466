package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/brimgo/brim/internal/duration"
	"github.com/brimgo/brim/internal/simulate"
	"github.com/brimgo/brim/internal/table"
)

// maxDrawn is the largest number of attempts in a picture of a level, which are in memory until the
// end.
const maxDrawn = 2_000_000

// simulateFlags are the flags of simulate beside the limit.
type simulateFlags struct {
	pattern simulate.Pattern
	shape   string
	length  duration.Value
	retry   duration.Value
	sweep   bool
	compare bool
	plot    string
}

func (a *app) simulateCommand() *cobra.Command {
	f := &simulateFlags{length: duration.Value(time.Minute)}
	p := &f.pattern
	cmd := &cobra.Command{
		Use:   "simulate --rate N --capacity C (--leak-rate R | --over D) [--pattern P] [--sweep] [--plot FILE.svg]",
		Short: "Run made-up arrivals through a limit",
		Long: `Shows the effect of a limit on callers who arrive in a pattern, without a log and without waiting:

  constant  evenly spaced, --rate of them per second
  poisson   at random, each independently of the others, --rate per second in the mean
  bursts    --burst of them at one moment, every --burst / --rate seconds

With --attempts, a refused caller comes back, until it is accepted or has made that many attempts:
after --retry-every, or, without that flag, after the time that the refusal named. --jitter 0.5
prolongs each of these waits at random by up to a half of it.

--sweep compares limits with capacities from a tenth of --capacity to ten times as much. With --over
they drain in the same time, with --leak-rate they leak at the same rate.

--compare runs the same callers through other algorithms, which count at most the capacity in a
window of the time in which the limit drains. Its table shows the most units that a key got within
such a window, the accepted requests beyond the capacity in it, the refused requests that would have
fitted, and the bytes that the algorithm kept for a key, at eight per number.

--plot writes a picture of the level of the first key's bucket; with --sweep, of the share of refused
attempts by capacity.

The same flags always give the same answer. simulate decides in memory and leaves every store alone.

Exit status: 0; 130 after an interrupt, with the part that was done.`,
		Example: `  brim simulate --rate 40 --duration 500ms --capacity 10 --leak-rate 5 --plot burst.svg
  brim simulate --pattern poisson --rate 20 --duration 10m --capacity 30 --leak-rate 22 --sweep
  brim simulate --pattern bursts --burst 100 --rate 2 --duration 10m --capacity 100 --over 1m --compare
  brim simulate --pattern bursts --burst 100 --rate 10 --capacity 20 --over 4s --attempts 5 --retry-every 1s --jitter 0.5 --json`,
		Args: exactArgs(),
	}
	limit := addLimit(cmd)
	cmd.Flags().StringVar(&f.shape, "pattern", string(simulate.Constant), "pattern of the arrivals: constant, poisson or bursts")
	cmd.Flags().Var((*number)(&p.Rate), "rate", "arrivals per second in the mean, without retries")
	cmd.Flags().IntVar(&p.Burst, "burst", 0, "arrivals of a burst")
	cmd.Flags().Var(&f.length, "duration", "time within which callers arrive first")
	cmd.Flags().IntVar(&p.Keys, "keys", 1, "number of keys that the callers use, in turn; at random in the pattern poisson")
	p.Cost = 1
	cmd.Flags().Var((*number)(&p.Cost), "cost", "units of every arrival")
	cmd.Flags().Uint64Var(&p.Seed, "seed", 1, "seed of the random numbers")
	cmd.Flags().IntVar(&p.Attempts, "attempts", 1, "largest number of attempts of a caller")
	cmd.Flags().Var(&f.retry, "retry-every", "wait of a refused caller before the next attempt")
	cmd.Flags().Lookup("retry-every").DefValue = "" // help must not show a default of 0s
	cmd.Flags().Var((*number)(&p.Jitter), "jitter", "random prolongation of the wait, as a share of it")
	cmd.Flags().BoolVar(&f.sweep, "sweep", false, "decide by smaller and larger limits, too, and compare them")
	cmd.Flags().BoolVar(&f.compare, "compare", false, "decide by other algorithms, too, and compare them")
	cmd.Flags().StringVar(&f.plot, "plot", "", "file to write a picture to, as SVG")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		l, err := limit.exact()
		if err != nil {
			return err
		}
		p.Shape, p.Duration, p.RetryEvery = simulate.Shape(f.shape), f.length.Std(), f.retry.Std()
		switch {
		case !cmd.Flags().Changed("rate"):
			return usagef("--rate is missing: the number of arrivals per second")
		case p.Keys < 1:
			return usagef("--keys is %d; it must be 1 or more", p.Keys)
		case p.Attempts < 1:
			return usagef("--attempts is %d; it must be 1 or more", p.Attempts)
		case !(p.Cost > 0):
			return usagef("--cost is %v; it must be above 0", p.Cost)
		case p.Attempts == 1 && (p.RetryEvery > 0 || p.Jitter > 0):
			return usagef("--retry-every and --jitter need --attempts of 2 or more: with 1, nobody comes back")
		}
		if err := p.Validate(); err != nil {
			return usagef("--%w", err) // the error begins with the name of the flag
		}
		if err := l.ValidateAmount(p.Cost); err != nil {
			return usagef("--cost: %w", err)
		}
		if err := checkPicture(f.plot); err != nil {
			return err
		}
		if f.compare {
			if err := f.checkCompare(l); err != nil {
				return err
			}
			return a.compare(cmd.Context(), l, f)
		}
		most := p.Rate * p.Duration.Seconds() * float64(p.Attempts) / float64(p.Keys)
		if f.plot != "" && !f.sweep && most > maxDrawn {
			return usagef("the first key may see %.0f attempts, too many for a picture; choose a shorter --duration", most)
		}
		return a.simulate(cmd.Context(), l, f)
	}
	return cmd
}

// callersJSON is the JSON of one limit of a simulation.
type callersJSON struct {
	outcomeJSON
	Callers     int64   `json:"callers"`
	Attempts    int64   `json:"attempts"` // accepted or refused
	Served      int64   `json:"served"`   // callers who were accepted at last
	GaveUp      int64   `json:"gave_up"`
	Busiest     int64   `json:"busiest_second"` // the most attempts within a whole second
	LongestWait float64 `json:"longest_wait"`   // seconds from a caller's first attempt to the accepted one
	MeanWait    float64 `json:"mean_wait"`      // of the callers who were served, in seconds
}

// simulationJSON is the JSON of a simulation.
type simulationJSON struct {
	Pattern  string        `json:"pattern"`
	Complete bool          `json:"complete"` // false after an interrupt
	Limits   []callersJSON `json:"limits"`   // the smallest first
}

// simulate runs the pattern through the limits, each with callers of its own, and prints the
// results.
func (a *app) simulate(ctx context.Context, l simulate.Limit, f *simulateFlags) error {
	limits := []simulate.Limit{l}
	if f.sweep {
		limits = l.With(simulate.Around(l.Capacity))
	}
	result := simulationJSON{Pattern: f.shape, Complete: true, Limits: []callersJSON{}}
	var outcomes []simulate.Outcome
	var levels simulate.Levels
	var last time.Duration
	p := a.progress("simulate")
	defer p.end()
	for i, l := range limits {
		callers, err := simulate.NewCallers(f.pattern)
		if err != nil {
			return usagef("--%w", err)
		}
		o := simulate.Options{Limits: []simulate.Limit{l}, Cost: f.pattern.Cost}
		if f.plot != "" && !f.sweep {
			o.Watch = levels.Add
		}
		o.Progress = func(attempts int64) {
			done := min(1, float64(callers.Stats().Last)/float64(f.pattern.Duration))
			p.set((float64(i)+done)/float64(len(limits)), fmt.Sprintf("%d attempts", attempts))
		}
		rep, err := simulate.Run(ctx, callers, o)
		if err != nil && (rep == nil || ctx.Err() == nil) {
			return err
		}
		outcomes, last = append(outcomes, rep.Outcomes[0]), callers.Stats().Last
		result.Limits = append(result.Limits, newCallersJSON(&rep.Outcomes[0], callers.Stats()))
		if result.Complete = err == nil; !result.Complete {
			break
		}
	}
	p.end()
	if err := a.describeSimulation(f, &result); err != nil {
		return err
	}
	if err := a.drawSimulation(l, f, outcomes, &levels, last); err != nil {
		return err
	}
	if !result.Complete {
		return context.Cause(ctx)
	}
	return nil
}

func newCallersJSON(o *simulate.Outcome, s simulate.CallerStats) callersJSON {
	c := callersJSON{
		outcomeJSON: newOutcomeJSON(o), Callers: s.Callers, Attempts: s.Attempts, Served: s.Served, GaveUp: s.GaveUp,
		Busiest: s.Busiest, LongestWait: s.Longest.Seconds(),
	}
	if s.Served > 0 {
		c.MeanWait = s.Total.Seconds() / float64(s.Served)
	}
	return c
}

// drawSimulation writes the picture that --plot asks for.
func (a *app) drawSimulation(
	l simulate.Limit, f *simulateFlags, outcomes []simulate.Outcome, levels *simulate.Levels, last time.Duration,
) error {
	switch {
	case f.plot == "":
		return nil
	case f.sweep:
		return a.savePicture(f.plot, simulate.SharePicture("brim simulate --sweep "+limitText(l), outcomes, -1))
	}
	until := max(f.pattern.Duration, last)
	return a.savePicture(f.plot, levels.Picture("brim simulate "+limitText(l), l, until))
}

func (a *app) describeSimulation(f *simulateFlags, result *simulationJSON) error {
	if a.json {
		return a.printJSON(result)
	}
	if len(result.Limits) == 0 {
		return errors.New("simulate: no limit was run")
	}
	soFar := ""
	if !result.Complete {
		soFar = ", in the part that was simulated"
	}
	fmt.Fprintf(a.stdout, "%d callers, %s, at %s per second%s\n\n", result.Limits[0].Callers, f.shape,
		units(f.pattern.Rate), soFar)
	t := table.New(table.Right("CAPACITY"), table.Right("LEAK RATE"), table.Right("ATTEMPTS"), table.Right("REFUSED"),
		table.Right("SHARE"), table.Right("SERVED"), table.Right("GAVE UP"), table.Right("MEAN WAIT"),
		table.Right("LONGEST"), table.Right("BUSIEST SECOND"))
	for i := range result.Limits {
		l := &result.Limits[i]
		seconds := func(s float64) string { return span(time.Duration(s * float64(time.Second)).Round(time.Microsecond)) }
		t.Add(units(l.Capacity), units(l.LeakRate)+"/s", fmt.Sprint(l.Attempts), fmt.Sprint(l.Refused),
			percent(l.RefusedShare), fmt.Sprint(l.Served), fmt.Sprint(l.GaveUp), seconds(l.MeanWait),
			seconds(l.LongestWait), fmt.Sprint(l.Busiest))
	}
	return a.printTables(t)
}
