package pgtest

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// supervisor is the shell that holds a server: see local.sh and docker.sh. It runs no goroutine, so
// tests that look for leaked goroutines find none.
type supervisor struct {
	cmd    *exec.Cmd
	stdin  *os.File
	stdout *os.File
	lines  *bufio.Reader
	line   string // the part of the current line that was read so far
	starts int    // the number of starts that were asked for
	gone   int    // the last start whose server is known to have ended
}

// supervise runs script. prepare may change the command before supervise starts it.
func supervise(script string, prepare func(*exec.Cmd) error, args ...string) (s *supervisor, err error) {
	cmd := exec.Command("sh", append([]string{"-c", script, "pgtest"}, args...)...)
	cmd.Dir = "/"
	detach(cmd)
	if err := prepare(cmd); err != nil {
		return nil, err
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
	return &supervisor{cmd: cmd, stdin: in, stdout: out, lines: bufio.NewReader(out)}, nil
}

// ask sends a command and waits for the answer.
func (s *supervisor) ask(command string, timeout time.Duration) error {
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

// ended waits up to pause and reports whether the server ended by itself.
func (s *supervisor) ended(pause time.Duration) bool {
	if s.gone == s.starts {
		return true
	}
	_, err := s.read(pause)
	return s.gone == s.starts || err != nil && !errors.Is(err, os.ErrDeadlineExceeded)
}

func (s *supervisor) read(timeout time.Duration) (string, error) {
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

// close closes the pipe and waits until the shell has stopped the server and removed its data.
func (s *supervisor) close() error {
	return errors.Join(s.stdin.Close(), s.cmd.Wait(), s.stdout.Close())
}
