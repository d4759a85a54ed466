package spend

import (
	"errors"
	"fmt"
)

// Errors of the caller: nothing was changed, and nothing was noted under the request's ID. A decline is not an error. What a
// ledger answers besides is package store's: ErrUnavailable, ErrUnknownOutcome, ErrCorrupt, ErrClosed.
var (
	// ErrBudget is a budget, rule or option that makes no sense; New answers it.
	ErrBudget = errors.New("invalid budget")
	// ErrRequest is a request that lacks something or says too much: its ID, account, tags or TTL.
	ErrRequest = errors.New("invalid request")
	// ErrAmount is an amount that is not positive where it must be, or beyond what can be counted exactly.
	ErrAmount = errors.New("invalid amount")
	// ErrCurrency is an unknown currency, or another than the budget's. Nothing is converted.
	ErrCurrency = errors.New("wrong currency")
	// ErrIDReused is an ID that has been used in this ledger for a request with other content.
	ErrIDReused = errors.New("ID was used for another request")
	// ErrUnknownSpend is a capture, void, increase or refund of something that the ledger does not know, or no longer.
	ErrUnknownSpend = errors.New("no such spend")
	// ErrHoldEnded is a call on a hold that was captured or voided already.
	ErrHoldEnded = errors.New("hold has ended")
	// ErrHoldExpired is a call on a hold whose time was over. A forced capture is taken all the same.
	ErrHoldExpired = errors.New("hold has expired")
	// ErrNotHeld is a capture of more than is held; a forced one is taken.
	ErrNotHeld = errors.New("more than is held")
	// ErrNotCaptured is a refund of more than was captured and not yet given back.
	ErrNotCaptured = errors.New("more than was captured")
)

func unknownCurrency(code string) error {
	return fmt.Errorf("spend: %w: %.8q is no code of ISO 4217 with a minor unit; write it like EUR", ErrCurrency, code)
}

func requestErr(format string, args ...any) error {
	return fmt.Errorf("spend: %w: "+format, append([]any{ErrRequest}, args...)...)
}
