// Command spendbench measures decisions of package spend on every ledger.
//
//	go run ./spend/internal/spendbench
//
// It measures authorizations under three rules in PostgreSQL, over accounts at random and on one
// account, by turns with one bare single-row UPDATE per decision, and the rate at which the server
// stores the rows of such decisions without deciding anything, which is their limit. It measures
// authorizations in a bbolt file by turns with one db.Batch per decision, and, on every ledger,
// declines by turns with approvals on one account with many entries in its window. Filling the
// ledgers takes longer than measuring them.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/brimgo/brim/internal/duration"
	"github.com/brimgo/brim/internal/load"
	"github.com/brimgo/brim/internal/pgtest"
	"github.com/brimgo/brim/spend/internal/spendload"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout, os.Stderr); err != nil {
		if !errors.Is(err, flag.ErrHelp) {
			fmt.Fprintln(os.Stderr, "spendbench:", err)
		}
		stop()
		os.Exit(1)
	}
}

// bench are the choices of a run, and the means of all its parts.
type bench struct {
	accounts int // in the measurements of rates
	entries  int // in the window of each of these accounts
	window   int // entries in the window of the account of the declines
	rounds   int
	length   time.Duration // of one turn
	id       func() string // for a request
	dir      string
	server   *pgtest.Server
	stdout   io.Writer
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) (err error) {
	b := bench{stdout: stdout}
	length := duration.Value(1500 * time.Millisecond)
	flags := flag.NewFlagSet("spendbench", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.IntVar(&b.accounts, "accounts", 10_000, "accounts in the measurements of rates")
	flags.IntVar(&b.entries, "entries", 1_000, "entries of 30 days in each of these accounts")
	flags.IntVar(&b.window, "window", 1_000_000, "entries of 30 days in the account of the declines")
	flags.IntVar(&b.rounds, "rounds", 5, "turns of each subject")
	flags.Var(&length, "for", "the length of a turn")
	parts := flags.String("parts", "postgres,bolt,declines", "what to measure")
	var conf []string
	flags.Func("conf", "a line of the server's configuration, such as shared_buffers=2GB; may be repeated", func(line string) error {
		conf = append(conf, line)
		return nil
	})
	random := flags.Bool("random-ids", false, "IDs that are random from the first byte on, instead of IDs that begin with the time")
	if err := flags.Parse(args); err != nil {
		return err
	}
	b.length, b.id = length.Std(), spendload.ID
	if *random {
		b.id = spendload.RandomID
	}
	if flags.NArg() > 0 || b.accounts < 1 || b.entries < 1 || b.window < 1 || b.rounds < 1 || b.length <= 0 {
		return errors.New("arguments are options with positive values; see -help")
	}
	if b.dir, err = os.MkdirTemp("", "brim-spendbench-"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(b.dir)) }()
	if b.server, err = pgtest.Launch(conf...); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.server.Close()) }()
	measures := map[string]func(context.Context) error{"postgres": b.postgres, "bolt": b.bolt, "declines": b.declines}
	for part := range strings.SplitSeq(*parts, ",") {
		measure := measures[part]
		if measure == nil {
			return fmt.Errorf("-parts has %q; want some of postgres,bolt,declines", part)
		}
		if err := measure(ctx); err != nil {
			return fmt.Errorf("%s: %w", part, err)
		}
	}
	return nil
}

// decide makes one decision about an account.
type decide func(ctx context.Context, account int) error

// turns has each subject decide by turns, with so many callers, and returns the results of each.
// The first round warms up and is not counted.
func (b *bench) turns(ctx context.Context, callers, accounts int, subjects ...decide) ([][]*load.Result, error) {
	order, err := load.Draw("uniform", accounts, 1, 0, 1)
	if err != nil {
		return nil, err
	}
	results := make([][]*load.Result, len(subjects))
	err = load.Interleave(b.rounds+1, len(subjects), func(round, i int) error {
		result, err := load.Run(ctx, load.Options{
			Callers: callers, For: b.length, Order: order,
			Decide: func(ctx context.Context, account int, _ bool) (bool, error) { return true, subjects[i](ctx, account) },
		})
		if err == nil && round > 0 {
			results[i] = append(results[i], result)
		}
		return err
	})
	return results, err
}

// rates returns the decisions per second of each round.
func rates(results []*load.Result) (list []float64) {
	for _, r := range results {
		list = append(list, r.PerSecond())
	}
	return list
}

// compare returns the cells of a row: our rate, that of the reference, and the median of their
// ratios.
func (b *bench) compare(ctx context.Context, name string, callers, accounts int, ours, theirs decide) ([]string, error) {
	results, err := b.turns(ctx, callers, accounts, ours, theirs)
	if err != nil {
		return nil, err
	}
	a, r := rates(results[0]), rates(results[1])
	ratio, _ := load.Ratio(a, r)
	return []string{
		name, fmt.Sprint(callers), fmt.Sprintf("%.0f", load.Median(a)), fmt.Sprintf("%.0f", load.Median(r)), fmt.Sprintf("%.2f", ratio),
	}, nil
}
