//go:build !unix

package main

import "os"

// passedOn are the signals that a command is told of. Other systems than Unix interrupt all processes of a console themselves.
var passedOn = []os.Signal{os.Interrupt}

func fromTerminal(os.Signal) bool { return true }
