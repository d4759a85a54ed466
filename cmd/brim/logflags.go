package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/brimgo/brim/cmd/brim/internal/simulate"
	"github.com/brimgo/brim/cmd/brim/internal/trace"
	"github.com/brimgo/brim/internal/duration"
)

// logFlags are the flags of commands that read a log.
type logFlags struct {
	key, time string
	cost      string
	maxKeys   int
	reorder   duration.Value
	again     bool // a log that --reorder does not sort is read again, with a longer one
}

// defaultReorder is the default of --reorder.
const defaultReorder = duration.Value(10 * time.Minute)

// mostLate is the share of late lines above which a report is doubtful.
const mostLate = 0.001

// addLog adds the flags. maxKeys is the default of --max-keys.
func addLog(cmd *cobra.Command, maxKeys int) *logFlags {
	f := &logFlags{reorder: defaultReorder}
	cmd.Flags().StringVar(&f.key, "key", "", "field that is the key (default host; for CSV and JSON lines, key)")
	cmd.Flags().StringVar(&f.time, "time", "",
		"field that is the time (default time); in access logs, start is the time at which a request began")
	cmd.Flags().StringVar(&f.cost, "cost", "",
		"cost of a request: a number, or bytes for the size of the response (default: the cost column, or 1)")
	cmd.Flags().Var(&f.reorder, "reorder", "time for which a line waits for older lines that come after it; 0s takes the lines as they come")
	cmd.Flags().Lookup("reorder").DefValue = "10m"
	cmd.Flags().IntVar(&f.maxKeys, "max-keys", maxKeys, "end before the first key beyond this number, which bounds the memory")
	return f
}

// options returns the options that the flags set.
func (f *logFlags) options() (o trace.Options, err error) {
	if f.maxKeys < 1 {
		return o, usagef("--max-keys is %d; it must be 1 or more", f.maxKeys)
	}
	if f.reorder < 0 {
		return o, usagef("--reorder is %v; it must be 0 or more", f.reorder.Std())
	}
	o.Key, o.Time = f.key, f.time
	if f.cost != "" {
		if o.Cost, err = trace.ParseCost(f.cost); err != nil {
			return o, usagef("--cost: %w", err)
		}
	}
	return o, nil
}

// runLog runs the log at path through limits. decide is [simulate.Run], or a function that calls
// it. show prints the report; runLog calls it also if only a part of the log was decided, and not
// if no request was.
func (a *app) runLog(
	ctx context.Context, label, path string, f *logFlags, o simulate.Options,
	decide func(context.Context, simulate.Source, simulate.Options) (*simulate.Report, error),
	show func(*simulate.Report, *trace.Reader) error,
) error {
	options, err := f.options()
	if err != nil {
		return err
	}
	in, err := a.input(ctx, path)
	if err != nil {
		return err
	}
	defer in.close()
	r, err := trace.NewReader(in, options)
	if err != nil {
		return in.explain(err, nil)
	}
	p := a.progress(label)
	defer p.end()
	o.Cost, o.MaxKeys, o.Reorder = options.Cost.Units, f.maxKeys, f.reorder.Std()
	o.Progress = func(lines int64) { p.set(in.share(), count(lines, "line")) }
	rep, err := decide(ctx, r, o)
	p.end()
	if f.again && err == nil && f.late(rep) && !rep.Disorder.Full && in.size > 0 {
		f.again, f.reorder = false, duration.Value(f.sorting(rep))
		fmt.Fprintf(a.stderr, "brim: %s: lines out of order: %d; --reorder %s sorts them\n", in.name, rep.Disorder.Lines, short(f.reorder.Std()))
		return a.runLog(ctx, label, path, f, o, decide, show)
	}
	if rep != nil && rep.Requests > 0 {
		if epoch := r.Epoch(); epoch != "" && epoch != "seconds" {
			fmt.Fprintf(a.stderr, "brim: %s: the times are read as %s since 1970\n", in.name, epoch)
		}
		in.nameBad(a.stderr, rep)
		switch {
		case f.late(rep) && rep.Disorder.Full:
			fmt.Fprintf(a.stderr, "brim: %s: lines that came after newer ones, and count too late: %d; --reorder %s holds back more than %d lines; "+
				"sort the log by time\n", in.name, rep.Disorder.Late, short(f.reorder.Std()), simulate.MaxWaiting)
		case f.late(rep):
			fmt.Fprintf(a.stderr, "brim: %s: lines that came more than %s after newer ones, and count too late: %d; --reorder %s sorts all lines\n",
				in.name, short(f.reorder.Std()), rep.Disorder.Late, short(f.sorting(rep)))
		}
		if e := show(rep, r); err == nil {
			err = e
		}
	}
	return in.explain(err, rep)
}

// late reports whether so many lines came too late to be sorted that the report is doubtful.
func (f *logFlags) late(rep *simulate.Report) bool {
	return float64(rep.Disorder.Late) > mostLate*float64(rep.Requests)
}

// sorting returns the --reorder that sorts all lines, in whole seconds.
func (f *logFlags) sorting(rep *simulate.Report) time.Duration {
	return (rep.Disorder.Most + time.Second - 1).Truncate(time.Second)
}

// logJSON are the members that describe a log, in the JSON of every command that reads one.
type logJSON struct {
	Format   string  `json:"format"`
	TimeUnit *string `json:"time_unit"`    // of times that are numbers since 1970; null for other times
	Disorder int64   `json:"out_of_order"` // lines that are older than a line before them
	Late     int64   `json:"late"`         // those of them that came more than --reorder late
}

func newLogJSON(rep *simulate.Report, r *trace.Reader) logJSON {
	l := logJSON{Format: r.Format(), Disorder: rep.Disorder.Lines, Late: rep.Disorder.Late}
	if epoch := r.Epoch(); epoch != "" {
		l.TimeUnit = &epoch
	}
	return l
}

// soFar marks the report of a part of a log.
func soFar(rep *simulate.Report) string {
	if rep.Complete {
		return ""
	}
	return ", in the part of the log that was decided"
}

// text writes the flags that choose the requests of the log.
func (f *logFlags) text() string {
	s := ""
	for _, flag := range []struct{ name, value string }{{"key", f.key}, {"time", f.time}, {"cost", f.cost}} {
		if flag.value != "" {
			s += " --" + flag.name + " " + quoteArg(flag.value)
		}
	}
	if f.reorder != defaultReorder {
		s += " --reorder " + short(f.reorder.Std())
	}
	return s
}

// quoteArg quotes an argument for a shell if it needs quotes.
func quoteArg(s string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("._-/:@%+=,", r)
	}
	if s != "" && !strings.ContainsFunc(s, func(r rune) bool { return !plain(r) }) {
		return s
	}
	if oneLine(s) != s { // bash, ksh and zsh read the escapes of Go in $'...'
		return "$'" + strings.ReplaceAll(oneLine(strings.ReplaceAll(s, `\`, `\\`)), "'", `\'`) + "'"
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
