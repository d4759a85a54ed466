package pgtest

import (
	"bufio"
	"os"
	"regexp"
	"slices"
	"strings"
)

// telling is the configuration by which the log of a server tells [Server.Waits]. Tests make
// thousands of statements fail, whose texts would fill the log.
var telling = []string{
	"log_lock_waits=on", "log_min_duration_statement=3s", "log_checkpoints=on", "log_min_error_statement=panic",
	"max_wal_size=256MB", // the directory may be in memory
}

// wait matches a line about a lock that took a second, a statement that took three, or a checkpoint
// during which one file took a second to reach the disk.
var wait = regexp.MustCompile(`still waiting for |acquired \S+ on .* after |duration: .* statement: |duration: .* execute |longest=[1-9]`)

// Waits returns the last most lines of the server's log that tell of waits. Docker keeps the log of
// a server in a container.
func (s *Server) Waits(most int) (lines []string, err error) {
	err = s.each(func(line string) {
		if wait.MatchString(line) {
			lines = append(lines, line[:min(len(line), 400)])
		}
	})
	return slices.Clone(lines[max(0, len(lines)-most):]), err
}

// part matches a line about one session of a deadlock: the one that it waits for, or its statement.
var part = regexp.MustCompile(`Process \d+(: | waits for )`)

// Deadlocks returns the lines of the server's log about each deadlock: who waits for whom, and the
// beginning of the statement of each. Docker keeps the log of a server in a container.
func (s *Server) Deadlocks() (all []string, err error) {
	err = s.each(func(line string) {
		if strings.Contains(line, "deadlock detected") {
			all = append(all, line)
		} else if n := len(all); n > 0 && part.MatchString(line) {
			all[n-1] += "\n" + line[:min(len(line), 400)]
		}
	})
	return all, err
}

// each calls f for each line of the server's log.
func (s *Server) each(f func(line string)) error {
	log, err := os.Open(s.log)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }()
	in := bufio.NewScanner(log)
	in.Buffer(nil, 1<<24) // a statement of a test may be long
	for in.Scan() {
		f(in.Text())
	}
	return in.Err()
}
