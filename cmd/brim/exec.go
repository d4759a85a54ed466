package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/brimgo/brim"
	"github.com/brimgo/brim/internal/duration"
	"github.com/brimgo/brim/internal/sleep"
)

// The exit statuses of a command that could not be run, as shells and env define them.
const (
	exitNotRunnable = 126
	exitNotFound    = 127
)

func (a *app) execCommand() *cobra.Command {
	var wait bool
	var maxWait duration.Value
	cmd := newCommand("exec")
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		switch dash := cmd.ArgsLenAtDash(); {
		case dash < 0:
			return usagef("CMD goes behind --")
		case dash == len(args):
			return usagef("CMD is missing")
		default:
			return exactArgs("KEY", "AMOUNT")(cmd, args[:dash])
		}
	}
	limit := addLimit(cmd)
	cmd.Flags().BoolVar(&wait, "wait", false, "wait until the amount fits")
	cmd.Flags().Var(&maxWait, "max-wait", "longest time to wait until the amount fits, like 90s, 15m, 24h or 30d")
	cmd.Flags().Lookup("max-wait").DefValue = ""
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		b, n, err := limit.bucketArgs(args)
		if err != nil {
			return err
		}
		longest := time.Duration(0)
		switch {
		case cmd.Flags().Changed("max-wait"):
			longest = maxWait.Std()
		case wait:
			longest = brim.Never
		}
		path, err := exec.LookPath(args[2])
		if err != nil {
			return a.notRun(err)
		}
		if err := a.enter(cmd.Context(), b, n, longest); err != nil {
			return err
		}
		return a.runCommand(cmd.Context(), path, args[2:])
	}
	return cmd
}

// enter puts the amount in, after a wait of at most longest. It prints a refusal, and returns the
// exit status of one.
func (a *app) enter(ctx context.Context, b brim.Bucket, n float64, longest time.Duration) error {
	deadline := time.Now().Add(longest)
	for told := false; ; {
		var st brim.State
		err := a.with(ctx, opening{create: true}, func(_ *opened, lim *brim.Limiter) (err error) {
			st, err = lim.TryFillup(ctx, b, n)
			return err
		})
		switch {
		case err != nil || st.Accepted:
			return err
		case st.RetryAfter >= brim.Never:
			return a.refused(b.Key, n, st, exitNever)
		case longest < brim.Never && st.RetryAfter > time.Until(deadline):
			return a.refused(b.Key, n, st, exitRefused)
		}
		if !told && a.terminal() {
			fmt.Fprintf(a.stderr, "brim: waiting: %s\n", a.comeBack(n, st))
			told = true
		}
		// When the amount would fit, another call may come first. The next refusal then has a new
		// wait.
		if err := sleep.For(ctx, st.RetryAfter); err != nil {
			return err
		}
	}
}

// refused prints that the amount was refused, and returns the exit status.
func (a *app) refused(key string, n float64, st brim.State, code int) error {
	if !a.json {
		fmt.Fprintf(a.stderr, "brim: refused: %s; %s\n", filling(st), a.comeBack(n, st))
		return status(code)
	}
	if err := a.printJSON(newStateJSON(key, st)); err != nil {
		return err
	}
	return status(code)
}

// runCommand runs the command to its end, passes signals on to it, and returns its exit status as
// an error.
func (a *app) runCommand(ctx context.Context, path string, args []string) error {
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, passedOn...)
	defer signal.Stop(signals)
	if err := ctx.Err(); err != nil { // a signal came before the command ran
		return err
	}
	child := exec.Command(path)
	child.Args = args
	child.Stdin, child.Stdout, child.Stderr = a.stdin, a.stdout, a.stderr
	if out, ok := a.stdout.(*output); ok {
		child.Stdout = out.w // the file itself, so that CMD can see whether stdout is a terminal
	}
	if err := child.Start(); err != nil {
		return a.notRun(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- await(child) }()
	for {
		select {
		case sig := <-signals:
			if !fromTerminal(sig) {
				_ = child.Process.Signal(sig) // fails if the command has ended meanwhile
			}
		case err := <-ended:
			return err
		}
	}
}

// await waits until the command has ended, and returns its exit status as an error.
func await(child *exec.Cmd) error {
	if os.Getpid() == 1 {
		return reap(child.Process.Pid)
	}
	err := child.Wait()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		return fmt.Errorf("exec: %w", err)
	}
	ws, ok := child.ProcessState.Sys().(syscall.WaitStatus)
	if !ok {
		return fmt.Errorf("exec: no exit status in %T", child.ProcessState.Sys())
	}
	return childStatus(ws)
}

// childStatus returns the exit status of a process that has ended, as a shell reports it.
func childStatus(ws syscall.WaitStatus) error {
	code := ws.ExitStatus()
	if ws.Signaled() {
		code = exitSignal + int(ws.Signal())
	}
	if code == 0 {
		return nil
	}
	return status(code)
}

// notRun prints why the command was not run, and returns the exit status.
func (a *app) notRun(err error) error {
	if e := (*exec.Error)(nil); errors.As(err, &e) {
		err = fmt.Errorf("%s: %w", e.Name, e.Err)
	}
	fmt.Fprintln(a.stderr, "brim exec:", oneLine(err.Error()))
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
		return status(exitNotFound)
	}
	return status(exitNotRunnable)
}
