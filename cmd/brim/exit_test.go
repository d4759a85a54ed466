package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"testing"

	"github.com/brimgo/brim/cmd/brim/internal/simulate"
	"github.com/brimgo/brim/cmd/brim/internal/trace"
	"github.com/brimgo/brim/store"
)

func TestExitStatus(t *testing.T) {
	for _, tc := range []struct {
		err  error
		want int
	}{
		{nil, 0},
		{status(exitRefused), 75},
		{status(exitNever), 78},
		{usagef("wrong"), 64},
		{store.ErrInvalidKey, 64},
		{store.ErrInvalidAmount, 64},
		{store.ErrInvalidLimit, 64},
		{trace.ErrField, 64},
		{errors.ErrUnsupported, 64},
		{openError{errors.ErrUnsupported}, 69}, // a file of a newer format
		{dataError{os.ErrNotExist}, 65},
		{store.ErrCorrupt, 65},
		{openError{store.ErrCorrupt}, 65},
		{trace.ErrFormat, 65},
		{simulate.ErrNoRequests, 65},
		{simulate.ErrTooManyKeys, 65},
		{openError{os.ErrPermission}, 69},
		{store.ErrUnavailable, 69},
		{store.ErrUnknownOutcome, 69},
		{store.ErrClosed, 69},
		{context.DeadlineExceeded, 69},
		{signalError{syscall.SIGINT}, 130},
		{signalError{syscall.SIGTERM}, 143},
		{errors.New("a defect"), 70},
	} {
		if got := exitStatus(tc.err); got != tc.want {
			t.Errorf("%v: exit status %d; want %d", tc.err, got, tc.want)
		}
		if tc.err != nil {
			if got := exitStatus(fmt.Errorf("in front: %w", tc.err)); got != tc.want {
				t.Errorf("%v, wrapped: exit status %d; want %d", tc.err, got, tc.want)
			}
		}
	}
}
