package main

import (
	"bytes"
	"context"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/brimgo/brim/internal/redistest"
)

func TestMain(m *testing.M) {
	if addr := os.Getenv(probeEnv); addr != "" { // the process that beside starts
		if err := answer(context.Background(), addr, os.Stdin, os.Stdout); err != nil {
			os.Exit(1)
		}
		os.Exit(0)
	}
	redistest.Main(m)
}

// Each measurement ends, and prints a line for each subject.
func TestMeasurements(t *testing.T) {
	if testing.Short() {
		t.Skip("-short leaves out the tests that start a Redis")
	}
	for _, c := range []struct {
		name  string
		lines int
	}{{"cost", 7}, {"beside", 7}} {
		var out bytes.Buffer
		if err := run(t.Context(), []string{"-for", "200ms", "-rounds", "1", c.name}, &out, io.Discard); err != nil {
			t.Errorf("%s: %v", c.name, err)
		} else if got := strings.Count(out.String(), "\n") - 2; got != c.lines {
			t.Errorf("%s: %d lines, want %d:\n%s", c.name, got, c.lines, out.String())
		}
	}
}

func TestArguments(t *testing.T) {
	for _, c := range []struct{ args, says string }{
		{"", "cost"}, {"cost beside", "cost"}, {"wide", "wide"}, {"-for 1ms cost", "-for"}, {"-rounds 0 cost", "-rounds"},
	} {
		if err := run(t.Context(), strings.Fields(c.args), io.Discard, io.Discard); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%q: %v; want an error that says %q", c.args, err, c.says)
		}
	}
}

func TestParseStat(t *testing.T) {
	const stat = "7 (a b) c) S 1 2 3 4 5 6 7 8 9 10 150 50 0 0 20 0 1"
	if got, err := parseStat(stat); err != nil || got != 2*time.Second {
		t.Errorf("%v, %v; want 2s", got, err)
	}
	for _, bad := range []string{"", "7 (a) S 1", strings.Replace(stat, "150", "x", 1)} {
		if _, err := parseStat(bad); err == nil {
			t.Errorf("%q is read", bad)
		}
	}
}
