package main

import (
	"errors"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Each run is a process of its own; what one has used the next must know.
func TestSurvives(t *testing.T) {
	bin := filepath.Join(t.TempDir(), "survives")
	if out, err := exec.Command("go", "build", "-o", bin, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	file := filepath.Join(t.TempDir(), "limits.db")
	for i := range 5 {
		out, err := exec.Command(bin, "-store", file).CombinedOutput()
		if err != nil || !strings.HasPrefix(string(out), "accepted") {
			t.Fatalf("run %d of 5 printed %q, %v; want it accepted", i+1, out, err)
		}
	}
	out, err := exec.Command(bin, "-store", file).CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != exitRefused || !strings.HasPrefix(string(out), "refused: come back in ") {
		t.Errorf("run 6 printed %q, %v; want it refused with exit %d", out, err, exitRefused)
	}
	if out, err := exec.Command(bin, "-store", t.TempDir()).CombinedOutput(); err == nil || !strings.Contains(string(out), "bolt: open") {
		t.Errorf("a directory for a store printed %q, %v; want an error", out, err)
	}
}
