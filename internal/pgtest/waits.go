package pgtest

import (
	"bufio"
	"os"
	"regexp"
	"slices"
)

// telling is the configuration by which the log of a server tells [Server.Waits]. Tests make thousands
// of statements fail, whose texts would fill the log.
var telling = []string{
	"log_lock_waits=on", "log_min_duration_statement=3s", "log_checkpoints=on", "log_min_error_statement=panic",
	"max_wal_size=256MB", // the directory may be in memory
}

// wait matches a line about a lock that took a second, a statement that took three, or a checkpoint
// during which one file took a second to reach the disk.
var wait = regexp.MustCompile(`still waiting for |acquired \S+ on .* after |duration: .* statement: |duration: .* execute |longest=[1-9]`)

// Waits returns the last most lines of the server's log that tell of waits. Docker keeps the log of a
// server in a container.
func (s *Server) Waits(most int) (lines []string, err error) {
	f, err := os.Open(s.log)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	in := bufio.NewScanner(f)
	in.Buffer(nil, 1<<24) // a statement of a test may be long
	for in.Scan() {
		if line := in.Text(); wait.MatchString(line) {
			lines = append(lines, line[:min(len(line), 400)])
		}
	}
	return slices.Clone(lines[max(0, len(lines)-most):]), in.Err()
}
