package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestRun runs nights that are interrupted and that fail. Each run but the first goes on from the
// file.
func TestRun(t *testing.T) {
	list := []part{{name: "x: a", unit: "tries", want: 25, slice: 10}, {name: "x: b", unit: "tries", want: 20, slice: 10}}
	for _, c := range []struct {
		name, why string
		runs      [][]string // the slices that begin, as part, position and attempts; "!" fails, "-" is interrupted
		table     []string
		ok        bool
	}{
		{
			name: "whole", why: "the parts take turns, the last slice of a part is shorter, and a run of a whole night does nothing",
			runs: [][]string{{"x: a 0 10", "x: b 0 10", "x: a 10 10", "x: b 10 10", "x: a 20 5"}, nil}, ok: true,
			table: []string{"| x: a | 25 of 25 tries | nothing found |", "| x: b | 20 of 20 tries | nothing found |"},
		},
		{
			name: "interrupted", why: "an interrupt loses its slice alone",
			runs: [][]string{{"x: a 0 10", "x: b 0 10 -"}, {"x: b 0 10", "x: a 10 10 -"}, {"x: a 10 10", "x: b 10 10", "x: a 20 5 -"}}, ok: true,
			table: []string{"| x: a | 20 of 25 tries | nothing found |", "| x: b | 20 of 20 tries | nothing found |"},
		},
		{
			name: "interrupted in the first slice", why: "no slice has fixed the seed yet",
			runs: [][]string{{"x: a 0 10 -"}, {"x: a 0 10 -"}}, ok: true,
			table: []string{"| x: a | 0 of 25 tries | not begun |"},
		},
		{
			name: "failed", why: "a failure stays, and the other parts go on",
			runs: [][]string{{"x: a 0 10", "x: b 0 10", "x: a 10 10 !", "x: b 10 10 -"}, {"x: b 10 10"}, nil},
			table: []string{
				"| x: a | 10 of 25 tries | failed: `BRIM_SEED=110 BRIM_COUNT=10 go -C lab test ",
				"| x: b | 20 of 20 tries | nothing found |",
			},
		},
		{
			name: "failed in the first slice", why: "its seed is that of the night as well",
			runs:  [][]string{{"x: a 0 10 !", "x: b 0 10", "x: b 10 10"}, nil},
			table: []string{"| x: a | 0 of 25 tries | failed: `BRIM_SEED=100 BRIM_COUNT=10 "},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "night")
			t.Setenv("BRIM_SEED", "100")
			var n *night
			for _, want := range c.runs {
				var err error
				if n, err = open(file); err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithCancel(t.Context())
				var began []string
				err = n.run(ctx, time.Now().Add(time.Hour), list, func(_ context.Context, p part, seed uint64, count int) (log, failed string) {
					text := fmt.Sprintf("%s %d %d", p.name, seed-100, count)
					switch i := len(began); {
					case slices.Contains(want[i:], text+" -"):
						cancel()
						text, failed = text+" -", "killed"
					case slices.Contains(want[i:], text+" !"):
						text, failed = text+" !", "a finding"
					}
					began = append(began, text)
					return "attempts", failed
				})
				cancel()
				if err != nil || !slices.Equal(began, want) {
					t.Errorf("slices %q, %v; want %q\nwhy: %s", began, err, want, c.why)
				}
				t.Setenv("BRIM_SEED", map[bool]string{true: "100", false: "7"}[len(n.slices) == 0])
			}
			text, ok := n.table(list)
			if ok != c.ok || slices.ContainsFunc(c.table, func(row string) bool { return !strings.Contains(text, row) }) {
				t.Errorf("%v\n%s\nwant %v\n%s\nwhy: %s", ok, text, c.ok, strings.Join(c.table, "\n"), c.why)
			}
		})
	}
}

func TestOpenDamaged(t *testing.T) {
	file := filepath.Join(t.TempDir(), "night")
	if err := os.WriteFile(file, []byte(`{"part":"a","seed":1,"count":2}`+"\n{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := open(file); err == nil || !strings.Contains(err.Error(), "line 2 ") {
		t.Errorf("%v; want an error that names line 2", err)
	}
}

// TestJudge tells a failure from the end of -fuzztime that "go test" takes for one.
func TestJudge(t *testing.T) {
	const began = "fuzz: elapsed: 1m0s, execs: 368947 (0/sec), new interesting: 1 (total: 13)\n"
	const ended = "--- FAIL: FuzzTags (60.04s)\n    context deadline exceeded\nFAIL\n"
	exit := errors.New("exit status 1")
	for _, c := range []struct {
		name   string
		fuzz   bool
		out    string
		err    error
		failed bool
	}{
		{"nothing found", true, began, nil, false},
		{"the end of the time", true, began + ended, exit, false},
		{"the end of the time of another test", false, began + ended, exit, true},
		{"an input at the end of the time", true, began + ended + "    Failing input written to testdata/fuzz/FuzzTags/1\n", exit, true},
		{"another failure", true, began + "--- FAIL: FuzzTags (60.04s)\n    tags_test.go:9: differ\n", exit, true},
		{"no attempts", true, ended, exit, true},
	} {
		if log, failed := judge(part{fuzz: c.fuzz}, c.out, c.err); (failed != "") != c.failed || (log == "") != c.failed {
			t.Errorf("%s: log %q, failed %q; want a failure: %v", c.name, log, failed, c.failed)
		}
	}
}

// Each part names a test that there is.
func TestParts(t *testing.T) {
	t.Chdir("..") // where the program runs
	list, err := parts()
	if err != nil || len(list) < 40 {
		t.Fatalf("%d parts, %v; want 40 at least", len(list), err)
	}
	names := make(map[string]bool)
	for _, p := range list {
		if names[p.name] {
			t.Errorf("two parts are called %s", p.name)
		}
		names[p.name] = true
		test, _, _ := strings.Cut(strings.TrimPrefix(p.run, "^"), "$")
		files, err := filepath.Glob(filepath.Join(root, p.args(1)[1], p.pkg, "*_test.go"))
		if err != nil {
			t.Fatal(err)
		}
		if !slices.ContainsFunc(files, func(file string) bool {
			text, err := os.ReadFile(file)
			return err == nil && strings.Contains(string(text), "\nfunc "+test+"(")
		}) {
			t.Errorf("part %s: no test %s", p.name, test)
		}
	}
}
