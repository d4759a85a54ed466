package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/brimgo/brim"
	"github.com/brimgo/brim/cmd/brim/internal/replay"
	"github.com/brimgo/brim/cmd/brim/internal/scratch"
	"github.com/brimgo/brim/cmd/brim/internal/trace"
	"github.com/brimgo/brim/internal/table"
)

// replayFlags are the flags of replay.
type replayFlags struct {
	limit     brim.Limit
	over      time.Duration // 0 without --over
	key, cost string
	top       int
	keep      bool
}

func (a *app) replayCommand() *cobra.Command {
	var f replayFlags
	fields := strings.Join(trace.LogFields(), ", ")
	cmd := &cobra.Command{
		Use:   "replay LOG --capacity C (--leak-rate R | --over D)",
		Short: "Run an access log or a trace through buckets",
		Long: `Runs the requests of LOG through buckets, and shows how many a limit would have refused, and of
which keys. LOG is a file, or - for stdin, plain or compressed with gzip, in one of these formats:

  access logs in NCSA common or combined format; --key names the field that is the key:
    ` + fields + `
  CSV whose first line names the columns, in any order: time, key and, if costs differ, cost
  JSON lines with the members time, key and, if costs differ, cost

In CSV and JSON lines, times are RFC 3339 or seconds since 1970, and --key may name another column
or member.

The times of the log are the clock, so a replay always gives the same answer. A line that is older
than an earlier line with the same key is decided at the time of that earlier line. Lines that are
not requests are counted, and the first few named.

replay decides in memory unless --store is given; BRIM_STORE does not count. In a store, its keys
have a prefix of their own, which begins with brim-replay/, so that it does not touch live
buckets. It removes its keys at the end unless --keep is given. It makes many decisions per
commit.

Exit status: 0, however many requests were refused; 65 if LOG cannot be read, or contains no
request.`,
		Example: `  brim replay access.log.gz --capacity 60 --over 1m
  brim replay access.log --capacity 100000000 --over 24h --key user --cost bytes
  tail -n 10000 access.log | brim replay - --capacity 5 --leak-rate 0.1 --store limits.db --json`,
		Args: exactArgs("LOG"),
	}
	limit := addLimit(cmd)
	cmd.Flags().StringVar(&f.key, "key", "", "field that is the key (default host; for CSV and JSON lines, key)")
	cmd.Flags().StringVar(&f.cost, "cost", "",
		"cost of a request: a number, or bytes for the size of the response (default: the cost column, or 1)")
	cmd.Flags().IntVar(&f.top, "top", 10, "number of the most refused keys to show")
	cmd.Flags().BoolVar(&f.keep, "keep", false, "leave the buckets in the store")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		l, err := limit.limit()
		if err != nil {
			return err
		}
		if f.keep && !cmd.Flags().Changed("store") {
			return usagef("--keep needs --store; without --store, replay decides in memory")
		}
		if f.top < 0 {
			return usagef("--top is %d; it must be 0 or more", f.top)
		}
		o := trace.Options{Key: f.key}
		if f.cost != "" {
			if o.Cost, err = trace.ParseCost(f.cost); err != nil {
				return usageError{err}
			}
		}
		if !cmd.Flags().Changed("store") {
			a.store = "memory:"
		}
		f.limit = l
		if cmd.Flags().Changed("over") {
			f.over = limit.over.Std()
		}
		return a.replay(cmd.Context(), args[0], o, f)
	}
	return cmd
}

// replay runs the log through buckets, and prints the report.
func (a *app) replay(ctx context.Context, path string, o trace.Options, f replayFlags) error {
	in, err := a.input(path)
	if err != nil {
		return err
	}
	defer in.close()
	r, err := trace.NewReader(in, o)
	if err != nil {
		return in.explain(err, nil)
	}
	var rep *replay.Report
	clock := new(replay.Clock)
	err = a.with(ctx, opening{clock: clock.Now}, func(s *opened, _ *brim.Limiter) (err error) {
		prefix, err := scratch.Prefix(ctx, s, "brim-replay")
		if err != nil {
			return err
		}
		defer func() {
			if f.keep && err == nil {
				fmt.Fprintf(a.stderr, "brim: the buckets stay in the store; their keys begin with %s\n", prefix)
			} else if e := scratch.Remove(ctx, s, prefix); err == nil {
				err = e
			}
		}()
		p := a.progress("replay")
		defer p.end()
		rep, err = replay.Run(ctx, r, replay.Options{
			Store: s, Update: s.update, Clock: clock, Limit: f.limit, Over: f.over, Cost: o.Cost.Units,
			Prefix: prefix, Keep: f.keep, Top: f.top,
			Progress: func(lines int64) { p.set(in.share(), fmt.Sprintf("%d lines", lines)) },
		})
		return err
	})
	if rep != nil {
		in.nameBad(a.stderr, rep)
	}
	if err != nil {
		return in.explain(err, rep)
	}
	if a.json {
		return a.printJSON(rep)
	}
	return a.describeReplay(rep)
}

// describeReplay prints a report as tables.
func (a *app) describeReplay(rep *replay.Report) error {
	t := table.New(table.Right(""), table.Left(""))
	share := func(n int64) string { return fmt.Sprintf("%.1f%%", 100*float64(n)/float64(rep.Requests)) }
	t.Add(fmt.Sprint(rep.Requests), fmt.Sprintf("requests by %d keys", rep.Keys))
	t.Add(fmt.Sprint(rep.Accepted),
		fmt.Sprintf("accepted, %s, with %s units", share(rep.Accepted), units(rep.UnitsAccepted)))
	t.Add(fmt.Sprint(rep.Refused), fmt.Sprintf("refused, %s", share(rep.Refused)))
	t.Add(fmt.Sprint(rep.Unparsed), "lines that are not requests")
	t.Add(fmt.Sprintf("%.0f", rep.DecisionsPerSecond), fmt.Sprintf("decisions per second, for %.3f s", rep.Seconds))
	top := table.New(table.Right("REFUSED"), table.Right("ACCEPTED"), table.Left("KEY"))
	for _, k := range rep.TopRefused {
		top.Add(fmt.Sprint(k.Refused), fmt.Sprint(k.Accepted), printable(k.Key))
	}
	return a.printTables(t, top)
}
