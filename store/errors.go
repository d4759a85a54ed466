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

// Errors of the store. The limit gave no answer, and the caller decides whether to let the work
// through.
var (
	// ErrUnavailable reports a store that could not be reached or could not write. Nothing was
	// applied.
	ErrUnavailable = errors.New("store unavailable")
	// ErrUnknownOutcome reports a call that was cut short after it was sent. The call may have
	// been applied, or may be applied later.
	ErrUnknownOutcome = errors.New("outcome unknown")
	// ErrCorrupt reports stored data that is damaged. Nothing was applied or repaired.
	ErrCorrupt = errors.New("stored data is damaged")
)

// Error names the operation of the backend that failed. It never contains a key, which may be
// personal data.
type Error struct {
	Backend string // "memory", "bolt", "postgres", "redisstore"
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
