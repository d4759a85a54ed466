package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/brimgo/brim"
	"github.com/brimgo/brim/cmd/brim/internal/scratch"
	"github.com/brimgo/brim/cmd/brim/internal/simulate"
	"github.com/brimgo/brim/cmd/brim/internal/trace"
	"github.com/brimgo/brim/internal/plot"
	"github.com/brimgo/brim/internal/table"
	"github.com/brimgo/brim/store"
)

// replayFlags are the flags of replay beside the limit.
type replayFlags struct {
	log    *logFlags
	top    int
	keep   bool
	plot   string
	stored bool // --store is given
}

func (a *app) replayCommand() *cobra.Command {
	var f replayFlags
	cmd := newCommand("replay")
	limit := addLimit(cmd)
	f.log = addLog(cmd, simulate.DefaultMaxKeys)
	cmd.Flags().IntVar(&f.top, "top", 10, "number of the most refused keys to show")
	cmd.Flags().BoolVar(&f.keep, "keep", false, "leave the buckets in the store")
	cmd.Flags().StringVar(&f.plot, "plot", "", "file to write a picture to, as SVG")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		l, err := limit.exact()
		if err != nil {
			return err
		}
		f.stored = cmd.Flags().Changed("store")
		switch {
		case f.keep && !f.stored:
			return usagef("--keep needs --store; without --store, replay decides in memory")
		case f.top < 0:
			return usagef("--top is %d; it must be 0 or more", f.top)
		}
		if err := checkPicture(f.plot); err != nil {
			return err
		}
		return a.replay(cmd.Context(), args[0], l, f)
	}
	return cmd
}

// replay runs the log through the buckets of one limit, and prints the report.
func (a *app) replay(ctx context.Context, path string, l simulate.Limit, f replayFlags) error {
	decide := simulate.Run
	if f.stored {
		decide = func(ctx context.Context, src simulate.Source, o simulate.Options) (*simulate.Report, error) {
			return a.runInStore(ctx, src, o, f.keep)
		}
	}
	o := simulate.Options{Limits: []simulate.Limit{l}, Top: f.top}
	var course plot.Timeline
	if f.plot != "" {
		o.Watch = func(e simulate.Event) { course.Add(e.At, e.Accepted) }
	}
	return a.runLog(ctx, "replay", path, f.log, o, decide, func(rep *simulate.Report, log *trace.Reader) error {
		if err := a.describeReplay(rep, log); err != nil || f.plot == "" {
			return err
		}
		return a.savePicture(f.plot, course.Picture("brim replay "+limitText(l), 0))
	})
}

// runInStore runs the arrivals through buckets in the store that --store names.
func (a *app) runInStore(
	ctx context.Context, src simulate.Source, o simulate.Options, keep bool,
) (rep *simulate.Report, err error) {
	clock := new(simulate.Clock)
	err = a.with(ctx, opening{create: true, clock: clock.Now}, func(s *opened, _ *brim.Limiter) (err error) {
		prefix, err := scratch.Prefix(ctx, s, "brim-replay")
		if err != nil {
			return err
		}
		defer func() {
			if keep && err == nil {
				fmt.Fprintf(a.stderr, "brim: the buckets stay in the store; their keys begin with %s\n", prefix)
			} else if e := scratch.Remove(ctx, s, prefix); err == nil {
				err = e
			}
		}()
		o.Store = &simulate.Store{Store: s, Update: updater(s), Clock: clock, Prefix: prefix, Keep: keep}
		rep, err = simulate.Run(ctx, src, o)
		return err
	})
	return rep, err
}

// updater returns the function of the store that commits many decisions together, or nil.
func updater(s *opened) func(context.Context, func(store.Store) error) error {
	switch {
	case s.Bolt != nil:
		return s.Bolt.Update
	case s.Postgres != nil:
		return s.Postgres.Update
	}
	return nil
}

// replayJSON is the JSON of a replay.
type replayJSON struct {
	Requests           int64   `json:"requests"` // accepted or refused
	Accepted           int64   `json:"accepted"`
	Refused            int64   `json:"refused"`
	UnitsAccepted      float64 `json:"units_accepted"`
	Keys               int     `json:"keys"`
	Unparsed           int64   `json:"unparsed"` // lines that are not requests
	Complete           bool    `json:"complete"` // false after an interrupt
	Seconds            float64 `json:"seconds"`  // wall time, with the commits
	DecisionsPerSecond float64 `json:"decisions_per_second"`
	logJSON
	TopRefused []simulate.Refused `json:"top_refused"` // the most refused first
}

// describeReplay prints a report, as tables or as JSON.
func (a *app) describeReplay(rep *simulate.Report, log *trace.Reader) error {
	o := &rep.Outcomes[0]
	seconds := rep.Took.Seconds()
	perSecond := float64(rep.Requests) / max(seconds, 1e-9)
	if a.json {
		return a.printJSON(replayJSON{
			Requests: rep.Requests, Accepted: o.Accepted, Refused: o.Refused, UnitsAccepted: o.UnitsAccepted,
			Keys: rep.Keys, Unparsed: rep.Unparsed, Complete: rep.Complete, Seconds: seconds,
			DecisionsPerSecond: perSecond, logJSON: newLogJSON(rep, log), TopRefused: o.TopRefused,
		})
	}
	t := table.New(table.Right(""), table.Left(""))
	t.Add(fmt.Sprint(rep.Requests), fmt.Sprintf("requests by %s%s", count(rep.Keys, "key"), soFar(rep)))
	t.Add(fmt.Sprint(o.Accepted),
		fmt.Sprintf("accepted, %.1f%%, with %s units", 100*(1-o.Share()), units(o.UnitsAccepted)))
	t.Add(fmt.Sprint(o.Refused), fmt.Sprintf("refused, %.1f%%", 100*o.Share()))
	t.Add(fmt.Sprint(rep.Unparsed), "lines that are not requests")
	if n := rep.Disorder.Lines; n > 0 {
		t.Add(fmt.Sprint(n), fmt.Sprintf("lines out of order, %d of them too late to be sorted", rep.Disorder.Late))
	}
	t.Add(fmt.Sprintf("%.0f", perSecond), fmt.Sprintf("decisions per second, for %.3f s", seconds))
	top := table.New(table.Right("REFUSED"), table.Right("ACCEPTED"), table.Left("KEY"))
	for _, k := range o.TopRefused {
		top.Add(fmt.Sprint(k.Refused), fmt.Sprint(k.Accepted), printable(k.Key))
	}
	return a.printTables(t, top)
}
