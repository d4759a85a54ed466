package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/brimgo/brim/cmd/brim/internal/simulate"
	"github.com/brimgo/brim/internal/duration"
	"github.com/brimgo/brim/internal/table"
)

func (a *app) simulateCommand() *cobra.Command {
	f := &simulateFlags{length: duration.Value(time.Minute)}
	p := &f.pattern
	cmd := &cobra.Command{
		Use:   "simulate (--rate N | --at LIST) --capacity C (--leak-rate R | --over D) [--pattern P] [--sweep] [--plot FILE.svg]",
		Short: "Run made-up arrivals through a limit",
		Long: `Shows the effect of a limit on callers who arrive in a pattern, without a log and without waiting:

  constant  evenly spaced, --rate of them per second
  poisson   at random, each independently of the others, --rate per second in the mean
  bursts    --burst of them at one moment, every --burst / --rate seconds

--at lists the arrivals instead: --at 0s,1.5s,3@2s comes at once, after 1.5 s, and, with a cost of
3, after 2 s.

A caller is accepted if its cost fits, as with brim try. With --fillup every arrival goes in, up to
the rim, as with brim fillup; one that loses units counts as refused. With --queue the callers wait
for a turn, as with brim exec --wait, and --max-wait bounds that time. With --penalty a refusal
blocks the bucket for that time, or until-empty.

With --attempts, a refused caller comes back, until it is accepted or has made that many attempts:
after --retry-every, or, without that flag, after the time that the refusal named. --jitter 0.5
prolongs each of these waits at random by up to a half of it.

With --timeout, nobody waits any more for a caller who is served, in a queue or at a later attempt,
after a longer time: the caller counts as served, and as too late.

--sweep compares limits with capacities from a tenth of --capacity to ten times as much. With --over
they drain in the same time, with --leak-rate they leak at the same rate.

--compare runs the same callers through other algorithms, which count at most the capacity in a
window of the time in which the limit drains. Its table shows the most units that a key got within
such a window, the accepted requests beyond the capacity in it, the refused requests that would have
fitted, and the bytes that the algorithm kept for a key, at eight per number.

--each prints every decision: the level after it, when a refused arrival would fit, the turn of a
caller in a queue, the units lost over the rim.

--plot writes a picture of the level of the first key's bucket, with --fillup until the bucket is
empty; with --sweep, of the share of refused attempts by capacity.

The same flags always give the same answer. simulate decides in memory and leaves every store alone.

BUSIEST SECOND is the most attempts within a second, and THROUGH the most callers who are served
within a second.

Exit status: 0; 65 if nobody arrives; 130 after an interrupt, with the part that was done.`,
		Example: `  brim simulate --rate 40 --duration 500ms --limit 10@5 --plot burst.svg
  brim simulate --pattern poisson --rate 20 --duration 10m --limit 30@22 --sweep
  brim simulate --at 1s,2@1.7s,2s,2@2.3s,3@6s --limit 3@1.5 --fillup --each
  brim simulate --pattern bursts --burst 50 --rate 1 --limit 50@10 --queue --timeout 3s
  brim simulate --pattern bursts --burst 100 --rate 2 --duration 10m --limit 100/1m --compare
  brim simulate --pattern bursts --burst 100 --rate 10 --limit 20/4s --attempts 5 --retry-every 1s --jitter 0.5 --json`,
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
	cmd.Flags().Var(&f.at, "at", "list of arrivals, like 0s,1.5s,3@2s")
	cmd.Flags().BoolVar(&f.fillup, "fillup", false, "put every arrival in, up to the rim")
	cmd.Flags().BoolVar(&f.queue, "queue", false, "let callers wait for a turn")
	cmd.Flags().Var(&f.maxWait, "max-wait", "longest wait for a turn")
	cmd.Flags().Lookup("max-wait").DefValue = ""
	cmd.Flags().Var(&f.timeout, "timeout", "time that a caller waits; one who is served later counts as too late")
	cmd.Flags().Lookup("timeout").DefValue = ""
	cmd.Flags().StringVar(&f.penalty, "penalty", "", "time for which a refusal blocks the bucket, or until-empty")
	cmd.Flags().BoolVar(&f.each, "each", false, "print every decision")
	cmd.Flags().BoolVar(&f.sweep, "sweep", false, "decide by smaller and larger limits, too, and compare them")
	cmd.Flags().BoolVar(&f.compare, "compare", false, "decide by other algorithms, too, and compare them")
	cmd.Flags().StringVar(&f.plot, "plot", "", "file to write a picture to, as SVG")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		l, err := limit.exact()
		if err != nil {
			return err
		}
		if l.Use, err = f.use(); err != nil {
			return err
		}
		if err := f.check(l); err != nil {
			return err
		}
		if f.compare {
			return a.compare(cmd.Context(), l, f)
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
	TooLate     int64   `json:"too_late"` // of them, after the timeout
	GaveUp      int64   `json:"gave_up"`
	Busiest     int64   `json:"busiest_second"`  // the most attempts within a whole second
	Through     int64   `json:"busiest_through"` // the most callers served within one
	LongestWait float64 `json:"longest_wait"`    // seconds from a caller's first attempt to the accepted one
	MeanWait    float64 `json:"mean_wait"`       // of the callers who were served, in seconds
}

// simulationJSON is the JSON of a simulation.
type simulationJSON struct {
	Pattern   string        `json:"pattern"`
	Complete  bool          `json:"complete"`            // false after an interrupt
	Limits    []callersJSON `json:"limits"`              // the smallest first
	Decisions []stepJSON    `json:"decisions,omitempty"` // with --each
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
		o := simulate.Options{Limits: []simulate.Limit{l}, Cost: f.cost()}
		o.Watch = f.watch(&levels, &result)
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
		outcomeJSON: newOutcomeJSON(o), Callers: s.Callers, Attempts: s.Attempts, Served: s.Served,
		TooLate: s.TooLate, GaveUp: s.GaveUp, Busiest: s.Busiest, Through: s.Through, LongestWait: s.Longest.Seconds(),
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
	return a.savePicture(f.plot, levels.Picture("brim simulate "+limitText(l), l, until, 0))
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
	if f.each {
		if err := a.printTables(f.decisions(result.Decisions)); err != nil {
			return err
		}
		fmt.Fprintln(a.stdout)
	}
	atRate := ""
	if f.pattern.Rate > 0 {
		atRate = fmt.Sprintf(", at %s per second", units(f.pattern.Rate))
	}
	fmt.Fprintf(a.stdout, "%d callers, %s%s%s\n\n", result.Limits[0].Callers, f.shape, atRate, soFar)
	columns := []table.Column{
		table.Right("CAPACITY"), table.Right("LEAK RATE"), table.Right("ATTEMPTS"), table.Right("REFUSED"),
		table.Right("SHARE"), table.Right("SERVED"), table.Right("GAVE UP"), table.Right("MEAN WAIT"),
		table.Right("LONGEST"), table.Right("BUSIEST SECOND"), table.Right("THROUGH"),
	}
	const late = 6 // the place of a column that only --timeout adds
	if f.timeout > 0 {
		columns = slices.Insert(columns, late, table.Right("TOO LATE"))
	}
	t := table.New(columns...)
	for i := range result.Limits {
		l := &result.Limits[i]
		seconds := func(s float64) string { return span(time.Duration(s * float64(time.Second)).Round(time.Microsecond)) }
		cells := []string{
			units(l.Capacity), units(l.LeakRate) + "/s", fmt.Sprint(l.Attempts), fmt.Sprint(l.Refused),
			percent(l.RefusedShare), fmt.Sprint(l.Served), fmt.Sprint(l.GaveUp), seconds(l.MeanWait),
			seconds(l.LongestWait), fmt.Sprint(l.Busiest), fmt.Sprint(l.Through),
		}
		if f.timeout > 0 {
			cells = slices.Insert(cells, late, fmt.Sprint(l.TooLate))
		}
		t.Add(cells...)
	}
	return a.printTables(t)
}
