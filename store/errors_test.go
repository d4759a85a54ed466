package store

import (
	"errors"
	"fmt"
	"testing"
)

func TestWrap(t *testing.T) {
	if Wrap("bolt", "fill", nil) != nil {
		t.Error("nil does not stay nil")
	}
	err := Wrap("bolt", "open limits.db", fmt.Errorf("page 3: %w", ErrCorrupt))
	if want := "bolt: open limits.db: page 3: stored data is damaged"; err.Error() != want {
		t.Errorf("%q, want %q", err, want)
	}
	var e *Error
	if !errors.Is(err, ErrCorrupt) || !errors.As(err, &e) || e.Backend != "bolt" || e.Op != "open limits.db" {
		t.Errorf("%#v does not say what failed where", err)
	}
	// The innermost knows best: what says already where it failed is left alone, however deep it is wrapped.
	for _, inner := range []error{err, fmt.Errorf("again: %w", err)} {
		if got := Wrap("postgres", "apply", inner); got != inner {
			t.Errorf("%v became %v", inner, got)
		}
	}
}

func TestErrorsAreApart(t *testing.T) {
	all := []error{ErrInvalidKey, ErrInvalidAmount, ErrInvalidLimit, ErrNotHeld, ErrClosed, ErrUnavailable, ErrUnknownOutcome, ErrCorrupt}
	for i, a := range all {
		for j, b := range all {
			if errors.Is(Wrap("b", "op", a), b) != (i == j) {
				t.Errorf("%v is taken for %v", a, b)
			}
		}
	}
}
