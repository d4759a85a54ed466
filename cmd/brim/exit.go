package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"syscall"

	"github.com/brimgo/brim/cmd/brim/internal/simulate"
	"github.com/brimgo/brim/cmd/brim/internal/trace"
	"github.com/brimgo/brim/internal/uiapi"
	"github.com/brimgo/brim/store"
)

// The exit statuses, as in sysexits.h.
const (
	exitOK          = 0
	exitBroken      = 1  // an answer of doctor, size or migrate that is not good
	exitUsage       = 64 // the command was called wrongly
	exitData        = 65 // the input is damaged, or of another format
	exitAbsent      = 66 // there is no such store
	exitUnavailable = 69 // the store cannot be reached, opened or written
	exitInternal    = 70 // brim has a defect, or could not write its answer
	exitRefused     = 75 // the amount does not fit now, and may fit later
	exitNever       = 78 // no wait helps
	exitSignal      = 128
)

// status ends the command with an exit status and without a message, because the answer is
// already on stdout.
type status int

func (s status) Error() string { return fmt.Sprintf("exit status %d", int(s)) }

// usageError reports that the command was called wrongly.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// dataError reports input that cannot be read.
type dataError struct{ error }

func (e dataError) Unwrap() error { return e.error }

// openError reports a store that cannot be opened.
type openError struct{ error }

func (e openError) Unwrap() error { return e.error }

// absentError is the path of a store that is not there, for a command that does not create it.
type absentError struct{ path string }

func (e absentError) Error() string { return e.path + ": no such file or directory" }

// signalError is the cause of a context that a signal has cancelled.
type signalError struct{ os.Signal }

func (e signalError) Error() string { return "ended by signal: " + e.String() }

// exitStatus returns the exit status of an error. No other function decides on exit statuses.
func exitStatus(err error) int {
	is := func(targets ...error) bool {
		for _, t := range targets {
			if errors.Is(err, t) {
				return true
			}
		}
		return false
	}
	var code status
	var sig signalError
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &code):
		return int(code)
	case errors.As(err, &sig):
		if n, ok := sig.Signal.(syscall.Signal); ok {
			return exitSignal + int(n)
		}
		return exitUnavailable
	case errors.As(err, new(absentError)):
		return exitAbsent
	case errors.As(err, new(openError)) && !is(store.ErrCorrupt):
		return exitUnavailable // even if the error has another kind, such as an unknown format
	case errors.As(err, new(usageError)),
		is(store.ErrInvalidKey, store.ErrInvalidAmount, store.ErrInvalidLimit, trace.ErrField, errors.ErrUnsupported):
		return exitUsage
	case errors.As(err, new(dataError)), is(store.ErrCorrupt, trace.ErrFormat, simulate.ErrNoRequests, simulate.ErrTooManyKeys):
		return exitData
	case is(store.ErrUnavailable, store.ErrMisconfigured, store.ErrFull, store.ErrUnknownOutcome, uiapi.ErrForbidden, store.ErrClosed, context.Canceled, context.DeadlineExceeded):
		return exitUnavailable
	}
	return exitInternal
}

// report writes the error as one line, which begins with the command, and which a terminal gets in
// lines of its width. After a wrong call the line ends with the command's help.
func report(stderr io.Writer, err error, command string) {
	if errors.As(err, new(status)) {
		return
	}
	text := message(err)
	if exitStatus(err) == exitUsage {
		text += fmt.Sprintf("; see %q", command+" --help")
	}
	line := fmt.Sprintf("%s: %s", command, oneLine(text))
	fmt.Fprintln(stderr, screenOf(stderr).fold(line))
}

// message returns the error in the words of the command: without the operation and the names of the
// library. A client that has tried an address twice, with TLS and without, tells so twice.
func message(err error) string {
	text := err.Error()
	if e := (*store.Error)(nil); errors.As(err, &e) {
		text = strings.ReplaceAll(text, e.Error(), e.Backend+": "+e.Err.Error())
	}
	var lines []string
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" && !slices.Contains(lines, line) {
			lines = append(lines, line)
		}
	}
	return ownWords.Replace(": " + strings.Join(lines, "; "))[2:]
}

// ownWords replaces the names of the library by those of the command.
var ownWords = strings.NewReplacer(
	": brim: ", ": ", ": spend: ", ": ", ":; ", ": ", "use Nobody", "use --limit nobody",
	", or migrations.Up, first", " first", `, which "brim backup" or Store.Backup has made`, `; see "brim help backup"`,
	"; to capture money that has been taken nevertheless, set Force", "; --force takes the money nevertheless",
	"Force takes", "--force takes", "KeepIDs", "--keep-ids", "HoldTTL", "the time of a hold", "see Rule.AtMost", "its at_most",
	"the ledger has no budget that is called", `"brim spend rules set FILE" stores a budget, and the ledger has none that is called`,
	"Budget.Retired", "retired", "Least", "--least",
)
