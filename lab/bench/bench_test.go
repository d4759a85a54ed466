package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/brimgo/brim/internal/kv"
	"github.com/brimgo/brim/internal/load"
	"github.com/brimgo/brim/lab/internal/child"
)

func TestMain(m *testing.M) {
	child.Serve(works)
	os.Exit(m.Run())
}

// measured runs the command, and returns its results and its report.
func measured(t *testing.T, log io.Writer, args ...string) (r results, report string, err error) {
	t.Helper()
	out := t.TempDir()
	var printed strings.Builder
	err = run(t.Context(), append([]string{"-out", out, "-quick"}, args...), &printed, log)
	text, readErr := os.ReadFile(filepath.Join(out, "results.json"))
	if readErr == nil {
		readErr = json.Unmarshal(text, &r)
	}
	if readErr != nil {
		t.Fatal(errors.Join(err, readErr))
	}
	return r, printed.String(), err
}

// Subjects that need no server are measured in short trials, and the results are written.
func TestMeasureInMemory(t *testing.T) {
	r, report, err := measured(t, io.Discard, "-for", "2ms", "-only", "brim memory", "cells", "rush", "growth")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"quick run", "## cells: uniform, 64 callers, accepted\n", "## rush: ", "## growth: brim memory", "| bytes per bucket",
		"decisions/s, ratio",
	} {
		if !strings.Contains(report, want) {
			t.Errorf("%q is missing in:\n%s", want, report)
		}
	}
	for _, o := range r.Rows {
		for _, f := range o.Figures {
			if v := load.Median(f.Rounds); math.IsNaN(v) || f.Name == rateFigure && (v <= 0 || len(f.Rounds) != quickRounds) {
				t.Errorf("%+v: %+v", o, f)
			}
		}
		if beyond := o.of("most admitted beyond the limit"); len(beyond) > 0 && beyond[0] != 0 {
			t.Errorf("%s admitted %v beyond the limit", o.Subject, beyond)
		}
	}
}

// The journal is rotated within a trial, and the rotations are counted.
func TestSustained(t *testing.T) {
	segment := kv.DefaultSegment
	kv.DefaultSegment = 256 << 10
	defer func() { kv.DefaultSegment = segment }()
	r, _, err := measured(t, io.Discard, "-for", "300ms", "-only", boltName, "sustained")
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range r.Rows {
		if o.Subject == boltName && slices.Max(o.of(rotations)) < 1 {
			t.Errorf("the journal was not rotated: %+v", o)
		}
	}
}

func TestRushFindsUnitsBeyondTheLimit(t *testing.T) {
	var n atomic.Int64
	for _, c := range []struct {
		why    string
		rush   ask
		beyond int64
		err    error
	}{
		{"an exact limiter", func(context.Context, string) (bool, error) { return n.Add(1) <= rushCapacity, nil }, 0, nil},
		{"a limiter that admits every call", func(context.Context, string) (bool, error) { return true, nil }, rushTries - rushCapacity, nil},
		{"a broken limiter", func(context.Context, string) (bool, error) { return false, io.ErrUnexpectedEOF }, 0, io.ErrUnexpectedEOF},
	} {
		s := &opened{&subject{}, &target{rush: c.rush}, nil}
		if beyond, err := s.rushed(t.Context(), "k"); beyond != c.beyond || !errors.Is(err, c.err) {
			t.Errorf("%s: %d beyond, %v; want %d, %v", c.why, beyond, err, c.beyond, c.err)
		}
	}
}

// ran returns results in which brim's subjects decide so many times as often as their references.
func ran(ratios map[string][]float64) *results {
	r := &results{Machine: []string{"go1"}}
	for _, o := range []row{
		{Workload: "uniform, 64 callers, accepted", Subject: boltName, Group: ours, Against: boltUpdate},
		{Workload: "uniform, 64 callers, accepted", Subject: boltUpdate, Group: reference, Against: boltUpdate},
	} {
		o.Part = "cells"
		for _, v := range ratios[o.Subject] {
			o.add(rateFigure, v)
		}
		r.Rows = append(r.Rows, &o)
	}
	return r
}

func TestCompare(t *testing.T) {
	const name = "brim bolt / db.Update: uniform, 64 callers, accepted"
	times := func(ratios ...float64) map[string][]float64 {
		return map[string][]float64{boltName: ratios, boltUpdate: {1, 1, 1}}
	}
	for _, c := range []struct {
		why       string
		kept, now map[string][]float64
		want      string // in the error, "" if the check passes
	}{
		{"the same ratios pass", times(20, 20, 20), times(20, 20, 20), ""},
		{"0.86 of the kept ratio is within the noise", times(20, 20, 20), times(17.2, 17.2, 17.2), ""},
		{"the machine is half as fast, and the ratio is the same", times(20, 20, 20), map[string][]float64{boltName: {10}, boltUpdate: {0.5}}, ""},
		{"0.84 of the kept ratio fails", times(20, 20, 20), times(16.8, 16.8, 16.8), name + ": TOO LOW; kept 20, now 16.8"},
		{"as low as a kept round passes", times(10, 20, 20), times(10, 10, 10), ""},
		{"lower than each kept round fails", times(10, 20, 20), times(9.9, 9.9, 9.9), "TOO LOW"},
		{"a better ratio passes", times(20, 20, 20), times(99, 99, 99), ""},
		{"a row that this run lacks fails", times(20, 20, 20), nil, name + ": MISSING"},
		{"a row whose reference is missing has no ratio", times(20, 20, 20), map[string][]float64{boltName: {20}}, name + ": MISSING"},
		{"a row that the kept results lack fails", nil, times(20, 20, 20), name + ": MISSING in the kept results"},
	} {
		text, err := compare(ran(c.kept), ran(c.now), func(string) bool { return true })
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v; want %q", c.why, err, c.want)
		}
		if !strings.Contains(text, name) {
			t.Errorf("%s: %s is missing in:\n%s", c.why, name, text)
		}
	}
	none := func(string) bool { return false }
	now := ran(nil)
	now.Machine = []string{"go2"}
	if text, err := compare(ran(times(20)), now, none); err != nil || !strings.Contains(text, "go1, and these of go2") {
		t.Errorf("a subject that was not chosen is missing, and the versions differ: %v; %s", err, text)
	}
}

// Each measurement that has servers of its own ends, and has a row for each subject.
func TestRedisParts(t *testing.T) {
	if testing.Short() {
		t.Skip("-short leaves out the tests that start a Redis")
	}
	r, _, err := measured(t, io.Discard, "-for", "100ms", "-rounds", "1", "cluster", "beside")
	if err != nil || len(r.Rows) != 14 {
		t.Errorf("%d rows, want 14: %v", len(r.Rows), err)
	}
}

// The budgets that are measured may follow each other in one ledger.
func TestDeclines(t *testing.T) {
	r, _, err := measured(t, io.Discard, "-for", "2ms", "-ledger", "memledger", "declines")
	if err != nil || len(r.Rows) == 0 {
		t.Errorf("%d rows, %v; want some", len(r.Rows), err)
	}
}
