package main

import (
	"io"
	"os"
	"strings"
	"unicode/utf8"

	"github.com/brimgo/brim/internal/table"
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

// fold breaks the lines that are longer than the terminal is wide. In a file or pipe, lines stay
// whole.
func (s screen) fold(text string) string {
	if s.width == 0 {
		return text
	}
	var lines []string
	for line := range strings.SplitSeq(text, "\n") {
		lines = append(lines, fold(line, s.width, "    "))
	}
	return strings.Join(lines, "\n")
}

// shortest is the number of characters that a key keeps on every terminal.
const shortest = 12

// clip cuts the keys in the first column of a table that is wider than the terminal, and marks the
// cut.
func (s screen) clip(t *table.Table) {
	widest, excess := shortest, 0
	for line := range strings.Lines(t.Text()) {
		excess = max(excess, utf8.RuneCountInString(line)-1-s.width)
	}
	for _, row := range t.Rows {
		widest = max(widest, utf8.RuneCountInString(row[0]))
	}
	if s.width == 0 || excess == 0 {
		return
	}
	room := max(widest-excess, shortest)
	for _, row := range t.Rows {
		if utf8.RuneCountInString(row[0]) > room {
			row[0] = string([]rune(row[0])[:room-1]) + "…"
		}
	}
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
