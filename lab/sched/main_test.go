package sched

import (
	"fmt"
	"os"
	"testing"

	"github.com/brimgo/brim/lab/internal/history"
)

// TestMain runs the tests with a directory for their files.
func TestMain(m *testing.M) {
	var err error
	if scratch, err = history.Scratch(); err != nil {
		fmt.Fprintln(os.Stderr, "sched:", err)
		os.Exit(1)
	}
	code := m.Run()
	if err := os.RemoveAll(scratch); err != nil {
		fmt.Fprintln(os.Stderr, "sched:", err)
		code = 1
	}
	os.Exit(code)
}
