package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestStream compares the scripted calls with testdata/stream.txt.
func TestStream(t *testing.T) {
	want, err := os.ReadFile("testdata/stream.txt")
	if err != nil {
		t.Fatal(err)
	}
	var got bytes.Buffer
	if err := run(t.Context(), []string{"-stream"}, &got); err != nil {
		t.Fatal(err)
	}
	if got.String() != string(want) {
		t.Errorf("the calls are\n%s\nand testdata/stream.txt is\n%s", &got, want)
	}
}

func TestAgent(t *testing.T) {
	path := filepath.Join(t.TempDir(), "agent.db")
	for _, c := range []struct {
		task string
		says []string
	}{
		{"a", []string{
			"ask the large model: 0.47 USD of at most 0.80 USD", "buy a report: failed",
			"buy a license: declined by step", "project: 99.48000000 USD of 100.00000000 USD left",
		}},
		{"a", []string{
			"ask the large model: paid for already, 0.47000000 USD", "buy a report: failed in an earlier run",
			"buy a license: declined by step", "project: 99.48000000 USD",
		}},
		{"b", []string{"ask the large model: 0.47 USD", "project: 98.96000000 USD"}},
	} {
		var out strings.Builder
		if err := run(t.Context(), []string{"-file", path, "-task", c.task}, &out); err != nil {
			t.Fatal(err)
		}
		for _, text := range c.says {
			if !strings.Contains(out.String(), text) {
				t.Errorf("task %s printed %q; want %q in it", c.task, out.String(), text)
			}
		}
	}
}

// TestTwoRunsAtOnce: runs without a name for their task are tasks of their own, also in one second.
func TestTwoRunsAtOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "agent.db")
	for n, left := range []string{"99.48", "98.96"} {
		var out strings.Builder
		if err := run(t.Context(), []string{"-file", path}, &out); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(out.String(), "project: "+left) || strings.Contains(out.String(), "already") {
			t.Errorf("run %d printed %q; want %s left", n+1, &out, left)
		}
	}
}
