// Package supervisor holds the servers that tests start. A shell runs the server and reads commands
// from a pipe. When the other end of the pipe closes, because the test has ended or was killed, the
// shell stops the server and removes its data. Packages pgtest and redistest bring the scripts.
package supervisor

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Supervisor is a shell that holds a server. It runs no goroutine, so tests that look for leaked
// goroutines find none. Only one goroutine at a time may call its methods.
type Supervisor struct {
	cmd    *exec.Cmd
	stdin  *os.File
	stdout *os.File
	lines  *bufio.Reader
	line   string // the part of the current line that was read so far
	starts int    // the number of starts that were asked for
	gone   int    // the last start whose server is known to have ended
}

// CloseAfter returns a server that was started for t alone, and closes it at the end of t.
func CloseAfter[S io.Closer](t testing.TB, server S, err error) S {
	t.Helper()
	if err != nil {
		t.Fatalf("starting a server: %v", err)
	}
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Errorf("closing a server: %v", err)
		}
	})
	return server
}

// Start runs script with the arguments. prepare may change the command before Start runs it; nil
// changes nothing.
//
// The script reads commands from its standard input, one line each, and answers each by a line with
// the first word of the command and an exit status. It writes "ended N" when the server of the Nth
// command "start" has ended.
func Start(script string, prepare func(*exec.Cmd) error, args ...string) (s *Supervisor, err error) {
	cmd := exec.Command("sh", append([]string{"-c", script, "supervisor"}, args...)...)
	cmd.Dir = "/"
	detach(cmd)
	if prepare != nil {
		if err := prepare(cmd); err != nil {
			return nil, err
		}
	}
	theirIn, in, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	out, theirOut, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, theirIn.Close(), in.Close())
	}
	// stderr stays closed: "go test" would wait for every process that inherits it.
	cmd.Stdin, cmd.Stdout = theirIn, theirOut
	err = errors.Join(cmd.Start(), theirIn.Close(), theirOut.Close())
	if err != nil {
		return nil, errors.Join(err, in.Close(), out.Close())
	}
	return &Supervisor{cmd: cmd, stdin: in, stdout: out, lines: bufio.NewReader(out)}, nil
}

// Ask sends a command and waits for the answer.
func (s *Supervisor) Ask(command string, timeout time.Duration) error {
	if _, err := s.stdin.WriteString(command + "\n"); err != nil {
		return err
	}
	word, _, _ := strings.Cut(command, " ")
	if word == "start" {
		s.starts++
	}
	for deadline := time.Now().Add(timeout); ; {
		line, err := s.read(time.Until(deadline))
		switch {
		case err != nil:
			return fmt.Errorf("%s: no answer: %w", word, err)
		case line == word+" 0":
			return nil
		case strings.HasPrefix(line, word+" "):
			return fmt.Errorf("%s failed: exit status %s", word, line[len(word)+1:])
		}
	}
}

// Ended waits up to pause and reports whether the server ended by itself.
func (s *Supervisor) Ended(pause time.Duration) bool {
	if s.gone == s.starts {
		return true
	}
	_, err := s.read(pause)
	return s.gone == s.starts || err != nil && !errors.Is(err, os.ErrDeadlineExceeded)
}

func (s *Supervisor) read(timeout time.Duration) (string, error) {
	if err := s.stdout.SetReadDeadline(time.Now().Add(timeout)); err != nil {
		return "", err
	}
	part, err := s.lines.ReadString('\n')
	s.line += part
	if err != nil {
		return "", err
	}
	line := strings.TrimSuffix(s.line, "\n")
	s.line = ""
	// "ended 1" may come before "start 0" if the server ends at once.
	if n, ok := strings.CutPrefix(line, "ended "); ok {
		s.gone, _ = strconv.Atoi(n)
	}
	return line, nil
}

// Close closes the pipe and waits until the shell has stopped the server and removed its data.
func (s *Supervisor) Close() error {
	return errors.Join(s.stdin.Close(), s.cmd.Wait(), s.stdout.Close())
}
