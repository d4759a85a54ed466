package main

import (
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// The number of turns, and the time that they take, do not depend on the speed of the machine.
func TestShaper(t *testing.T) {
	for _, args := range [][]string{{}, {"-store", filepath.Join(t.TempDir(), "shaper.db")}} {
		var out strings.Builder
		began := time.Now()
		if err := run(t.Context(), append(args, "-waiters", "40", "-rate", "200"), &out); err != nil {
			t.Fatal(err)
		}
		took := time.Since(began)
		if !strings.HasPrefix(out.String(), "40 turns in ") || took < 195*time.Millisecond {
			t.Errorf("%q after %v; want 40 turns, which take 39 times 5 ms", out.String(), took)
		}
	}
	var out strings.Builder
	err := run(t.Context(), []string{"-waiters", "40", "-rate", "200", "-cancel", "0.5"}, &out)
	if err != nil || strings.HasPrefix(out.String(), "40 turns") {
		t.Errorf("%q, %v; want fewer turns, because half of the callers give up", out.String(), err)
	}
	if err := run(t.Context(), []string{"-rate", "0"}, &out); err == nil {
		t.Error("a rate of 0 passes")
	}
}
