package main

import (
	"io"
	"os"
	"strings"
	"unicode/utf8"
)

// screen takes the answers: a terminal, or a file or pipe.
type screen struct {
	width  int  // in characters; 0 if the answers do not go to a terminal
	colour bool // a terminal that shows colours, and nobody has turned them off
}

// screenOf returns the screen behind a writer. NO_COLOR with any value turns colours off; see
// https://no-color.org. TERM=dumb does so, too.
func screenOf(w io.Writer) screen {
	f, ok := w.(*os.File)
	if !ok {
		return screen{}
	}
	width, ok := terminalWidth(f)
	if !ok {
		return screen{}
	}
	return screen{width: width, colour: os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"}
}

// The colours of answers, as escape sequences of ECMA-48.
const (
	green = "\x1b[32m"
	red   = "\x1b[31m"
	plain = "\x1b[0m"
)

// verdict returns the first word of an answer, green if it is good and red if not, where the
// terminal shows colours.
func (a *app) verdict(good bool, word string) string {
	switch {
	case !a.screen.colour:
		return word
	case good:
		return green + word + plain
	}
	return red + word + plain
}

// fit cuts the lines of a table that are longer than the terminal is wide, and marks the cut. In a
// file or pipe, lines stay whole.
func (a *app) fit(text string) string {
	if a.screen.width == 0 {
		return text
	}
	var b strings.Builder
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if utf8.RuneCountInString(line) > a.screen.width {
			line = string([]rune(line)[:a.screen.width-1]) + "…"
		}
		b.WriteString(line + "\n")
	}
	return b.String()
}

// figures is the width that a listing leaves to the columns behind the key.
const figures = 60

// clipKey cuts a key that would leave no room on the terminal for its figures.
func (a *app) clipKey(key string) string {
	room := max(a.screen.width-figures, 16)
	if a.screen.width == 0 || utf8.RuneCountInString(key) <= room {
		return key
	}
	return string([]rune(key)[:room-1]) + "…"
}

// asks reports whether somebody sits at stdin who can answer a question.
func (a *app) asks() bool {
	f, ok := a.stdin.(*os.File)
	if !ok {
		return false
	}
	_, ok = terminalWidth(f)
	return ok
}
