package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/brimgo/brim"
	"github.com/brimgo/brim/cmd/brim/internal/simulate"
	"github.com/brimgo/brim/cmd/brim/internal/trace"
	"github.com/brimgo/brim/internal/duration"
	"github.com/brimgo/brim/internal/table"
)

// maxSizes is the largest number of limits that size compares.
const maxSizes = 200

// sizeMaxKeys is the default of --max-keys. In the default list a million keys took 1.7 GB.
const sizeMaxKeys = 1_000_000

// sizeFlags are the flags of size.
type sizeFlags struct {
	log      *logFlags
	refuse   fraction
	leakRate number
	over     duration.Value
	timeout  duration.Value
	from, to number
	plot     string
	cmd      *cobra.Command
}

func (a *app) sizeCommand() *cobra.Command {
	f := &sizeFlags{refuse: 0.01, over: duration.Value(time.Minute)}
	cmd := newCommand("size")
	cmd.Args = mostArgs(1)
	f.cmd, f.log = cmd, addLog(cmd, sizeMaxKeys)
	cmd.Flags().Var(&f.refuse, "refuse", "largest share of refused requests, like 1% or 0.01")
	cmd.Flags().Var(&f.over, "over", "time in which every full bucket drains, like 90s, 15m, 24h or 30d")
	cmd.Flags().Lookup("over").DefValue = "1m"
	cmd.Flags().Var(&f.leakRate, "leak-rate", "instead of --over: units per second that every bucket leaks")
	cmd.Flags().Lookup("leak-rate").DefValue = ""
	cmd.Flags().Var(&f.timeout, "timeout", "longest time that callers wait in a queue, like 500ms or 3s")
	cmd.Flags().Lookup("timeout").DefValue = ""
	cmd.Flags().Var(&f.from, "from", "smallest capacity on the list (default 1; 1000 for a cost in bytes)")
	cmd.Flags().Var(&f.to, "to", "largest capacity on the list (default a million times --from)")
	cmd.Flags().Lookup("from").DefValue, cmd.Flags().Lookup("to").DefValue = "", ""
	cmd.Flags().StringVar(&f.plot, "plot", "", "file to write a picture to, as SVG")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := f.check(len(args) > 0); err != nil {
			return err
		}
		f.log.again = !cmd.Flags().Changed("reorder")
		if err := checkPicture(f.plot); err != nil {
			return err
		}
		if len(args) == 0 {
			return a.sizeByTimeout(brim.Smooth(float64(f.leakRate), f.timeout.Std()))
		}
		limits, err := f.limits()
		if err != nil {
			return err
		}
		return a.size(cmd.Context(), args[0], f, limits)
	}
	return cmd
}

// check returns an error if the flags contradict each other.
func (f *sizeFlags) check(log bool) error {
	set := f.cmd.Flags().Changed
	switch {
	case set("over") && set("leak-rate"):
		return usagef("give one of --leak-rate and --over, not both")
	case set("timeout") && f.timeout <= 0:
		return usagef("--timeout is %v; it must be positive", f.timeout.Std())
	case !log && !(set("leak-rate") && set("timeout")):
		return usagef("LOG is missing; without LOG, size needs --leak-rate and --timeout")
	case f.over <= 0:
		return usagef("--over is %v; it must be positive", f.over.Std())
	case set("leak-rate") && !(f.leakRate >= 0):
		return usagef("--leak-rate is %v; it must be 0 or more", float64(f.leakRate))
	case !set("leak-rate") && set("timeout") && f.timeout < f.over:
		return usagef("--timeout is %v, and every limit on the list drains in --over %v; choose --over %[1]v or less",
			f.timeout.Std(), f.over.Std())
	}
	return nil
}

// limits returns the list of limits, the smallest first.
func (f *sizeFlags) limits() ([]simulate.Limit, error) {
	set := f.cmd.Flags().Changed
	from, to := float64(f.from), float64(f.to)
	if !set("from") {
		from = 1
		if f.log.cost == "bytes" {
			from = 1000
		}
	}
	if !set("to") {
		to = min(from*1e6, 1<<53)
	}
	if !(from > 0 && from <= to) {
		return nil, usagef("--from is %v and --to is %v; --from must be positive and at most --to", from, to)
	}
	limit := simulate.Limit{Over: f.over.Std()}
	deepest := 0.0
	if set("leak-rate") {
		limit = simulate.Limit{Limit: brim.Limit{LeakRate: float64(f.leakRate)}}
		if set("timeout") {
			deepest = brim.Smooth(limit.LeakRate, f.timeout.Std()).Capacity
			to = min(to, deepest)
		}
	}
	if from > to {
		return nil, usagef("--from is %v, and a queue that drains within --timeout holds %v; choose a smaller --from", from, to)
	}
	capacities := simulate.Capacities(from, to)
	if n := len(capacities); deepest > 0 && to == deepest && (n == 0 || capacities[n-1] < deepest) {
		capacities = append(capacities, deepest)
	}
	if len(capacities) == 0 {
		return nil, usagef("--from and --to: there is no round capacity from %v to %v; choose bounds further apart", from, to)
	}
	if len(capacities) > maxSizes {
		return nil, usagef("--from and --to: the list from %v to %v has %s; choose bounds with at most %d", from, to,
			count(len(capacities), "limit"), maxSizes)
	}
	limits := limit.With(capacities)
	for _, l := range limits {
		if err := l.Validate(); err != nil {
			return nil, usageError{err}
		}
	}
	return limits, nil
}

// sizeJSON is the JSON of size.
type sizeJSON struct {
	Refuse float64 `json:"refuse"` // the share that may be refused, from 0 to 1
	sweepJSON
	Limit *outcomeJSON `json:"limit"` // the smallest that refuses so few; null if none does
}

// size runs the log through the list, and prints the list with the smallest limit that suffices.
func (a *app) size(ctx context.Context, path string, f *sizeFlags, limits []simulate.Limit) error {
	found := -1
	o := simulate.Options{Limits: limits}
	err := a.runLog(ctx, "size", path, f.log, o, simulate.Run, func(rep *simulate.Report, log *trace.Reader) error {
		found = simulate.Smallest(rep.Outcomes, float64(f.refuse))
		if err := a.describeSize(path, f, rep, log, found); err != nil || f.plot == "" {
			return err
		}
		title := fmt.Sprintf("brim size --refuse %v: refused requests by capacity", &f.refuse)
		return a.savePicture(f.plot, simulate.SharePicture(title, rep.Outcomes, float64(f.refuse)))
	})
	if err == nil && found < 0 {
		fmt.Fprintf(a.stderr, "brim: every limit on the list refuses more than %v of the requests; %s\n",
			&f.refuse, f.remedy(limits))
		return status(exitBroken)
	}
	return err
}

// remedy tells how to get a list with larger limits.
func (f *sizeFlags) remedy(limits []simulate.Limit) string {
	largest := limits[len(limits)-1]
	if f.cmd.Flags().Changed("timeout") && f.cmd.Flags().Changed("leak-rate") {
		return "choose a larger --leak-rate, a longer --timeout or a larger --to"
	}
	return fmt.Sprintf("choose a --to above %s, or a larger --refuse", units(largest.Capacity))
}

func (a *app) describeSize(path string, f *sizeFlags, rep *simulate.Report, log *trace.Reader, found int) error {
	if a.json {
		s := sizeJSON{Refuse: float64(f.refuse), sweepJSON: newSweepJSON(rep, log)}
		if found >= 0 {
			s.Limit = &s.Limits[found]
		}
		return a.printJSON(s)
	}
	if err := a.describeSweep(rep, log); err != nil || found < 0 {
		return err
	}
	o := &rep.Outcomes[found]
	fmt.Fprintf(a.stdout, "\nThe smallest limit that refuses at most %v is %s: it refuses %s%s.\n", &f.refuse,
		limitText(o.Limit), percent(o.Share()), soFar(rep))
	if found > 0 {
		fmt.Fprintf(a.stdout, "The next smaller limit refuses %s.\n", percent(rep.Outcomes[found-1].Share()))
	}
	_, err := fmt.Fprintf(a.stdout, "\n  brim replay %s %s%s\n", quoteArg(path), limitText(o.Limit), f.log.text())
	return err
}

// sizeByTimeout prints the deepest queue that drains within the timeout.
func (a *app) sizeByTimeout(l brim.Limit) error {
	if err := l.Validate(); err != nil {
		return usagef("--leak-rate times --timeout: %w", err)
	}
	if a.json {
		return a.printJSON(struct {
			Capacity float64 `json:"capacity"`
			LeakRate float64 `json:"leak_rate"`
			MaxWait  float64 `json:"max_wait"` // seconds
		}{l.Capacity, l.LeakRate, l.MaxWait().Seconds()})
	}
	t := table.New(table.Left(""), table.Left(""))
	t.Add("capacity", units(l.Capacity)+", or less")
	t.Add("leak rate", units(l.LeakRate)+" per second")
	t.Add("longest wait", span(l.MaxWait()))
	return a.printTables(t)
}

// fraction is the value of a flag: a share from 0 to 1, or a percentage.
type fraction float64

func (s *fraction) Type() string { return "share" }

func (s *fraction) String() string {
	// The product may be a rounding off the number that the caller wrote.
	return strconv.FormatFloat(float64(*s)*100, 'g', 12, 64) + "%"
}

func (s *fraction) Set(text string) error {
	number, isPercent := strings.CutSuffix(text, "%")
	v, err := strconv.ParseFloat(number, 64)
	switch {
	case isPercent:
		v /= 100
	case v == 1:
		return errors.New("may mean 1% or 100%; write the percent sign")
	}
	if err != nil || !(v >= 0 && v <= 1) {
		return errors.New("is not a share from 0 to 1, or from 0% to 100%")
	}
	*s = fraction(v)
	return nil
}
