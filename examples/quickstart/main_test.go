package main

import (
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
)

// Each run is a process of its own. The second run must count the e-mails of the first.
func TestQuickstart(t *testing.T) {
	bin := filepath.Join(t.TempDir(), "quickstart")
	if out, err := exec.Command("go", "build", "-o", bin, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	dir := t.TempDir()
	for i, want := range []string{
		"sent; room for 4 more\nsent; room for 3 more\nsent; room for 2 more\n",
		"sent; room for 1 more\nsent; room for 0 more\nrefused; retry in [0-9]+s\n",
		"(refused; retry in [0-9]+s\n){3}",
	} {
		cmd := exec.Command(bin)
		cmd.Dir = dir // the program keeps limits.db in its working directory
		out, err := cmd.CombinedOutput()
		if err != nil || !regexp.MustCompile("^"+want+"$").Match(out) {
			t.Errorf("run %d printed %q, %v; want a match of %q", i+1, out, err, want)
		}
	}
}
