package pgtest

import (
	"context"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestKill kills a server and one that was started again. Data that was committed is there.
func TestKill(t *testing.T) {
	s := NewServer(t)
	ctx := t.Context()
	pool := s.Pool(t)
	if _, err := pool.Exec(ctx, "CREATE TABLE kept (n int)"); err != nil {
		t.Fatal(err)
	}
	for want := 1; want <= 2; want++ {
		if _, err := pool.Exec(ctx, "INSERT INTO kept VALUES (1)"); err != nil {
			t.Fatal(err)
		}
		before, err := s.Processes()
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Kill(); err != nil {
			t.Fatal(err)
		}
		for _, p := range before {
			if state, _ := stat(p.PID); state != 0 && state != 'Z' {
				t.Errorf("process %+v is in state %c after Kill", p, state)
			}
		}
		if err := s.Start(); err != nil {
			t.Fatal(err)
		}
		pool.Reset()
		got := 0
		if err := pool.QueryRow(ctx, "SELECT count(*) FROM kept").Scan(&got); err != nil || got != want {
			t.Errorf("%d rows, %v; want %d", got, err, want)
		}
	}
}

// TestSignal stops and continues all processes of a server.
func TestSignal(t *testing.T) {
	s := NewServer(t)
	pool := s.Pool(t)
	if err := pool.Ping(t.Context()); err != nil {
		t.Fatal(err)
	}
	all, err := s.Processes()
	if err != nil {
		t.Fatal(err)
	}
	titles := ""
	for _, p := range all {
		titles += p.Title + "\n"
	}
	for _, want := range []string{"checkpointer", "walwriter", "127.0.0.1("} {
		if !strings.Contains(titles, want) {
			t.Errorf("no process is the %s; the titles are\n%s", want, titles)
		}
	}
	if err := s.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := pool.Ping(ctx); err == nil {
		t.Error("a stopped server answers")
	}
	if err := s.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if err := ping(s.URL()); err != nil {
		t.Error(err)
	}
}
