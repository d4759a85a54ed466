// Command brim decides on leaky buckets from the command line, and maintains them, for shell
// scripts, cron jobs and operators.
//
// The flag --store names the place of the buckets: a bbolt file, a SQLite database, PostgreSQL,
// Redis or, for experiments, memory. "brim help" lists the commands. "brim help COMMAND" explains a
// command and its exit statuses.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/redis/go-redis/v9/logging"
	_ "modernc.org/sqlite" // the driver of sqlite:PATH, without cgo
)

func main() {
	logging.Disable() // go-redis reports each failed dial; the command reports their outcome, once
	os.Exit(watched(context.Background()))
}

// watched runs the command under a context that the first SIGINT or SIGTERM cancels, so that the
// command can tidy up. The second signal kills the process.
func watched(ctx context.Context) int {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		sig := <-signals
		signal.Stop(signals)
		cancel(signalError{sig})
	}()
	return run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
}
