// Command bench measures brim beside its peers and beside bare references to its backends.
//
//	go run . [OPTION]... [PART]...
//
// It starts the servers that it needs, PostgreSQL and Redis. Each round has one trial of every
// subject, so other work of the machine weighs on all of them. It prints a Markdown table for each
// workload, and with -out it also writes them to results.md, and every round to results.json. These
// are the parts, the first four of them by default:
//
//   - cells: decisions per second and answer times in each workload
//   - rush: units that a new bucket admits beyond its limit
//   - growth: brim's backends with ever more buckets
//   - sustained: brim bolt for so long that its journal is rotated
//   - leases, refusals: wrappers at full load; the bounds that they promise are checked meanwhile
//   - cluster: a decision on one, two and three primaries of Redis
//   - beside: plain GETs while brim decides on the same Redis, and on another one
//   - spend: decisions of package spend beside bare writes, and declines beside approvals
//   - prune: charges of package spend beside a Prune, and without it
//   - rules: charges of package spend after a rule has been added, and without it
//   - verify: charges of package spend beside a proof of all accounts, and without it
//   - declines: declines beside approvals on accounts with many entries of one date
//
// An interrupt ends the run, and the figures until then are written. A second one ends it at once.
// The exit status is 1 if a promised bound was broken.
//
// With -check FILE the command measures for three minutes and compares the ratios with those of
// FILE, the results.json of another run. It fails if a ratio is below 0.85 of that and below the
// ratio of every round of it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/brimgo/brim/internal/duration"
	"github.com/brimgo/brim/lab/internal/child"
)

// works are done by processes that this program starts.
var works = map[string]io.Closer{"leases": &leaseWork{}, "gets": &getWork{}}

func main() {
	child.Serve(works)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the program at once
	if err := run(ctx, os.Args[1:], os.Stdout, os.Stderr); err != nil {
		if !errors.Is(err, flag.ErrHelp) {
			fmt.Fprintln(os.Stderr, "bench:", err)
		}
		os.Exit(1)
	}
}

// part is a part of a run. Each subject has one trial a round in each of its workloads.
type part struct {
	name          string
	rounds        int
	length, quick time.Duration // of a trial
	run           func(*bench, context.Context) error
}

var parts = []part{
	{"cells", 5, 250 * time.Millisecond, 30 * time.Millisecond, (*bench).cells},
	{"rush", 5, 0, 0, (*bench).rushes},
	{"growth", 5, 250 * time.Millisecond, 30 * time.Millisecond, (*bench).growth},
	{"sustained", 2, 30 * time.Second, time.Second, (*bench).sustained},
	{"leases", 1, 5 * time.Second, time.Second, (*bench).leases},
	{"refusals", 1, 5 * time.Second, time.Second, (*bench).refusals},
	{"cluster", 5, 2 * time.Second, 200 * time.Millisecond, (*bench).cluster},
	{"beside", 5, 2 * time.Second, 200 * time.Millisecond, (*bench).beside},
	{"spend", 5, 1500 * time.Millisecond, 100 * time.Millisecond, (*bench).spend},
	{"prune", 3, 3 * time.Second, 100 * time.Millisecond, (*bench).prune},
	{"rules", 3, 3 * time.Second, 100 * time.Millisecond, (*bench).revise},
	{"verify", 1, 3 * time.Second, 100 * time.Millisecond, (*bench).verify},
	{"declines", 5, 1500 * time.Millisecond, 100 * time.Millisecond, (*bench).declining},
}

const (
	byDefault   = 4 // the number of parts that a run without names has
	quickRounds = 2
)

// bench is a run.
type bench struct {
	*env
	results
	part
	open []*opened // the subjects of the parts cells and rush, once they are open

	out, only, cell, check, ledger string
	large                          bool
	batch                          int
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) (err error) {
	b := &bench{}
	var length duration.Value
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.StringVar(&b.out, "out", "", "directory for results.json and results.md; it is created")
	flags.StringVar(&b.only, "only", "",
		"measure only subjects whose names contain one of these words, with commas between, and their references")
	flags.StringVar(&b.cell, "cell", "",
		"measure only the workloads of the part cells whose names contain this text, such as \"hot, 64 callers\"")
	flags.StringVar(&b.ledger, "ledger", "", "measure only the ledger of this name in the parts prune, rules, verify and declines, such as pgledger")
	flags.BoolVar(&b.Quick, "quick", false, "measure for some minutes, as a first look; too short to judge by")
	flags.BoolVar(&b.large, "large", false, "measure growth up to 10^7 buckets, which takes some more gigabytes and minutes")
	flags.Var(&length, "for", "length of a trial; each part has its own by default")
	rounds := flags.Int("rounds", 0, "trials of each subject; each part has its own number by default")
	flags.IntVar(&b.batch, "batch", 0, "Options.BatchSize of redisstore in the parts cluster and beside; 0 is its default")
	flags.StringVar(&b.check, "check", "",
		"compare the ratios of a run of three minutes with those in this results.json, and fail if one is lower")
	if err := flags.Parse(args); err != nil {
		return err
	}
	names := flags.Args()
	switch {
	case *rounds < 0:
		return fmt.Errorf("-rounds is %d; it must be positive", *rounds)
	case (b.cell != "" || b.check != "") && len(names) > 0:
		return errors.New("-cell and -check measure workloads of the part cells; name no parts")
	case b.cell != "" || b.check != "":
		names = []string{"cells"}
	case len(names) == 0:
		for _, p := range parts[:byDefault] {
			names = append(names, p.name)
		}
	}
	var wanted []part
	for _, name := range names {
		i := slices.IndexFunc(parts, func(p part) bool { return p.name == name })
		if i < 0 {
			return fmt.Errorf("there is no part %q; see -help", name)
		}
		p := parts[i]
		if b.Quick {
			p.length, p.rounds = p.quick, min(p.rounds, quickRounds)
		}
		if length > 0 {
			p.length = length.Std()
		}
		if *rounds > 0 {
			p.rounds = *rounds
		}
		wanted = append(wanted, p)
	}
	chosen, err := choose(subjects(), b.only)
	if err != nil {
		return err
	}
	if len(b.workloads(runtime.GOMAXPROCS(0))) == 0 {
		return fmt.Errorf("no workload has a name that contains %q", b.cell)
	}
	if b.ledger != "" && len(b.ledgers()) == 0 {
		return fmt.Errorf("no ledger has the name %q", b.ledger)
	}
	var kept *results
	if b.check != "" {
		if kept, err = readKept(b.check); err != nil {
			return err
		}
		chosen = withReferences(chosen)
	}
	if b.env, err = newEnv(stderr); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeAll(b.open), b.close()) }()
	b.chosen = chosen
	err = b.measure(ctx, wanted)
	if writeErr := b.write(b.out); writeErr != nil {
		return errors.Join(err, writeErr)
	}
	text := b.markdown()
	if kept != nil && err == nil {
		text, err = compare(kept, &b.results, func(name string) bool {
			return b.only == "" || slices.ContainsFunc(chosen, func(s *subject) bool { return s.name == name })
		})
	}
	_, printErr := io.WriteString(stdout, text)
	if len(b.Broken) > 0 {
		err = errors.Join(err, fmt.Errorf("bounds were broken:\n%s", strings.Join(b.Broken, "\n")))
	}
	return errors.Join(err, printErr)
}

// measure measures parts. After an error it keeps the figures until then.
func (b *bench) measure(ctx context.Context, wanted []part) error {
	defer b.describe(context.WithoutCancel(ctx), &b.results)
	for _, b.part = range wanted {
		if err := b.part.run(b, ctx); err != nil {
			err = fmt.Errorf("%s: %w", b.name, err)
			b.Ended = err.Error()
			return err
		}
	}
	return nil
}
