// Command peers measures brim beside its peers and beside bare references to its backends. All of
// them take turns in one run.
//
//	go run ./peers -out results
//
// The command starts the servers that it needs, PostgreSQL and Redis, and stops them at the end.
// It skips a subject whose server is missing, and reports that. It writes results.json and
// results.md into the output directory, and prints the figures that brim is required to reach.
// internal/draw makes pictures of results.md.
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
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout, os.Stderr); err != nil {
		if !errors.Is(err, flag.ErrHelp) {
			fmt.Fprintln(os.Stderr, "peers:", err)
		}
		stop()
		os.Exit(1)
	}
}

// options are the command line.
type options struct {
	out, dir, only, cell string
	quick, large         bool
}

func parse(args []string, stderr io.Writer) (*options, error) {
	var o options
	flags := flag.NewFlagSet("peers", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.StringVar(&o.out, "out", "results", "directory for results.json and results.md; it is created")
	flags.StringVar(&o.dir, "dir", "",
		"directory for the files of bbolt and Redis; the default is the system's directory for temporary files")
	flags.StringVar(&o.only, "only", "",
		"measure only subjects whose names contain one of these words, with commas between, and their references")
	flags.StringVar(&o.cell, "cell", "",
		"measure only the cells whose names contain this text, such as \"hot, 64 callers\", and nothing else")
	flags.BoolVar(&o.quick, "quick", false,
		"measure for two minutes instead of fourteen, as a first look; too short to judge by")
	flags.BoolVar(&o.large, "large", false,
		"measure growth up to 10^7 buckets, which takes some more gigabytes and minutes")
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	if flags.NArg() > 0 {
		return nil, fmt.Errorf("%q is not an option; see -help", flags.Arg(0))
	}
	return &o, nil
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) (err error) {
	o, err := parse(args, stderr)
	if err != nil {
		return err
	}
	subjects, err := choose(slices.Concat(brims(), references(), naives(), memoryPeers(), redisPeers()), o.only)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(o.out, 0o755); err != nil {
		return err
	}
	e, err := newEnv(o.dir, stderr)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, e.close()) }()
	all := cells(runtime.GOMAXPROCS(0), o.quick)
	chosen := slices.DeleteFunc(slices.Clone(all), func(c cell) bool { return !strings.Contains(c.String(), o.cell) })
	if len(chosen) == 0 {
		return fmt.Errorf("no cell has a name that contains %q; the cells are: %s", o.cell, joined(all))
	}
	r, err := e.measure(ctx, newPlan(o.quick, o.large), chosen, subjects, o.cell == "")
	if err != nil {
		return err
	}
	if err := r.write(o.out); err != nil {
		return err
	}
	e.say("written to %s", o.out)
	_, err = io.WriteString(stdout, r.figureTable())
	return err
}

// joined lists the names of cells.
func joined(all []cell) string {
	var names []string
	for _, c := range all {
		names = append(names, strconv.Quote(c.String()))
	}
	return strings.Join(names, ", ")
}

// measure opens the subjects and measures them in the cells. If whole is set, it also makes the
// measurements that are not cells.
func (e *env) measure(ctx context.Context, p plan, all []cell, subjects []*subject,
	whole bool,
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
	for i, c := range all {
		e.say("%s (%d of %d)", c, i+1, len(all))
		done, err := e.runCell(ctx, p, c, open)
		if err != nil {
			return nil, err
		}
		r.Measured = append(r.Measured, done...)
	}
	if whole {
		err = e.measureRest(ctx, p, r, open)
	}
	if err != nil {
		return nil, err
	}
	r.check(runtime.GOMAXPROCS(0))
	return r, nil
}

// measureRest makes the measurements that are not cells.
func (e *env) measureRest(ctx context.Context, p plan, r *results, open []*opened) (err error) {
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
		if r.Storage, err = e.runStorage(ctx, p); err != nil {
			return err
		}
	}
	r.Growth, err = e.runGrowth(ctx, p, func(name string) bool { return named(name) != nil })
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
