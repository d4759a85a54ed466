//go:build !unix

package main

import (
	"errors"
	"os"
)

// passedOn are the signals that exec passes on to its command. Systems other than Unix interrupt
// all processes of a console.
var passedOn = []os.Signal{os.Interrupt}

// reap is of systems on which a process has the ID 1.
func reap(int) error { return errors.ErrUnsupported }

// fromTerminal reports that the command has received the signal already.
func fromTerminal(os.Signal) bool { return true }
