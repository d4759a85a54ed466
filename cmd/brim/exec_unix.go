//go:build unix

package main

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// passedOn are the signals that a command is told of.
var passedOn = []os.Signal{
	syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGWINCH,
}

// fromTerminal reports whether the command has had the signal already: a terminal sends it to all processes in its foreground,
// and to pass it on would be a second interrupt, which many programs take for "at once".
func fromTerminal(sig os.Signal) bool {
	if sig != syscall.SIGINT && sig != syscall.SIGQUIT && sig != syscall.SIGWINCH {
		return false
	}
	tty, err := os.Open("/dev/tty")
	if err != nil {
		return false // there is none
	}
	defer func() { _ = tty.Close() }()
	foreground, err := unix.IoctlGetInt(int(tty.Fd()), unix.TIOCGPGRP)
	return err == nil && foreground == unix.Getpgrp()
}
