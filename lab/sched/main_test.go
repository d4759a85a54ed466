package sched

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/brimgo/brim/lab/internal/history"
	"github.com/brimgo/brim/lab/internal/weave"
	"github.com/brimgo/brim/lab/sched/turn"
)

// TestMain builds the tests with woven subjects and runs them.
func TestMain(m *testing.M) {
	run := runWoven
	if turn.Woven {
		run = func() (int, error) { return inScratch(m) }
	}
	code, err := run()
	if err != nil {
		fmt.Fprintln(os.Stderr, "sched:", err)
		code = 1
	}
	os.Exit(code)
}

// inScratch runs the tests with a directory for their files.
func inScratch(m *testing.M) (code int, err error) {
	if scratch, err = history.Scratch(); err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(scratch)) }()
	return m.Run(), nil
}

func runWoven() (code int, err error) {
	root, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		return 0, err
	}
	dir, err := os.MkdirTemp("", "brim-sched-")
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	overlay, err := weave.Overlay(root, dir, subjectPackages())
	if err != nil {
		return 0, err
	}
	program := filepath.Join(dir, "sched.test")
	build := exec.Command("go", "test", "-c", "-trimpath", "-overlay", overlay, "-o", program, ".")
	build.Stdout, build.Stderr = os.Stdout, os.Stderr
	if err := build.Run(); err != nil {
		return 0, fmt.Errorf("the woven tests do not build: %w", err)
	}
	run := exec.Command(program, os.Args[1:]...)
	run.Stdout, run.Stderr = os.Stdout, os.Stderr
	if err := run.Run(); err != nil {
		if failed := new(exec.ExitError); errors.As(err, &failed) && failed.ExitCode() > 0 {
			return failed.ExitCode(), nil
		}
		return 0, err
	}
	return 0, nil
}
