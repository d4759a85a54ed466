package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"

	"github.com/brimgo/brim/bolt"
	"github.com/brimgo/brim/internal/pgtest"
	"github.com/brimgo/brim/internal/redistest"
	"github.com/brimgo/brim/store"
)

// builtIn is the directory of the command that binary has built, "" before the first call.
var builtIn string

// binary builds the real command, once for all tests that run it. The linker is faster without the
// information for debuggers.
var binary = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "brim-test-")
	if err != nil {
		return "", err
	}
	builtIn = dir
	path := filepath.Join(dir, "brim.exe")
	out, err := exec.Command("go", "build", "-ldflags=-w", "-o", path, ".").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return path, nil
})

func TestMain(m *testing.M) {
	code := pgtest.Run(redistest.With(m))
	if builtIn != "" {
		os.RemoveAll(builtIn)
	}
	os.Exit(code)
}

func command(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	path, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	return exec.CommandContext(t.Context(), path, args...)
}

func execute(t *testing.T, args ...string) result {
	t.Helper()
	cmd := command(t, args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil && !errors.As(err, new(*exec.ExitError)) {
		t.Fatal(err)
	}
	return result{cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()}
}

// A command waits a while for the lock of a file. Then its message names the way out.
func TestBinaryFindsTheFileLocked(t *testing.T) {
	if testing.Short() {
		t.Skip("-short leaves out the wait of three seconds for the lock")
	}
	path := storeIn(t)
	cli(t, "try", "live", "1", "--capacity", "1", "--leak-rate", "0", "--store", path).want(t, exitOK, "accepted", "")
	holder := command(t, "replay", "-", "--capacity", "1", "--leak-rate", "1", "--store", path)
	stdin, err := holder.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := holder.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(stdin, "time,key\n"); err != nil {
		t.Fatal(err)
	}
	// A check holds the lock for too short a time to keep the other process from it.
	locked := func(f store.Finding) bool { return f.Subject == "content" && f.Severity == store.Unchecked }
	for {
		findings, err := bolt.Check(t.Context(), path)
		if err != nil {
			t.Fatal(err)
		}
		if slices.ContainsFunc(findings, locked) {
			break
		}
	}
	execute(t, "try", "k", "1", "--capacity", "1", "--leak-rate", "1", "--store", path).want(t, 69, "",
		"locked by another process")
	execute(t, "list", "--store", path).want(t, 69, "", "ask it, with the address of its page as --store")
	// The input of the replay has not ended. An interrupt must end the replay, and let it tidy up.
	if err := holder.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	_ = holder.Wait()
	if code := holder.ProcessState.ExitCode(); code != exitSignal+int(syscall.SIGINT) {
		t.Errorf("exit status %d after an interrupt; want 130", code)
	}
	execute(t, "list", "--store", path).want(t, 0, "live", "")
}
