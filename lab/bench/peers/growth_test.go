package main

import (
	"slices"
	"strings"
	"testing"
)

func TestParseAvailable(t *testing.T) {
	for _, c := range []struct {
		why, text string
		bytes     uint64
		ok        bool
	}{
		{"the line stands among others", "MemTotal:       24683520 kB\nMemFree:        1 kB\nMemAvailable:   2048 kB\n", 2048 << 10, true},
		{"an old kernel has no such line", "MemTotal:       24683520 kB\nMemFree:        1 kB\n", 0, false},
		{"nothing", "", 0, false},
	} {
		if bytes, ok := parseAvailable(c.text); bytes != c.bytes || ok != c.ok {
			t.Errorf("%s: %d, %v; want %d, %v", c.why, bytes, ok, c.bytes, c.ok)
		}
	}
}

func TestShort(t *testing.T) {
	memory := func(bytes uint64, known bool) func() (uint64, bool) {
		return func() (uint64, bool) { return bytes, known }
	}
	for _, c := range []struct {
		why       string
		available func() (uint64, bool)
		want      string
	}{
		{"as much as is needed suffices", memory(3_500_000_000, true), ""},
		{
			"less does not, and both are told", memory(1_250_000_000, true),
			"brim redis with 10000000 buckets needs about 3.5 GB of memory, and 1.2 GB are available",
		},
		{"a system that does not tell is tried", memory(0, false), ""},
	} {
		if got := short("brim redis", 10_000_000, 3_500_000_000, c.available); got != c.want {
			t.Errorf("%s: %q, want %q", c.why, got, c.want)
		}
	}
}

// The sizes below the one for which the memory is short are measured, and the report names the
// others.
func TestGrowthLeavesOutSizes(t *testing.T) {
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
	i := slices.IndexFunc(growers, func(g grower) bool { return g.backend == boltName })
	e.available = func() (uint64, bool) { return 5_000 * growers[i].memory, true }
	p := plan{Rounds: 1, Slice: 1e6, Largest: 100_000}
	all, left, err := e.runGrowth(t.Context(), p, func(name string) bool { return name == boltName })
	if err != nil {
		t.Fatal(err)
	}
	if len(all) != 1 || all[0].Buckets != 1000 || all[0].Open <= 0 || all[0].Scan <= 0 || all[0].Bytes <= 0 {
		t.Errorf("%+v; want the figures of 1000 buckets", all)
	}
	if len(left) != 1 || !strings.Contains(left[0], "brim bolt with 10000 buckets needs") || !strings.Contains(log.String(), "SKIPPED") {
		t.Errorf("left out: %q; log:\n%s", left, log.String())
	}
	r := &results{Machine: &machine{}, Growth: all, LeftOut: left}
	if md := r.markdown(); !strings.Contains(md, "**Left out:** brim bolt with 10000 buckets") {
		t.Errorf("the report does not tell that a size was left out:\n%s", md)
	}
}
