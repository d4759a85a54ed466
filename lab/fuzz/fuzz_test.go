package fuzz

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/brimgo/brim/lab/internal/attack"
)

// root is the directory of the main module.
const root = "../.."

// TestFuzz runs the targets of the main module.
func TestFuzz(t *testing.T) {
	seed, err := attack.NewSeed()
	if err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	row := attack.Begin(t, "fuzz", "all targets", seed)
	if attack.Night() {
		row.Often, row.Found = fuzzAll(t, start.YearDay())
	} else {
		row.Often, row.Found = wantSeeds(t)
	}
}

// wantSeeds wants a seed corpus of each target. The tests of the packages run the corpora.
func wantSeeds(t *testing.T) (often, found string) {
	all, err := list(t.Context(), root)
	if err != nil || len(all) == 0 {
		t.Fatalf("%d targets, %v", len(all), err)
	}
	found = attack.Nothing
	for _, target := range all {
		if !target.seeded {
			found = "a target without seeds"
			t.Errorf("%s %s has no seeds", target.pkg, target.name)
		}
	}
	return fmt.Sprintf("%d have seeds", len(all)), found
}

// fuzzAll runs the targets whose turn it is.
func fuzzAll(t *testing.T, day int) (often, found string) {
	all, err := list(t.Context(), root)
	if err != nil || len(all) == 0 {
		t.Fatalf("%d targets, %v", len(all), err)
	}
	night := turn(all, budget(t, len(all)), day)
	total, failed := 0, 0
	for _, target := range night {
		execs, failure := target.fuzz(t.Context(), root, each)
		total += execs
		t.Logf("%s %s: %d executions", target.pkg, target.name, execs)
		if failure != "" {
			failed++
			t.Errorf("%s %s:\n%s", target.pkg, target.name, failure)
		}
	}
	found = attack.Nothing
	if failed > 0 {
		found = fmt.Sprintf("%d targets fail", failed)
	}
	return fmt.Sprintf("%d executions of %d of %d", total, len(night), len(all)), found
}

// budget returns the time of BRIM_FUZZ, or that of all targets.
func budget(t *testing.T, targets int) time.Duration {
	text := os.Getenv("BRIM_FUZZ")
	if text == "" {
		return time.Duration(targets) * each
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < each {
		t.Fatalf("BRIM_FUZZ=%s: %v; want a time of at least %v, like 40m", text, err, each)
	}
	return d
}

// TestTurn tests that all targets get the same time over a month, however short the nights are.
func TestTurn(t *testing.T) {
	var all []target
	for i := range 25 {
		all = append(all, target{pkg: "p", name: fmt.Sprint("Fuzz", i)})
	}
	for _, c := range []struct {
		budget time.Duration
		nights int
		want   int // turns of each target
	}{
		{time.Hour, 30, 30}, {10 * time.Minute, 30, 6}, {14 * time.Minute, 25, 7}, {each, 25, 1}, {time.Second, 30, 0},
	} {
		turns := make(map[target]int)
		for day := range c.nights {
			for _, x := range turn(all, c.budget, 1+day) {
				turns[x]++
			}
		}
		for _, x := range all {
			if turns[x] != c.want {
				t.Errorf("%v a night: %s had %d turns in %d nights; want %d", c.budget, x.name, turns[x], c.nights, c.want)
			}
		}
	}
}

// broken is a package with a target whose seed fails, one that fails for some other inputs, and a
// sound one.
const broken = `package broken

import "testing"

func FuzzSeed(f *testing.F) {
	f.Add("bad")
	f.Fuzz(func(t *testing.T, s string) {
		if s == "bad" {
			t.Error("the seed fails")
		}
	})
}

func FuzzLater(f *testing.F) {
	f.Add("")
	f.Fuzz(func(t *testing.T, s string) {
		if len(s) > 2 {
			panic("long")
		}
	})
}

func FuzzSound(f *testing.F) { f.Fuzz(func(*testing.T, int) {}) }
`

// TestCatch tests that the harness finds the targets of a module, and their failures.
func TestCatch(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod": "module broken\n\ngo 1.26\n", "broken_test.go": broken, "doc.go": "package broken\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	all, err := list(t.Context(), dir)
	var names []string
	for _, x := range all {
		names = append(names, x.name)
	}
	if err != nil || !slices.Equal(names, []string{"FuzzLater", "FuzzSeed", "FuzzSound"}) {
		t.Fatalf("the targets are %v, %v", all, err)
	}
	if !all[0].seeded || !all[1].seeded || all[2].seeded {
		t.Errorf("the targets are %+v; want seeds of the first two", all)
	}
	if !attack.Night() {
		return // Go builds the package, and all that it imports, once more to fuzz it
	}
	for i, want := range []string{"long", "the seed fails", ""} {
		if execs, failure := all[i].fuzz(t.Context(), dir, 5*time.Second); !strings.Contains(failure, want) ||
			(failure == "") != (want == "") || want == "" && execs == 0 {
			t.Errorf("%s: %d executions, failure %q; want %q", all[i].name, execs, failure, want)
		}
	}
}
