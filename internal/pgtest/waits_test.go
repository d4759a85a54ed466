package pgtest

import (
	"errors"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestWaits has one statement wait for the lock of another. The log tells of it.
func TestWaits(t *testing.T) {
	skipShort(t)
	count(t)
	s, env, err := LaunchFor("deadlock_timeout=10ms", "log_min_duration_statement=1ms")
	closeAfter(t, s, err)
	if len(env) == 0 || env[0] != envURL+"="+s.URL() {
		t.Errorf("the environment is %q", env)
	}
	if findBinaries(exec.LookPath, places) == "" {
		return // Docker keeps the log
	}
	pool, ctx := s.Pool(t), t.Context()
	tx, err := pool.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	const lock = "SELECT pg_advisory_xact_lock(1)"
	if _, err := tx.Exec(ctx, lock); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { _, err := pool.Exec(ctx, lock); done <- err }()
	told(t, s, "still waiting for ExclusiveLock")
	if err := errors.Join(tx.Rollback(ctx), <-done); err != nil {
		t.Fatal(err)
	}
	told(t, s, "acquired ExclusiveLock")
	told(t, s, "duration: ")
	if lines, err := s.Waits(1); err != nil || len(lines) != 1 {
		t.Errorf("the last line is %q, %v", lines, err)
	}
}

// told waits until the server has told of a wait.
func told(t *testing.T, s *Server, wait string) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		lines, err := s.Waits(100)
		if err != nil {
			t.Fatal(err)
		}
		if slices.ContainsFunc(lines, func(line string) bool { return strings.Contains(line, wait) }) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("no line says %q: %q", wait, lines)
		}
	}
}
