package decide

import (
	"errors"
	"fmt"
)

// Errors of the caller; see package spend.
var (
	ErrBudget       = errors.New("invalid budget")
	ErrRequest      = errors.New("invalid request")
	ErrIDReused     = errors.New("ID was used for another request")
	ErrUnknownSpend = errors.New("no such spend")
	ErrHoldEnded    = errors.New("hold has ended")
	ErrHoldExpired  = errors.New("hold has expired")
	ErrExceeds      = errors.New("more than is left")
)

// BadRequest returns a mistake of a request.
func BadRequest(format string, args ...any) error {
	return fmt.Errorf("spend: %w: "+format, append([]any{ErrRequest}, args...)...)
}
