package main

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/brimgo/brim/internal/load"
	"github.com/brimgo/brim/lab/bench/internal/redises"
)

func TestRatiosPairRounds(t *testing.T) {
	c := cell{"uniform", 64, 0, false}
	r := &results{Measured: []*measured{
		{Subject: postgresName, Cell: c, Rates: []float64{30, 10, 90}, P99: []float64{1, 1, 1}},
		{Subject: updateName, Cell: c, Rates: []float64{10, 5, 10}, P99: []float64{4, 2, 2}},
	}}
	if v, ok := r.ratio(postgresName, updateName, c, rates); !ok || v != 3 { // of 3, 2 and 9
		t.Errorf("decisions per second: %v, %v", v, ok)
	}
	if v, ok := r.ratio(postgresName, updateName, c, p99s); !ok || v != 0.5 {
		t.Errorf("99th percentiles: %v, %v", v, ok)
	}
}

func TestChoose(t *testing.T) {
	all := subjects()
	seen := make(map[string]bool)
	for _, s := range all {
		if seen[s.name] {
			t.Errorf("two subjects are called %s", s.name)
		}
		seen[s.name] = true
	}
	for _, s := range all {
		if !seen[s.against] {
			t.Errorf("%s is compared with %q, which does not exist", s.name, s.against)
		}
	}
	chosen, err := choose(all, "ulule, brim bolt relaxed")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, s := range chosen {
		got = append(got, s.name)
	}
	want := []string{
		"brim bolt relaxed",
		"x/time/rate",
		"redis_rate, AOF always",
		"ulule/limiter, AOF always",
		"redis_rate, AOF everysec",
		"ulule/limiter, AOF everysec",
	}
	if !slices.Equal(got, want) {
		t.Errorf("chosen: %q; want %q: the subjects that they are compared with are measured, too", got, want)
	}
	if _, err := choose(all, "memcached"); err == nil {
		t.Error("a word that no name contains passes")
	}
}

func TestCells(t *testing.T) {
	all := cells(2, false)
	for i, c := range all {
		if slices.Contains(all[:i], c) {
			t.Errorf("%s is measured twice", c)
		}
		if !slices.Contains(load.Distributions[:], c.Distribution) {
			t.Errorf("%s cannot be drawn", c)
		}
	}
	for _, c := range cells(2, true) {
		if !slices.Contains(all, c) {
			t.Errorf("%s is measured in the quick run only", c)
		}
	}
}

func TestRushFindsUnitsBeyondTheLimit(t *testing.T) {
	var n atomic.Int64
	exact := func(context.Context, string) (bool, error) { return n.Add(1) <= rushCapacity, nil }
	if beyond, err := rush(t.Context(), &target{rush: exact}, "k"); err != nil || beyond != 0 {
		t.Errorf("an exact limiter: %d beyond, %v", beyond, err)
	}
	if n.Load() != rushTries {
		t.Errorf("%d tries, want %d", n.Load(), rushTries)
	}
	all := func(context.Context, string) (bool, error) { return true, nil }
	if beyond, err := rush(t.Context(), &target{rush: all}, "k"); err != nil || beyond != rushTries-rushCapacity {
		t.Errorf("a limiter that admits every call: %d beyond, %v", beyond, err)
	}
	broken := func(context.Context, string) (bool, error) { return false, io.ErrUnexpectedEOF }
	if _, err := rush(t.Context(), &target{rush: broken}, "k"); err == nil {
		t.Error("the error of a limiter is lost")
	}
}

func TestSane(t *testing.T) {
	for _, c := range []struct {
		m      measured
		strict bool
		ok     bool
	}{
		{measured{Accepted: 100}, true, true},
		{measured{Accepted: 1000, Refused: 1}, true, false},
		{measured{Accepted: 1000, Refused: 1}, false, true},
		{measured{Accepted: 10, Refused: 1}, false, false},
		{measured{Cell: cell{Refused: 1}, Accepted: 1, Refused: 1000}, true, false},
		{measured{Cell: cell{Refused: 0.5}, Accepted: 1, Refused: 1}, true, true},
	} {
		if err := c.m.sane(c.strict); (err == nil) != c.ok {
			t.Errorf("%+v, strict %v: %v", c.m, c.strict, err)
		}
	}
}

// Subjects that need no server are measured in full, in short turns, and the results are written.
func TestMeasureInMemory(t *testing.T) {
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
	subjects, err := choose(slices.Concat(brims(), memoryPeers()), memoryName)
	if err != nil {
		t.Fatal(err)
	}
	p := plan{
		Quick: true, Rounds: 2, Slice: 1e6, Warm: 1e6, Largest: 10_000, Rushes: 1, Latency: 40e6, LatencyTurns: 2,
		memoryWork: 4,
	}
	r, err := e.measure(t.Context(), p,
		[]cell{{"uniform", 64, 0, false}, {"hot", 64, 0, false}, {"hot", 2, 1, true}}, subjects, parts)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Growth) != 2 || r.Growth[0].Bytes <= 0 || r.Growth[0].Scan <= 0 || len(r.Growth[0].Rates) != 2 {
		t.Errorf("growth %+v", r.Growth)
	}
	for _, l := range r.Latencies {
		if half := openShare * r.largestRate(l.Subject); l.Open == nil || l.Open.Offered < half || l.Open.P999 < l.Open.P99 {
			t.Errorf("%s: open loop %+v, want at least %v calls a second", l.Subject, l.Open, half)
		}
	}
	for _, rush := range r.Rushes {
		if rush.Worst != 0 {
			t.Errorf("%s admitted %d beyond the limit", rush.Subject, rush.Worst)
		}
	}
	dir := t.TempDir()
	if err := r.write(dir); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(filepath.Join(dir, "results.json"))
	if err != nil {
		t.Fatal(err)
	}
	var read results
	if err := json.Unmarshal(b, &read); err != nil || len(read.Measured) != len(r.Measured) {
		t.Errorf("%d of %d read back: %v", len(read.Measured), len(r.Measured), err)
	}
	md, err := os.ReadFile(filepath.Join(dir, "results.md"))
	for _, want := range []string{"| brim memory", "quick run", "## Latency", "| closed loop", "| open loop", "times that at 10k"} {
		if err != nil || !strings.Contains(string(md), want) {
			t.Fatalf("%v; %q is missing in:\n%s", err, want, md)
		}
	}
}

func TestAnswersOfRedisAndLinux(t *testing.T) {
	if n, err := redises.Figure("# Persistence\r\naof_enabled:1\r\naof_current_size:12345\r\n", redises.AOFSize); err != nil || n != 12345 {
		t.Errorf("%v, %v", n, err)
	}
	if _, err := redises.Figure("# Persistence\r\naof_enabled:0\r\n", redises.AOFSize); err == nil {
		t.Error("a Redis without an append-only file has a size of it")
	}
	if got := cpuModel(bufio.NewScanner(strings.NewReader("processor\t: 0\nmodel name\t: Some CPU\n"))); got != "Some CPU" {
		t.Errorf("CPU %q", got)
	}
	if got := cpuModel(bufio.NewScanner(strings.NewReader("processor: 0\n"))); got != "unknown" {
		t.Errorf("CPU %q", got)
	}
}
