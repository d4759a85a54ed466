package main

import (
	"os"

	"golang.org/x/sys/windows"
)

// terminalWidth returns the width of a console in characters, and false for any other file. It has
// the console understand escape sequences.
func terminalWidth(f *os.File) (int, bool) {
	console := windows.Handle(f.Fd())
	var mode uint32
	if windows.GetConsoleMode(console, &mode) != nil {
		return 0, false
	}
	var info windows.ConsoleScreenBufferInfo
	if windows.GetConsoleScreenBufferInfo(console, &info) != nil {
		return 80, true // the input of a console has no width
	}
	_ = windows.SetConsoleMode(console, mode|windows.ENABLE_VIRTUAL_TERMINAL_PROCESSING)
	return int(info.Window.Right-info.Window.Left) + 1, true
}
