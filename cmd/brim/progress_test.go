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
		t.Errorf("the line is %q; want the time, because the share is not known", got)
	}
	p.set(0.5, "10 lines")
	p.draw()
	if got := screen.String(); !strings.Contains(got, "[===============               ]  50% 10 lines") {
		t.Errorf("the line is %q; want a bar that is half full", got)
	}
	p.set(1.5, "") // the file grows during the reading
	p.draw()
	if got := screen.String(); !strings.Contains(got, "[==============================] 100%") {
		t.Errorf("the line is %q; want a full bar for a share above 1", got)
	}
	file, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if (&app{stderr: file}).terminal() {
		t.Error("a log file would contain progress lines")
	}
}
