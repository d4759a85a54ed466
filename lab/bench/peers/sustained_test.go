package main

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/brimgo/brim/internal/journal"
)

// The journal is rotated within a turn, and the rotations are counted.
func TestSustained(t *testing.T) {
	region := journal.DefaultRegion
	journal.DefaultRegion = 8 << 10 // the changes of three flushes of all buckets
	defer func() { journal.DefaultRegion = region }()
	var log strings.Builder
	e, err := newEnv(t.TempDir(), &log)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := e.close(); err != nil {
			t.Error(err)
		}
	}()
	const buckets = 50
	p := plan{Sustained: 200 * time.Millisecond, SustainedTurns: 2, SustainedAgain: 3, SustainedOf: []int{buckets}, Warm: 1e6}
	all, err := e.runSustained(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	r := &results{Sustained: all, Plan: p}
	for _, c := range sustainedCells {
		ours := r.findSustained(boltName, buckets, c)
		if ours == nil || len(ours.Rates) < 2 || ours.Accepted == 0 || ours.Refused > 0 {
			t.Fatalf("%s: %+v", c, ours)
		}
		enough := ours.Rotations >= leastRotations
		if _, ok := r.sustainedRatio(boltUpdate, buckets, c); ok != enough || !enough && len(ours.Rates) != 4*p.SustainedTurns {
			t.Errorf("%s: %d rotations in %d turns, and a ratio: %v", c, ours.Rotations, len(ours.Rates), ok)
		}
		if lone := r.findSustained(syncName, buckets, c); (lone != nil) != (c.Callers == 1) {
			t.Errorf("%s: bare syncs %+v", c, lone)
		}
	}
	if ours := r.findSustained(boltName, buckets, bytesCell); ours.Rotations < leastRotations {
		t.Errorf("%d rotations, although a few flushes fill a region", ours.Rotations)
	}
	if left, err := filepath.Glob(filepath.Join(e.dir, "sustained-*")); err != nil || len(left) > 0 {
		t.Errorf("%v is left, %v", left, err)
	}
	var report strings.Builder
	if r.writeSustained(&report); !strings.Contains(report.String(), "| fdatasync") {
		t.Errorf("the report is\n%s", report.String())
	}
}

// A ratio counts only if the journal was rotated often enough.
func TestSustainedFigures(t *testing.T) {
	lone := sustainedCells[0]
	run := func(rotations uint64) *results {
		return &results{Machine: &machine{}, Sustained: []*sustained{
			{Buckets: 100_000, Rotations: rotations, Seconds: 2, measured: measured{Subject: boltName, Cell: lone, Accepted: 40}},
			{Buckets: 100_000, Seconds: 3, measured: measured{Subject: boltUpdate, Cell: lone, Accepted: 30}},
			{Buckets: 1_000_000, Seconds: 1, measured: measured{Subject: boltUpdate, Cell: lone, Accepted: 99}},
			{Buckets: 100_000, Rotations: rotations, Seconds: 1, Bytes: 3000, measured: measured{Subject: boltName, Cell: bytesCell, Accepted: 10}},
		}}
	}
	for _, c := range []struct {
		why       string
		rotations uint64
		ratio     float64 // 0 if there is none
	}{
		{"two rotations", 2, 2},
		{"one rotation hides a part of the writing", 1, 0},
	} {
		r := run(c.rotations)
		if v, ok := r.sustainedRatio(boltUpdate, 100_000, lone); v != c.ratio || ok != (c.ratio > 0) {
			t.Errorf("%s: ratio %v, %v; want %v", c.why, v, ok, c.ratio)
		}
	}
}

func TestWrittenByProcess(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("Linux alone counts the bytes that a process writes")
	}
	before, err := writtenByProcess(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.Create(filepath.Join(t.TempDir(), "written"))
	if err != nil {
		t.Fatal(err)
	}
	const size = 1 << 20
	_, err = f.Write(make([]byte, size))
	if err == nil {
		err = f.Sync()
	}
	if err != nil {
		t.Fatal(err)
	}
	after, err := writtenByProcess(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	// A file system in memory counts nothing.
	if wrote := after - before; wrote != 0 && wrote < size {
		t.Errorf("%d bytes are counted of %d", wrote, size)
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
}
