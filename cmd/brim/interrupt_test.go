//go:build unix

package main

import (
	"bytes"
	"context"
	"io"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/brimgo/brim/bolt"
)

// A signal ends every command at once, with its report, whatever the command waits for.
func TestInterruptWhileWaiting(t *testing.T) {
	dir := t.TempDir()
	pipe, locked := filepath.Join(dir, "pipe"), filepath.Join(dir, "locked.db")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	held, err := bolt.Open(locked, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	limit := " --capacity 1 --leak-rate 0"
	for _, tc := range []struct {
		call, stdin, report string
	}{
		{"replay -" + limit, "", ""},
		{"replay -" + limit, "time,key\n1,a\n2,a\n", "1  accepted"},
		{"size -", "time,key\n1,a\n2,a\n", "2 requests"},
		{"replay " + pipe + limit, "", ""},
		{"spend rules check " + pipe, "", ""},
		{"spend rules set -", "", ""},
		{"try k 1 --store " + locked + limit, "", ""},
		{"list --store " + locked, "", ""},
		{"exec k 1 --wait --store " + filepath.Join(dir, "exec.db") + " --capacity 1 --over 24h -- true", "", ""},
	} {
		if strings.HasPrefix(tc.call, "exec") {
			cli(t, strings.Fields(strings.Replace(tc.call, "--wait ", "", 1))...).want(t, exitOK, "", "")
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		stdin, writer := io.Pipe()
		var stdout, stderr bytes.Buffer
		ended := make(chan int, 1)
		go func() { ended <- run(ctx, strings.Fields(tc.call), stdin, &stdout, &stderr) }()
		if tc.stdin != "" {
			_, _ = io.WriteString(writer, tc.stdin) // until the command has read it
		}
		time.Sleep(50 * time.Millisecond) // the command waits; an early signal must end it, too
		cancel(signalError{syscall.SIGTERM})
		select {
		case code := <-ended:
			if code != exitSignal+int(syscall.SIGTERM) || !strings.Contains(stdout.String(), tc.report) ||
				!strings.Contains(stderr.String(), "ended by signal") {
				t.Errorf("brim %s: exit status %d, %q, %q; want %q", tc.call, code, stdout.String(), stderr.String(), tc.report)
			}
		case <-time.After(2 * time.Second):
			t.Errorf("brim %s goes on after the signal", tc.call)
		}
		_ = writer.Close()
	}
}
