package store

import "errors"

// Errors of the caller. Nothing was applied. Match them with [errors.Is].
var (
	// ErrInvalidKey reports a key that is empty, longer than 512 bytes, not UTF-8, or contains
	// NUL.
	ErrInvalidKey = errors.New("invalid key")
	// ErrInvalidAmount reports an amount that is NaN, infinite, negative or above 2^53, or so
	// small that adding it to the capacity changes nothing.
	ErrInvalidAmount = errors.New("invalid amount")
	// ErrInvalidLimit reports a capacity, leak rate, ceiling, penalty or block out of range, or
	// one key with two limits in one transaction.
	ErrInvalidLimit = errors.New("invalid limit")
	// ErrNotHeld reports a capture or release of more units than the bucket holds.
	ErrNotHeld = errors.New("more than is held")
	// ErrClosed reports a call after the store was closed.
	ErrClosed = errors.New("store is closed")
)

// Errors of the store. The limit gave no answer. Only [ErrUnavailable] and [ErrUnknownOutcome] say
// that the store is out of reach, so that a caller may choose to let the work through, or to let
// something else decide; see docs/errors.md.
var (
	// ErrUnavailable reports a store that is out of reach: it gave no answer, or it said that it
	// cannot answer now, for these buckets or for all. Nothing was applied, and the same call may
	// succeed later.
	ErrUnavailable = errors.New("store unavailable")
	// ErrMisconfigured reports a store that cannot answer until somebody mends its setup: a table
	// or a right is missing, the password is wrong, an option does not fit the server. Nothing was
	// applied. It counts for every answer of a server that is not known to pass by itself, so that
	// no limit opens by a mistake of its operators.
	ErrMisconfigured = errors.New("store misconfigured")
	// ErrFull reports a store that has reached its bound of buckets, and has no place for the new
	// one that the call needs. Nothing was applied.
	ErrFull = errors.New("store has no place for another bucket")
	// ErrUnknownOutcome reports a call that was cut short after it was sent. The call may have
	// been applied, or may be applied later.
	ErrUnknownOutcome = errors.New("outcome unknown")
	// ErrCorrupt reports stored data that is damaged. Nothing was applied or repaired.
	ErrCorrupt = errors.New("stored data is damaged")
)

// Error names the operation of the backend that failed. It never contains a key, which may be
// personal data.
type Error struct {
	Backend string // "memory", "bolt", "sqlite", "postgres", "redisstore"
	Op      string // "fill", "apply", "open limits.db"
	Err     error  // the cause, and the remedy if there is one
}

// Error returns "backend: operation: cause".
func (e *Error) Error() string { return e.Backend + ": " + e.Op + ": " + e.Err.Error() }

// Unwrap returns Err, so that [errors.Is] finds the errors of this package in it.
func (e *Error) Unwrap() error { return e.Err }

// Wrap returns err as an [*Error] of that backend and operation. It returns nil if err is nil,
// and err itself if err already contains an *Error.
func Wrap(backend, op string, err error) error {
	if err == nil { // the compiler inlines this test into every decision
		return nil
	}
	return wrap(backend, op, err)
}

func wrap(backend, op string, err error) error {
	if e := (*Error)(nil); errors.As(err, &e) {
		return err
	}
	return &Error{Backend: backend, Op: op, Err: err}
}
