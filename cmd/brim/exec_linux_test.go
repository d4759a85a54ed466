package main

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestExecReaps: as the first process of a container, brim exec waits for the processes whose
// parents have ended, and still ends with the exit status of its command.
func TestExecReaps(t *testing.T) {
	t.Parallel()
	cmd := command(t, "exec", "k", "1", "--capacity", "1", "--over", "30d", "--store", storeIn(t), "--", "sh", "-c",
		`for n in 1 2 3 4 5; do (sh -c 'exit 9' &); done; echo ready; read -r line; exit 7`)
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID}
	if os.Getuid() != 0 {
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getuid(), HostID: os.Getuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getgid(), HostID: os.Getgid(), Size: 1}}
	}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); errors.Is(err, os.ErrPermission) {
		t.Skipf("the system allows no new namespace: %v", err)
	} else if err != nil {
		t.Fatal(err)
	}
	out := bufio.NewScanner(stdout)
	if !out.Scan() || out.Text() != "ready" {
		t.Fatalf("the command printed %q", out.Text())
	}
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		left := children(t, cmd.Process.Pid)
		if len(left) == 1 {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("brim exec has the children %q; want the command alone", left)
		}
	}
	if err := stdin.Close(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != 7 {
		t.Errorf("exit status %d; want the command's 7", code)
	}
}

// children returns the states of the children of a process, zombies included.
func children(t *testing.T, parent int) (states []string) {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // the process has ended
		}
		var state string
		var its int
		_, rest, _ := strings.Cut(string(text), ") ")
		if _, err := fmt.Sscan(rest, &state, &its); err == nil && its == parent {
			states = append(states, state)
		}
	}
	return states
}
