//go:build unix

package main

import (
	"bufio"
	"context"
	"os"
	"syscall"
	"testing"
	"time"
)

// A signal reaches the command, which may take some time to end, and brim ends with the command.
// A signal during the wait ends the wait.
func TestExecSignals(t *testing.T) {
	t.Parallel()
	path := storeIn(t)
	limit := []string{"--capacity", "1", "--over", "30d", "--store", path}
	cmd := command(t, append(append([]string{"exec", "k", "1"}, limit...), "--", "sh", "-c",
		`trap 'echo interrupted; exit 7' INT; trap 'echo asked' USR1; echo ready; while :; do sleep 0.02; done`)...)
	// Without a terminal: a terminal would send the signal to both processes.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	out := bufio.NewScanner(stdout)
	for _, step := range []struct {
		says string
		then os.Signal
	}{{"ready", syscall.SIGUSR1}, {"asked", syscall.SIGINT}, {"interrupted", nil}} {
		if !out.Scan() || out.Text() != step.says {
			t.Fatalf("the command printed %q; want %q", out.Text(), step.says)
		}
		if step.then != nil {
			if err := cmd.Process.Signal(step.then); err != nil {
				t.Fatal(err)
			}
		}
	}
	_ = cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != 7 {
		t.Errorf("exit status %d; want the command's 7", code)
	}

	ctx, cancel := context.WithCancelCause(t.Context())
	time.AfterFunc(100*time.Millisecond, func() { cancel(signalError{syscall.SIGTERM}) })
	r := cliIn(t, ctx, "", append(append([]string{"exec", "k", "1", "--wait"}, limit...), "--", "echo", "hello")...)
	r.want(t, exitSignal+int(syscall.SIGTERM), "", "ended by signal: terminated")
}
