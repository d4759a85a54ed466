package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestParse(t *testing.T) {
	for _, c := range []struct {
		why       string
		args      string
		parts     []string
		latency   time.Duration
		sustained time.Duration
		largest   int
	}{
		{"a whole run has all parts", "", parts, time.Minute, time.Minute, 1_000_000},
		{"a quick run has shorter ones", "-quick", parts, time.Second, 3 * time.Second, 100_000},
		{"lengths can be chosen", "-quick -latency 5s -sustained 2m", parts, 5 * time.Second, 2 * time.Minute, 100_000},
		{"growth can go on to 10^7", "-large -part growth", []string{growthPart}, time.Minute, time.Minute, 10_000_000},
		{"parts can be chosen", "-part latency,sustained", []string{latencyPart, sustainedPart}, time.Minute, time.Minute, 1_000_000},
		{"a cell alone is no whole run", "-cell hot", []string{cellsPart}, time.Minute, time.Minute, 1_000_000},
		{"a check needs cells alone", "-check kept.json", []string{cellsPart}, time.Minute, time.Minute, 1_000_000},
	} {
		o, err := parse(strings.Fields(c.args), io.Discard)
		if err != nil {
			t.Errorf("%s: %v", c.why, err)
			continue
		}
		if p := o.plan; !slices.Equal(o.parts, c.parts) || p.Latency != c.latency || p.Sustained != c.sustained || p.Largest != c.largest {
			t.Errorf("%s: %q gives parts %q, latency %v, sustained %v, largest %d", c.why, c.args, o.parts, p.Latency, p.Sustained, p.Largest)
		}
	}
	for args, want := range map[string]string{
		"extra":                      `"extra" is not an option`,
		"-part growth,speed":         `no part "speed"; the parts are: cells, details`,
		"-part growth -cell hot":     "-part excludes -cell and -check",
		"-check kept.json -cell hot": "exclude each other",
		"-latency 1x":                "unit",
	} {
		if _, err := parse(strings.Fields(args), io.Discard); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v; want %q", args, err, want)
		}
	}
}

func TestRunRefusesBeforeItMeasures(t *testing.T) {
	for args, want := range map[string]string{
		"-cell nonsense":      `no cell has a name that contains "nonsense"`,
		"-only nonsense":      `no subject has a name that contains "nonsense"`,
		"-check missing.json": "there are no results to compare with",
	} {
		out := filepath.Join(t.TempDir(), "out")
		err := run(t.Context(), append([]string{"-out", out}, strings.SplitN(args, " ", 2)...), io.Discard, io.Discard)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v; want %q", args, err, want)
		}
		if _, err := os.Stat(out); err == nil {
			t.Errorf("%q: the output directory was made", args)
		}
	}
}

// interrupting ends a run when its log has a line that contains a text.
type interrupting struct {
	text string
	end  context.CancelCauseFunc
	why  error
}

func (i *interrupting) Write(line []byte) (int, error) {
	if strings.Contains(string(line), i.text) {
		i.end(i.why)
	}
	return len(line), nil
}

func TestInterruptLeavesThePartThatWasDone(t *testing.T) {
	interrupt := errors.New("interrupt")
	for _, c := range []struct {
		why, text       string
		cells, latences int
		sizes           int
	}{
		{"the second cell has begun", "(2 of 2)", 2, 0, 0},
		{"the open loop has begun", "open loop", 4, 2, 0},
		{"the first size has been measured", "brim memory, creating 10000 buckets", 4, 2, 1},
	} {
		ctx, cancel := context.WithCancelCause(t.Context())
		out := t.TempDir()
		o := &options{out: out, dir: t.TempDir(), parts: []string{cellsPart, latencyPart, growthPart}, plan: newPlan(true, false)}
		o.plan.Latency, o.plan.LatencyTurns = 20*time.Millisecond, 1
		words := "x/time/rate,uber"
		if c.sizes > 0 {
			words = "brim memory"
		}
		chosen, err := choose(subjects(), words)
		if err != nil {
			t.Fatal(err)
		}
		wanted := []cell{{"uniform", 2, 0, true}, {"hot", 2, 0, true}}
		_, err = measureAndWrite(ctx, o, wanted, chosen, &interrupting{c.text, cancel, interrupt})
		// A store answers the error of its context, and not the cause.
		ended := errors.Is(err, interrupt) || errors.Is(err, context.Canceled)
		if !ended || !strings.Contains(err.Error(), "the part that was done is in "+out) {
			t.Fatalf("%s: %v", c.why, err)
		}
		b, err := os.ReadFile(filepath.Join(out, "results.json"))
		if err != nil {
			t.Fatal(err)
		}
		var r results
		if err := json.Unmarshal(b, &r); err != nil || len(r.Measured) != c.cells || len(r.Latencies) != c.latences || len(r.Growth) != c.sizes {
			t.Errorf("%s: %d figures of cells, %d latencies and %d sizes are kept, want %d, %d and %d; %v", c.why,
				len(r.Measured), len(r.Latencies), len(r.Growth), c.cells, c.latences, c.sizes, err)
		}
		if md, err := os.ReadFile(filepath.Join(out, "results.md")); err != nil || !strings.Contains(string(md), "ended early") {
			t.Errorf("%s: the report does not tell that the run ended early: %v", c.why, err)
		}
	}
}

func TestInterruptBeforeAnythingIsDone(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	out := t.TempDir()
	o := &options{out: out, dir: t.TempDir(), parts: parts, plan: newPlan(true, false)}
	chosen, err := choose(subjects(), "x/time/rate")
	if err != nil {
		t.Fatal(err)
	}
	_, err = measureAndWrite(ctx, o, []cell{{"uniform", 2, 0, true}}, chosen, &interrupting{"opened", cancel, errors.New("interrupt")})
	if err == nil {
		t.Error("an interrupt is no error")
	}
	if left, _ := os.ReadDir(out); len(left) > 0 {
		t.Errorf("results of nothing are written, over those of an earlier run perhaps: %v", left)
	}
}
