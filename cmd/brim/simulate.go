package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/brimgo/brim/cmd/brim/internal/simulate"
	"github.com/brimgo/brim/internal/duration"
	"github.com/brimgo/brim/internal/table"
)

func (a *app) simulateCommand() *cobra.Command {
	f := &simulateFlags{length: duration.Value(time.Minute)}
	p := &f.pattern
	cmd := newCommand("simulate")
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
	Limits    []callersJSON `json:"limits"`              // one
	Decisions []stepJSON    `json:"decisions,omitempty"` // with --each
}

// simulate runs the pattern through the limit, and prints the result.
func (a *app) simulate(ctx context.Context, l simulate.Limit, f *simulateFlags) error {
	callers, err := simulate.NewCallers(f.pattern)
	if err != nil {
		return usagef("--%w", err)
	}
	result := simulationJSON{Pattern: f.shape}
	var levels simulate.Levels
	p := a.progress("simulate")
	defer p.end()
	o := simulate.Options{Limits: []simulate.Limit{l}, Cost: f.cost()}
	o.Watch = f.watch(&levels, &result)
	o.Progress = func(attempts int64) {
		done := float64(callers.Stats().Last) / float64(f.pattern.Duration)
		p.set(min(1, done), count(attempts, "attempt"))
	}
	rep, err := simulate.Run(ctx, callers, o)
	if err != nil && (rep == nil || ctx.Err() == nil) {
		return err
	}
	p.end()
	result.Complete = err == nil
	result.Limits = []callersJSON{newCallersJSON(&rep.Outcomes[0], callers.Stats())}
	if err := a.describeSimulation(f, &result); err != nil {
		return err
	}
	if f.plot != "" {
		until := max(f.pattern.Duration, callers.Stats().Last)
		if err := a.savePicture(f.plot, levels.Picture("brim simulate "+limitText(l), l, until, 0)); err != nil {
			return err
		}
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

func (a *app) describeSimulation(f *simulateFlags, result *simulationJSON) error {
	if a.json {
		return a.printJSON(result)
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
	l := &result.Limits[0]
	fmt.Fprintf(a.stdout, "%s, %s%s%s\n\n", count(l.Callers, "caller"), f.shape, atRate, soFar)
	seconds := func(s float64) string { return span(time.Duration(s * float64(time.Second)).Round(time.Microsecond)) }
	t := table.New(table.Left(""), table.Right(""))
	t.Add("capacity", units(l.Capacity))
	t.Add("leak rate", units(l.LeakRate)+"/s")
	t.Add("attempts", fmt.Sprint(l.Attempts))
	t.Add("refused", fmt.Sprint(l.Refused))
	t.Add("share refused", percent(l.RefusedShare))
	t.Add("callers served", fmt.Sprint(l.Served))
	if f.timeout > 0 {
		t.Add("of them too late", fmt.Sprint(l.TooLate))
	}
	t.Add("gave up", fmt.Sprint(l.GaveUp))
	t.Add("mean wait", seconds(l.MeanWait))
	t.Add("longest wait", seconds(l.LongestWait))
	t.Add("most attempts in a second", fmt.Sprint(l.Busiest))
	t.Add("most served in a second", fmt.Sprint(l.Through))
	return a.printTables(t)
}
