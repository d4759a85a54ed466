package boltfile

import (
	"errors"
	"fmt"
	"io/fs"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"

	berrors "go.etcd.io/bbolt/errors"

	"github.com/brimgo/brim/store"
)

// fault is an error with a message of its own and causes that errors.Is finds. The texts of the
// causes are left out: "store unavailable" in the middle would not improve a message that tells
// the cause and the remedy.
type fault struct {
	msg    string
	causes []error
}

func (f *fault) Error() string   { return f.msg }
func (f *fault) Unwrap() []error { return f.causes }

// Damagef returns an error that is [store.ErrCorrupt]. The message must not hold a key, which may
// be personal data.
func Damagef(format string, args ...any) error {
	return &fault{msg: fmt.Sprintf(format, args...), causes: []error{store.ErrCorrupt}}
}

// Failed returns an error of the system or of bbolt, whose text is msg alone. It is
// [store.ErrUnavailable] if the cause passes by itself, or by the room that somebody makes, and
// else [store.ErrMisconfigured]. A cause that has a class keeps it.
func Failed(msg string, cause error) error {
	if classed(cause) {
		return &fault{msg: msg, causes: []error{cause}}
	}
	class := store.ErrMisconfigured
	if among(cause, outOfReach) {
		class = store.ErrUnavailable
	}
	if among(cause, full) {
		msg += "; make room"
	}
	return &fault{msg: msg, causes: []error{class, cause}}
}

// among reports whether an error is one of a list. bbolt passes some on as text only.
func among(err error, list []error) bool {
	return slices.ContainsFunc(list, func(e error) bool { return errors.Is(err, e) || strings.Contains(err.Error(), e.Error()) })
}

// full are the errors of a disk, of a quota and of a file at its allowed size.
var full = []error{syscall.ENOSPC, syscall.EDQUOT, syscall.EFBIG, berrors.ErrMaxSizeReached}

// classed reports whether an error has a class.
func classed(err error) bool {
	return errors.Is(err, store.ErrUnavailable) || errors.Is(err, store.ErrMisconfigured) || errors.Is(err, store.ErrCorrupt) ||
		errors.Is(err, store.ErrUnknownOutcome)
}

// outOfReach are the errors of a disk or a system that cannot now: it fails, it is full, a file or
// a process is at its allowed size, or the system has no memory or no file left.
var outOfReach = []error{
	errLocked, berrors.ErrMaxSizeReached, syscall.EIO, syscall.ENOSPC, syscall.EDQUOT, syscall.EFBIG, syscall.ENOMEM, syscall.EMFILE, syscall.ENFILE,
	syscall.EAGAIN, syscall.EINTR, syscall.ETIMEDOUT,
}

// Misconfigured returns an error that is [store.ErrMisconfigured] and cause, which may be nil. Its
// text is msg alone.
func Misconfigured(msg string, cause error) error {
	f := &fault{msg: msg, causes: []error{store.ErrMisconfigured}}
	if cause != nil {
		f.causes = append(f.causes, cause)
	}
	return f
}

// Unsure returns an error that is [store.ErrUnknownOutcome] and cause. Its text is msg alone.
func Unsure(msg string, cause error) error {
	return &fault{msg: msg, causes: []error{store.ErrUnknownOutcome, cause}}
}

// Remedies for damage.
const (
	// Restore is the remedy for a file that [Open] has opened.
	Restore = "move the file and its journal away and restore the last backup, which \"brim backup\" or Store.Backup has made"
	// RestoreDatabase is the remedy for the database of an application.
	RestoreDatabase = "restore the last backup of the database"
)

// WithRemedy returns err with a remedy, if err is damage to a file.
func WithRemedy(err error, remedy string) error {
	if !errors.Is(err, store.ErrCorrupt) {
		return err
	}
	return &fault{msg: err.Error() + "; " + remedy, causes: []error{err}}
}

// ErrExists is the error of [WriteNew] if there is a file at its path.
var ErrExists = errors.New("there is a file of that name; give a new one")

// FileError turns an error about the file into one of a class of package store that tells the
// remedy.
func FileError(err error) error {
	msg := err.Error()
	switch {
	case classed(err):
		return err
	case errors.Is(err, syscall.EISDIR):
		msg = "it is a directory; give the path of a file"
	case errors.Is(err, fs.ErrPermission):
		msg = "permission denied; the file must be readable and writable, and its directory writable to create it"
	case errors.Is(err, fs.ErrNotExist):
		msg = "no such file or directory; create the directory first"
	}
	return Failed(msg, err)
}

// isDiskFailure reports whether the disk itself failed. The system's cache of the file cannot be
// relied upon after that. bbolt passes some errors on as text only.
func isDiskFailure(err error) bool {
	return errors.Is(err, syscall.EIO) || strings.Contains(err.Error(), syscall.EIO.Error())
}

// panicError is a panic of bbolt, or a fault in its memory, as an error.
type panicError struct{ error }

func (p panicError) Unwrap() error { return p.error }

func isPanic(err error) bool {
	return err != nil && errors.As(err, new(panicError)) // no allocation without an error
}

// Recover turns a panic into an error that is [store.ErrCorrupt]. A function that uses pages defers
// it, because bbolt panics at a page that makes no sense to it.
func Recover(err *error) {
	if p := recover(); p != nil {
		*err = panicError{Damagef("reading or writing a page failed: %v", p)}
	}
}

// Locked reports whether an error means that another process, or another store of this one, has
// the file open.
func Locked(err error) bool { return errors.Is(err, errLocked) }

// guard calls fn, which calls bbolt, and returns its panic or memory fault as an error.
func guard(fn func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer Recover(&err)
	return fn()
}
