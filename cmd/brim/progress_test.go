package main

import (
	"bytes"
	"os"
	"strings"
	"testing"
	"time"
)

func TestProgress(t *testing.T) {
	var screen bytes.Buffer
	p := &progress{label: "replay", w: &screen, start: time.Now()}
	p.draw()
	if got := screen.String(); !strings.Contains(got, "replay 0s") {
		t.Errorf("how far it has come is not known, so the time is shown: %q", got)
	}
	p.set(0.5, "10 lines")
	p.draw()
	if got := screen.String(); !strings.Contains(got, "[===============               ]  50% 10 lines") {
		t.Errorf("half of it is done: %q", got)
	}
	p.set(1.5, "") // a file that grows while it is read
	p.draw()
	if got := screen.String(); !strings.Contains(got, "[==============================] 100%") {
		t.Errorf("more than all of it is all of it: %q", got)
	}
}

// A log file and a pipe must not be filled with bars.
func TestProgressIsForTerminals(t *testing.T) {
	file, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	a := &app{stderr: file}
	p := a.progress("replay")
	p.set(0.5, "")
	p.end()
	p.end() // twice is harmless
	if info, err := file.Stat(); err != nil || info.Size() != 0 || a.terminal() {
		t.Errorf("%v, %v: something was written", info.Size(), err)
	}
}
