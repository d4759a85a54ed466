package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// terminal opens a terminal of a width. What somebody types there goes to keyboard, and written
// returns all that was written to the terminal, which it closes.
func terminal(t *testing.T, width uint16) (tty, keyboard *os.File, written func() string) {
	t.Helper()
	keyboard, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.IoctlSetPointerInt(int(keyboard.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(int(keyboard.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	tty, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.IoctlSetWinsize(int(tty.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Col: width, Row: 25}); err != nil {
		t.Fatal(err)
	}
	all := make(chan string)
	go func() {
		text, _ := io.ReadAll(keyboard) // ends with an error when the terminal is closed
		all <- strings.ReplaceAll(string(text), "\r\n", "\n")
	}()
	return tty, keyboard, func() string {
		tty.Close()
		defer keyboard.Close()
		return <-all
	}
}

func TestColours(t *testing.T) {
	limit := []string{"--capacity", "2", "--over", "24h", "--store", storeIn(t)}
	for _, tc := range []struct {
		name, noColor, term string
		coloured            bool
	}{
		{"a terminal", "", "xterm", true},
		{"NO_COLOR", "1", "xterm", false},
		{"a dumb terminal", "", "dumb", false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Setenv("NO_COLOR", tc.noColor)
			t.Setenv("TERM", tc.term)
			tty, _, written := terminal(t, 120)
			run(t.Context(), append([]string{"try", t.Name(), "2"}, limit...), strings.NewReader(""), tty, io.Discard)
			run(t.Context(), append([]string{"try", t.Name(), "2"}, limit...), strings.NewReader(""), tty, io.Discard)
			want := "accepted: level 2 of 2"
			refused := "refused: level"
			if tc.coloured {
				want, refused = green+"accepted"+plain+": level 2 of 2", red+"refused"+plain+": level"
			}
			if got := written(); !strings.Contains(got, want) || !strings.Contains(got, refused) {
				t.Errorf("wrote %q; want %q and %q", got, want, refused)
			}
		})
	}
	if r := cli(t, append([]string{"try", "piped", "1"}, limit...)...); strings.Contains(r.stdout, "\x1b") {
		t.Errorf("colours in a pipe: %q", r.stdout)
	}
}

func TestTablesFit(t *testing.T) {
	path, key := storeIn(t), strings.Repeat("ключ", 30)
	cli(t, "fillup", key, "1", "--capacity", "2", "--over", "24h", "--store", path).want(t, exitOK, "filled", "")
	tty, _, written := terminal(t, columns)
	run(t.Context(), []string{"list", "--store", path}, strings.NewReader(""), tty, io.Discard)
	got := written()
	for line := range strings.Lines(got) {
		if n := len([]rune(strings.TrimSuffix(line, "\n"))); n > columns {
			t.Errorf("a line of %d characters on a terminal of %d: %q", n, columns, line)
		}
	}
	if !strings.Contains(got, "…  ") {
		t.Errorf("the cut is not marked: %q", got)
	}
	cli(t, "list", "--store", path).want(t, exitOK, key, "")
}

func TestResetAllAsks(t *testing.T) {
	path := storeIn(t)
	cli(t, "fillup", "k", "1", "--capacity", "2", "--over", "24h", "--store", path).want(t, exitOK, "filled", "")
	for _, tc := range []struct {
		answer string
		code   int
		says   string
	}{
		{"no", exitUsage, "nothing was deleted"},
		{"", exitUsage, "nothing was deleted"},
		{"yes", exitOK, "reset: 1"},
	} {
		tty, keyboard, written := terminal(t, 80)
		if _, err := io.WriteString(keyboard, tc.answer+"\n"); err != nil {
			t.Fatal(err)
		}
		code := run(t.Context(), []string{"reset", "--all", "--store", path}, tty, tty, tty)
		got := strings.ReplaceAll(written(), "\n    ", " ") // lines of the terminal's width
		if code != tc.code || !strings.Contains(got, "delete 1 bucket of "+path+"? Type yes: ") || !strings.Contains(got, tc.says) {
			t.Errorf("answer %q: exit status %d and %q; want %d and %q", tc.answer, code, got, tc.code, tc.says)
		}
	}
	cli(t, "list", "--json", "--store", path).want(t, exitOK, "", "")
}
