// Command peers measures brim beside its peers and beside bare references to its backends. All of
// them take turns in one run.
//
//	go run ./peers -out results
//
// The command starts the servers that it needs, PostgreSQL and Redis, and stops them at the end.
// It skips a subject whose server is missing, and reports that. It writes results.json and
// results.md into the output directory, and prints the latter.
// internal/draw makes pictures of results.md.
//
// A run has these parts, in this order; -part chooses some of them:
//
//   - cells: decisions per second of all subjects in each workload
//   - details: units admitted beyond the limit, first inserts, the growth of a hot key's table
//   - latency: answer times of all subjects in a closed and in an open loop, for -latency each
//   - growth: brim's backends with ever more buckets; -large goes on to 10^7
//   - sustained: brim bolt and its references, for -sustained each or until the journal was rotated
//     twice
//
// An interrupt ends the run, and the part that was done is written. A second one ends it at once.
//
// With -check FILE the command measures for three minutes and compares the ratios with those of
// FILE, the results.json of another run. It exits with status 1 if a ratio is below 0.85 of that
// and below the ratio of every round of it.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/brimgo/brim/internal/duration"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the program at once
	if err := run(ctx, os.Args[1:], os.Stdout, os.Stderr); err != nil {
		if !errors.Is(err, flag.ErrHelp) {
			fmt.Fprintln(os.Stderr, "peers:", err)
		}
		os.Exit(1)
	}
}

// The names of the parts of a run.
const (
	cellsPart, detailsPart, latencyPart = "cells", "details", "latency"
	growthPart, sustainedPart           = "growth", "sustained"
)

// parts are all parts of a run, in their order.
var parts = []string{cellsPart, detailsPart, latencyPart, growthPart, sustainedPart}

// options are the command line.
type options struct {
	out, dir, only, cell, check string
	parts                       []string
	plan                        plan
}

func parse(args []string, stderr io.Writer) (*options, error) {
	var o options
	var quick, large bool
	var part string
	var latency, sustained duration.Value
	flags := flag.NewFlagSet("peers", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.StringVar(&o.out, "out", "results", "directory for results.json and results.md; it is created")
	flags.StringVar(&o.dir, "dir", "",
		"directory for the files of bbolt; the default is the system's directory for temporary files")
	flags.StringVar(&o.only, "only", "",
		"measure only subjects whose names contain one of these words, with commas between, and their references")
	flags.StringVar(&part, "part", "",
		"measure only these parts, with commas between: "+strings.Join(parts, ", "))
	flags.StringVar(&o.cell, "cell", "",
		"measure only the cells whose names contain this text, such as \"hot, 64 callers\", and nothing else")
	flags.BoolVar(&quick, "quick", false,
		"measure for some minutes instead of an hour and a half, as a first look; too short to judge by")
	flags.BoolVar(&large, "large", false,
		"measure growth up to 10^7 buckets, which takes some more gigabytes and minutes")
	flags.Var(&latency, "latency", "length of all turns of a subject in each loop of the part latency; "+
		"the default is 1m, and 1s with -quick")
	flags.Var(&sustained, "sustained", "length of all turns of a subject in each workload of the part sustained; "+
		"the default is 1m, and 3s with -quick")
	flags.StringVar(&o.check, "check", "",
		"compare the ratios of a run of three minutes with those in this results.json, and fail if one is lower")
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	if flags.NArg() > 0 {
		return nil, fmt.Errorf("%q is not an option; see -help", flags.Arg(0))
	}
	o.plan = newPlan(quick, large)
	if latency > 0 {
		o.plan.Latency = latency.Std()
	}
	if sustained > 0 {
		o.plan.Sustained = sustained.Std()
	}
	o.plan.apart = o.check != ""
	return &o, o.choose(part)
}

// choose sets the parts of the run.
func (o *options) choose(list string) error {
	switch {
	case o.cell != "" && o.check != "":
		return errors.New("-check and -cell exclude each other")
	case list != "" && (o.cell != "" || o.check != ""):
		return errors.New("-part excludes -cell and -check, which measure cells alone")
	case o.cell != "" || o.check != "":
		o.parts = parts[:1]
	case list == "":
		o.parts = parts
	default:
		for name := range strings.SplitSeq(list, ",") {
			if name = strings.TrimSpace(name); !slices.Contains(parts, name) {
				return fmt.Errorf("there is no part %q; the parts are: %s", name, strings.Join(parts, ", "))
			}
			o.parts = append(o.parts, name)
		}
	}
	return nil
}

// cells returns the workloads that the options choose.
func (o *options) cells(cores int) ([]cell, error) {
	if o.check != "" {
		return checkedCells(cores), nil
	}
	all := cells(cores, o.plan.Quick)
	wanted := slices.DeleteFunc(slices.Clone(all), func(c cell) bool { return !strings.Contains(c.String(), o.cell) })
	if len(wanted) == 0 {
		return nil, fmt.Errorf("no cell has a name that contains %q; the cells are: %s", o.cell, joined(all))
	}
	return wanted, nil
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	o, err := parse(args, stderr)
	if err != nil {
		return err
	}
	chosen, err := choose(subjects(), o.only)
	if err != nil {
		return err
	}
	wanted, err := o.cells(runtime.GOMAXPROCS(0))
	if err != nil {
		return err
	}
	var kept *results
	if o.check != "" {
		if kept, err = readKept(o.check); err != nil {
			return err
		}
		chosen = withReferences(chosen)
	}
	r, err := measureAndWrite(ctx, o, wanted, chosen, stderr)
	if err != nil {
		return err
	}
	text := r.markdown()
	if kept != nil {
		named := func(name string) bool {
			return slices.ContainsFunc(chosen, func(s *subject) bool { return s.name == name })
		}
		text, err = compare(kept, r, wanted, func(name string) bool { return o.only == "" || named(name) })
	}
	_, printErr := io.WriteString(stdout, text)
	return errors.Join(err, printErr)
}

// measureAndWrite measures, and writes the results. After an error it writes the part that was
// done.
func measureAndWrite(ctx context.Context, o *options, wanted []cell, chosen []*subject, stderr io.Writer,
) (r *results, err error) {
	if err := os.MkdirAll(o.out, 0o755); err != nil {
		return nil, err
	}
	e, err := newEnv(o.dir, stderr)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, e.close()) }()
	r, err = e.measure(ctx, o.plan, wanted, chosen, o.parts)
	if r == nil {
		return nil, err
	}
	if writeErr := r.write(o.out); writeErr != nil {
		return nil, errors.Join(err, writeErr)
	}
	if err != nil {
		return nil, fmt.Errorf("%w; the part that was done is in %s", err, o.out)
	}
	e.say("written to %s", o.out)
	return r, nil
}

// subjects returns all subjects.
func subjects() []*subject {
	return slices.Concat(brims(), redisBrims(), references(), naives(), memoryPeers(), redisPeers())
}

// joined lists the names of cells.
func joined(all []cell) string {
	var names []string
	for _, c := range all {
		names = append(names, strconv.Quote(c.String()))
	}
	return strings.Join(names, ", ")
}

// measure opens the subjects and measures the given parts. all are the cells of the first part.
// After an error the results have the part that was done; they are nil if nothing was done.
func (e *env) measure(ctx context.Context, p plan, all []cell, subjects []*subject, parts []string,
) (r *results, err error) {
	open, skipped, err := e.open(ctx, subjects)
	defer func() { err = errors.Join(err, closeAll(open)) }()
	if err != nil {
		return nil, err
	}
	// A request brings its own copy of a key. If a map gets the string that it stores, it
	// compares only the address and does not read the string.
	e.name()
	r = &results{Plan: p, Subjects: infos(open), Skipped: skipped}
	if r.Machine, err = e.describe(ctx); err != nil {
		return nil, err
	}
	for _, part := range parts {
		if err = e.measurePart(ctx, p, part, r, all, open); err != nil {
			r.Ended = err.Error()
			break
		}
	}
	if r.empty() {
		r = nil
	}
	return r, err
}

// measurePart measures one part of a run.
func (e *env) measurePart(ctx context.Context, p plan, part string, r *results, all []cell, open []*opened) (err error) {
	wanted := func(name string) bool {
		return slices.ContainsFunc(open, func(s *opened) bool { return s.name == name })
	}
	switch part {
	case cellsPart:
		for i, c := range all {
			e.say("%s (%d of %d)", c, i+1, len(all))
			done, err := e.runCell(ctx, p, c, open)
			if err != nil {
				return err
			}
			r.Measured = append(r.Measured, done...)
		}
	case detailsPart:
		return e.measureDetails(ctx, p, r, open)
	case latencyPart:
		r.Latencies, err = e.runLatency(ctx, p, open, r.largestRate)
	case growthPart:
		r.Growth, r.LeftOut, err = e.runGrowth(ctx, p, wanted)
	case sustainedPart:
		if wanted(boltName) {
			r.Sustained, err = e.runSustained(ctx, p)
		}
	}
	return err
}

// measureDetails makes the measurements that only some of the subjects take part in.
func (e *env) measureDetails(ctx context.Context, p plan, r *results, open []*opened) (err error) {
	named := func(name string) *opened {
		if i := slices.IndexFunc(open, func(s *opened) bool { return s.name == name }); i >= 0 {
			return open[i]
		}
		return nil
	}
	if r.Rushes, err = e.runRushes(ctx, p, open); err != nil {
		return err
	}
	if s := named(refusalsName); s != nil {
		n, err := allocations(ctx, s)
		if err != nil {
			return err
		}
		r.RefusedAllocations = &n
	}
	if update := named(updateName); update != nil && named(postgresName) != nil {
		e.say("first inserts")
		if r.Firsts, err = e.runFirsts(ctx, p, update); err != nil {
			return err
		}
		e.say("a hot key's table")
		r.Storage, err = e.runStorage(ctx, p)
	}
	return err
}

// write writes all files of the results.
func (r *results) write(dir string) error {
	b, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	files := map[string]string{"results.json": string(b) + "\n", "results.md": r.markdown()}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644); err != nil {
			return err
		}
	}
	return nil
}
