//go:build unix

package main

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// passedOn are the signals that exec passes on to its command.
var passedOn = []os.Signal{
	syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGWINCH,
}

// reap waits for all children until the one with the given ID has ended, and returns its exit
// status as an error. The first process of a container is the parent of all processes there whose
// own parents have ended. They stay as zombies, each with its process ID, until their parent has
// waited for them.
func reap(id int) error {
	for {
		var ws syscall.WaitStatus
		switch ended, err := syscall.Wait4(-1, &ws, 0, nil); {
		case ended == id:
			return childStatus(ws)
		case err != nil && !errors.Is(err, syscall.EINTR):
			return fmt.Errorf("exec: wait: %w", err)
		}
	}
}

// fromTerminal reports whether the command has received the signal already. A terminal sends a
// signal to all processes in its foreground. If exec passed it on, the command would be
// interrupted twice, on which many programs end at once.
func fromTerminal(sig os.Signal) bool {
	if sig != syscall.SIGINT && sig != syscall.SIGQUIT && sig != syscall.SIGWINCH {
		return false
	}
	tty, err := os.Open("/dev/tty")
	if err != nil {
		return false // there is no terminal
	}
	defer func() { _ = tty.Close() }()
	foreground, err := unix.IoctlGetInt(int(tty.Fd()), unix.TIOCGPGRP)
	return err == nil && foreground == unix.Getpgrp()
}
