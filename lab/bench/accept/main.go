// Command accept checks the promises of package local under full load: leases over PostgreSQL and
// over Redis, refusals over PostgreSQL.
//
//	go run ./accept
//
// The command starts the servers and, for the leases, two processes of itself. It prints
// each measured figure beside the required one. It exits with status 1 if a bound was broken: a
// bucket admitted more than its limit allows, or local.Refusals asked the server more often
// than it may. A machine that is too slow for a required rate breaks no bound.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/brimgo/brim/internal/duration"
	"github.com/brimgo/brim/internal/pgtest"
	"github.com/brimgo/brim/internal/redistest"
	"github.com/brimgo/brim/internal/table"
	"github.com/brimgo/brim/migrations"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var err error
	if url := os.Getenv(childEnv); url != "" {
		err = child(ctx, url, os.Stdin, os.Stdout)
	} else {
		err = run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	}
	if err != nil {
		if !errors.Is(err, flag.ErrHelp) {
			fmt.Fprintln(os.Stderr, "accept:", err)
		}
		stop()
		os.Exit(1)
	}
}

// errBroken is the error of a run that has found a broken bound.
var errBroken = errors.New("a bound was broken; see the table")

// figure is a line of the table.
type figure struct {
	name               string
	measured, required string
	reached            bool
	bound              bool // a bound of correctness, which a slow machine keeps, too
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) (err error) {
	flags := flag.NewFlagSet("accept", flag.ContinueOnError)
	flags.SetOutput(stderr)
	length := duration.Value(5 * time.Second)
	flags.Var(&length, "for", "length of each of the nine runs, from 1s to 1m")
	if err := flags.Parse(args); err != nil {
		return err
	}
	switch {
	case flags.NArg() > 0:
		return fmt.Errorf("%q is not an option; see -help", flags.Arg(0))
	case length.Std() < time.Second || length.Std() > time.Minute:
		return fmt.Errorf("-for is %v; it must be from 1s to 1m", length.Std())
	}
	server, err := pgtest.Launch()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.Close()) }()
	pool, err := pgxpool.New(ctx, server.URL())
	if err != nil {
		return err
	}
	defer pool.Close()
	if err := migrations.Up(ctx, pool, nil); err != nil {
		return err
	}
	figures, err := runLeases(ctx, "PostgreSQL", server.URL(), length.Std())
	if err != nil {
		return err
	}
	r, err := redistest.Launch("appendonly yes", "appendfsync everysec")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	overRedis, err := runLeases(ctx, "Redis, AOF everysec", r.URL(), length.Std())
	if err != nil {
		return err
	}
	figures = append(figures, overRedis...)
	found, err := runRefusals(ctx, server.URL(), length.Std())
	if err != nil {
		return fmt.Errorf("refusals: %w", err)
	}
	figures = append(figures, found...)
	return report(stdout, figures)
}

// runLeases runs all leases over one server.
func runLeases(ctx context.Context, on, url string, length time.Duration) (figures []figure, err error) {
	s, err := connect(ctx, url)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	for _, l := range leaseRuns {
		found, err := l.run(ctx, on, s, url, length)
		if err != nil {
			return nil, fmt.Errorf("%s, %s: %w", on, l.name, err)
		}
		figures = append(figures, found...)
	}
	return figures, nil
}

// report prints the figures as a table, and returns errBroken if a bound was broken.
func report(w io.Writer, figures []figure) (err error) {
	t := table.Numeric("figure", "measured", "required", "reached")
	for _, f := range figures {
		reached := "yes"
		switch {
		case f.required == "":
			reached = ""
		case !f.reached:
			reached = "no"
			if f.bound {
				reached, err = "BROKEN", errBroken
			}
		}
		t.Add(f.name, f.measured, f.required, reached)
	}
	_, printErr := io.WriteString(w, t.Markdown())
	return errors.Join(err, printErr)
}
