package store

import (
	"errors"
	"fmt"
	"testing"
)

func TestWrap(t *testing.T) {
	if Wrap("bolt", "fill", nil) != nil {
		t.Error("Wrap of nil is not nil")
	}
	err := Wrap("bolt", "open limits.db", fmt.Errorf("page 3: %w", ErrCorrupt))
	if want := "bolt: open limits.db: page 3: stored data is damaged"; err.Error() != want {
		t.Errorf("%q, want %q", err, want)
	}
	var e *Error
	if !errors.Is(err, ErrCorrupt) || !errors.As(err, &e) || e.Backend != "bolt" || e.Op != "open limits.db" {
		t.Errorf("%#v; want an *Error with backend, operation and ErrCorrupt", err)
	}
	// The innermost *Error names the operation that failed, so Wrap leaves it alone at any
	// depth.
	for _, inner := range []error{err, fmt.Errorf("again: %w", err)} {
		if got := Wrap("postgres", "apply", inner); got != inner {
			t.Errorf("Wrap turned %v into %v; want it unchanged", inner, got)
		}
	}
}

func TestErrorsAreDistinct(t *testing.T) {
	all := []error{
		ErrInvalidKey, ErrInvalidAmount, ErrInvalidLimit, ErrNotHeld, ErrClosed,
		ErrUnavailable, ErrUnknownOutcome, ErrCorrupt,
	}
	for i, a := range all {
		for j, b := range all {
			if errors.Is(Wrap("b", "op", a), b) != (i == j) {
				t.Errorf("errors.Is(%v, %v) = %v", a, b, i != j)
			}
		}
	}
}
