//go:build !unix

package main

import "os"

// passedOn are the signals that exec passes on to its command. Systems other than Unix interrupt
// all processes of a console.
var passedOn = []os.Signal{os.Interrupt}

// fromTerminal reports that the command has received the signal already.
func fromTerminal(os.Signal) bool { return true }
