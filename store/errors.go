package store

import "errors"

// Errors of the caller: nothing was sent. Match them with [errors.Is].
var (
	// ErrInvalidKey is a key that is empty, longer than 512 bytes, not UTF-8, or holds NUL.
	ErrInvalidKey = errors.New("invalid key")
	// ErrInvalidAmount is an amount that is NaN, infinite, negative, above 2^53, or lost in the capacity's rounding.
	ErrInvalidAmount = errors.New("invalid amount")
	// ErrInvalidLimit is a capacity or leak rate out of range, or one key with two limits in one transaction.
	ErrInvalidLimit = errors.New("invalid limit")
	// ErrNotHeld is a capture or release of more units than the bucket holds. Nothing changed.
	ErrNotHeld = errors.New("more than is held")
	// ErrClosed is a call to a store that was closed, or to none.
	ErrClosed = errors.New("store is closed")
)

// Errors of the store. The limit has said nothing: whoever calls decides what a failing store means.
var (
	// ErrUnavailable is a store that could not be reached or could not write. Nothing was applied.
	ErrUnavailable = errors.New("store unavailable")
	// ErrUnknownOutcome is a call that was cut short after it was sent: it may have been applied, or may yet be.
	ErrUnknownOutcome = errors.New("outcome unknown")
	// ErrCorrupt is stored data that is damaged. Nothing was applied, and nothing was repaired.
	ErrCorrupt = errors.New("stored data is damaged")
)

// Error says which operation of which backend failed. It never holds a key, which may be personal data.
type Error struct {
	Backend string // "memory", "bolt", "postgres"
	Op      string // "fill", "apply", "open limits.db"
	Err     error  // what was wrong and what would be right
}

func (e *Error) Error() string { return e.Backend + ": " + e.Op + ": " + e.Err.Error() }

// Unwrap returns Err, so that [errors.Is] finds the sentinel in it.
func (e *Error) Unwrap() error { return e.Err }

// Wrap returns err as an [*Error] of that backend and operation; nil stays nil, and what is an *Error already stays as it is.
func Wrap(backend, op string, err error) error {
	if err == nil {
		return nil
	}
	if e := (*Error)(nil); errors.As(err, &e) {
		return err
	}
	return &Error{Backend: backend, Op: op, Err: err}
}
