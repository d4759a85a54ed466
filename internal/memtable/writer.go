package memtable

import "context"

// Writer changes tables of a file durably. Any number of goroutines may use it at once.
type Writer interface {
	// Lock waits until nobody else updates, or until ctx ends. The caller must call Unlock if the
	// error is nil.
	Lock(ctx context.Context) error
	// Unlock lets the next goroutine update.
	Unlock()
	// Update runs fn, and makes the changes that fn has made in the view durable and visible. The
	// caller has called Lock. After an error of fn nothing is changed, and the error is returned as
	// it is. If the error is ErrUnknownOutcome of package store, the changes may be durable; after
	// any other error they are not.
	Update(fn func(v *View) error) error
	// View runs fn on all changes that were durable when it was called. It waits for no update but
	// one that is committed to the file at that moment instead of the journal.
	View(fn func(v *View) error) error
	// Sync makes the file have all changes that were durable when it was called.
	Sync(ctx context.Context) error
}
