package pgtest

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Processes returns the processes of a local server that runs, the first one first. A server in
// Docker answers [errors.ErrUnsupported].
func (s *Server) Processes() ([]Process, error) {
	if s.dir == "" {
		return nil, errors.ErrUnsupported
	}
	text, err := os.ReadFile(filepath.Join(s.dir, "pid"))
	if err != nil {
		return nil, err
	}
	first, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return nil, err
	}
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return nil, err
	}
	all := []Process{{PID: first}}
	for _, dir := range dirs {
		pid, err := strconv.Atoi(filepath.Base(dir))
		if err != nil {
			continue
		}
		if _, parent := stat(pid); parent != first {
			continue
		}
		line, _ := os.ReadFile(dir + "/cmdline") // a process that has ended has none
		title := strings.Trim(string(line), "\x00 ")
		all = append(all, Process{pid, strings.TrimPrefix(title, "postgres: ")})
	}
	return all, nil
}

// stat returns the state and the parent of a process, or zeros if it is not there.
func stat(pid int) (state byte, parent int) {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	// The name of the program comes before these fields, in parentheses.
	fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
	if len(fields) < 2 {
		return 0, 0
	}
	parent, _ = strconv.Atoi(string(fields[1])) // the kernel writes numbers
	return fields[0][0], parent
}

// Signal sends a signal to every process of a local server, first to the one that starts the
// others: after a SIGSTOP, no process is missed.
func (s *Server) Signal(sig syscall.Signal) error {
	all, err := s.Processes()
	if err != nil {
		return err
	}
	first := syscall.Kill(all[0].PID, sig)
	if all, err = s.Processes(); err != nil {
		return errors.Join(first, err)
	}
	for _, p := range all[1:] {
		if err := syscall.Kill(p.PID, sig); err != nil && !errors.Is(err, syscall.ESRCH) {
			first = errors.Join(first, err)
		}
	}
	return first
}

// Kill kills every process of a local server at once with SIGKILL. The memory that they share is
// gone. What they have written to files is not: the system keeps it. The server recovers at the
// next Start.
func (s *Server) Kill() error {
	if err := s.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	all, err := s.Processes()
	if err != nil {
		return err
	}
	for _, p := range all {
		if err := syscall.Kill(p.PID, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
			return err
		}
	}
	// A server does not start while a process of the one before holds the shared memory.
	deadline := time.Now().Add(time.Minute)
	for _, p := range all {
		for state, _ := stat(p.PID); state != 0 && state != 'Z'; state, _ = stat(p.PID) {
			if time.Now().After(deadline) {
				return fmt.Errorf("process %d survives SIGKILL", p.PID)
			}
			time.Sleep(100 * time.Microsecond)
		}
	}
	return s.explain(s.super.Ask("stop KILL", time.Minute))
}
