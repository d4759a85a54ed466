package main

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"
)

func TestExec(t *testing.T) {
	path := storeIn(t)
	tool := filepath.Join(t.TempDir(), "tool")
	if err := os.WriteFile(tool, []byte("no program"), 0o600); err != nil {
		t.Fatal(err)
	}
	never := []string{"--capacity", "5", "--leak-rate", "0", "--store", path, "--"}
	slow := []string{"--capacity", "5", "--over", "30d", "--store", path, "--"}
	for _, step := range []struct {
		why            string
		flags          []string // key, amount and more
		limit          []string
		cmd            []string
		code           int
		stdout, stderr string
	}{
		{"it fits, and the command has stdout to itself", []string{"k", "3"}, slow, []string{"echo", "hello"}, 0, "hello\n", ""},
		{"arguments reach the command unchanged", []string{"k", "1"}, slow, []string{"printf", "%s.", "--json", "a b", ""}, 0, "--json.a b..", ""},
		{"the exit status is that of the command", []string{"k", "1"}, slow, []string{"sh", "-c", "echo no >&2; exit 3"}, 3, "", "no\n"},
		{"it does not fit now", []string{"k", "1"}, slow, []string{"echo", "hello"}, exitRefused, "", "brim: refused: level "},
		{"a refusal shows when it will fit", []string{"k", "1"}, slow, []string{"echo", "hello"}, exitRefused, "", "1 would fit in "},
		{"refused, as JSON", []string{"k", "1", "--json"}, slow, []string{"echo", "hello"}, exitRefused, `"accepted":false`, ""},
		{"more than the capacity", []string{"k", "6"}, slow, []string{"echo", "hello"}, exitNever, "", "6 can never fit"},
		{"exec does not wait for more than the capacity", []string{"k", "6", "--wait"}, slow, []string{"echo", "hello"}, exitNever, "", "6 can never fit"},
		{"exec does not wait for a bucket that does not leak", []string{"k", "1", "--wait"}, never, []string{"echo", "hello"}, exitNever, "", "does not leak"},
		{"a wait beyond --max-wait is refused at once", []string{"k", "1", "--max-wait", "1h"}, slow, []string{"echo", "hello"}, exitRefused, "", "1 would fit in "},
		{"a signal ended the command", []string{"other", "1"}, slow, []string{"sh", "-c", "kill -TERM $$"}, 128 + 15, "", ""},
		{"no such command, and nothing goes into the bucket", []string{"new", "5"}, slow, []string{"no-such-command"}, exitNotFound, "", "no-such-command"},
		{"no such file", []string{"new", "5"}, slow, []string{"./no/such/file"}, exitNotFound, "", "no such file"},
		{"a file that is not a program", []string{"new", "5"}, slow, []string{tool}, exitNotRunnable, "", "permission denied"},
		{"nothing went into the bucket", []string{"new", "5"}, slow, []string{"echo", "hello"}, 0, "hello\n", ""},
		{"no --", []string{"k", "1"}, slow[:len(slow)-1], []string{"echo"}, exitUsage, "", "CMD goes behind --"},
		{"no command", []string{"k", "1"}, slow, nil, exitUsage, "", "CMD is missing"},
		{"no amount", []string{"k"}, slow, []string{"echo"}, exitUsage, "", "AMOUNT is missing"},
		{"a wrong wait", []string{"k", "1", "--max-wait", "90"}, slow, []string{"echo"}, exitUsage, "", "a unit is missing"},
	} {
		t.Run(step.why, func(t *testing.T) {
			args := append([]string{"exec"}, step.flags...)
			args = append(args, step.limit...)
			cli(t, append(args, step.cmd...)...).want(t, step.code, step.stdout, step.stderr)
		})
	}
}

func TestExecStdin(t *testing.T) {
	r := cliIn(t, t.Context(), "from stdin", "exec", "k", "1", "--capacity", "1", "--leak-rate", "0", "--store",
		storeIn(t), "--", "cat")
	r.want(t, 0, "from stdin", "")
}

// With --wait the command runs when the amount fits, and not before. Meanwhile other processes,
// and the command, can use the store.
func TestExecWaits(t *testing.T) {
	t.Parallel()
	path := storeIn(t)
	limit := []string{"--capacity", "1", "--leak-rate", "4", "--store", path}
	began := time.Now()
	cli(t, append([]string{"try", "k", "1"}, limit...)...).want(t, exitOK, "accepted", "")
	for i, flags := range [][]string{{"--wait"}, {"--max-wait", "1m"}, {"--wait", "--max-wait", "1m"}} {
		args := append([]string{"exec", "k", "1"}, limit...)
		args = append(args, flags...)
		execute(t, append(args, "--", "echo", "hello")...).want(t, 0, "hello\n", "")
		if took := time.Since(began); took < time.Duration(i+1)*250*time.Millisecond {
			t.Errorf("%v: unit %d went through a bucket of 1 that leaks 4 a second after %v", flags, i+2, took)
		}
	}
	self, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	args := append([]string{"exec", "outer", "1"}, limit...)
	args = append(args, "--", self, "try", "inner", "1")
	execute(t, append(args, limit...)...).want(t, 0, "accepted", "")
}

// Five commands ask for a bucket of one unit at once. The waiting ones run one by one, and all of
// them run.
func TestExecMany(t *testing.T) {
	t.Parallel()
	path := storeIn(t)
	results := make(chan result)
	began := time.Now().Round(0) // the wall clock, by which the store decides
	for i := range 5 {
		go func() {
			results <- cli(t, "exec", "k", "1", "--capacity", "1", "--leak-rate", "20", "--store", path, "--wait", "--", "echo", strconv.Itoa(i))
		}()
	}
	for range 5 {
		(<-results).want(t, 0, "\n", "")
	}
	if took := time.Now().Round(0).Sub(began); took < 200*time.Millisecond {
		t.Errorf("five units through a bucket of 1 that leaks 20 a second, in %v", took)
	}
}
