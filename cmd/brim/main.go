// Command brim asks, fills and looks after leaky buckets from the command line, for shell scripts, cron jobs and operators.
//
// Buckets are kept in a bbolt file, in PostgreSQL or, to try something out, in memory; see the flag --store. Run "brim help"
// for the commands, and "brim help COMMAND" for what one does and what its exit status means.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	os.Exit(watched(context.Background()))
}

// watched runs the command under a context that the first SIGINT or SIGTERM ends, so that it can tidy up. The second one
// kills.
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
