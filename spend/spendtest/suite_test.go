package spendtest

import (
	"maps"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/brimgo/brim/internal/seed"
)

// TestReference runs the suite on a correct ledger with every option.
func TestReference(t *testing.T) {
	Run(t, brokenHarness(none))
	Random(t, brokenHarness(none), seed.Attempts(200, 1000))
}

// TestSeed tests that a seed repeats every request of a run, and all times.
func TestSeed(t *testing.T) {
	stories := func(seed uint64) map[string]string {
		var mu sync.Mutex
		all := make(map[string]string)
		play(t, brokenHarness(none), seed, 100, func(s *sequence, err error) {
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				t.Error(err)
			}
			_, number, _ := strings.Cut(s.name, "-")
			all[number] = s.story()
		})
		return all
	}
	first, second, other := stories(1), stories(1), stories(2)
	for number, story := range first {
		if second[number] != story {
			t.Fatalf("seed 1 made two sequences %s:\n%sand:\n%s", number, story, second[number])
		}
	}
	if len(first) < 100 || maps.Equal(first, other) {
		t.Errorf("%d sequences of seed 1; want at least 100, and others of seed 2", len(first))
	}
}

// inChild names the environment variable that is set if the test binary runs
// itself to watch the suite fail.
const inChild = "BRIM_SPENDTEST_BROKEN"

// TestBroken tests that the suite fails every broken ledger, in the test that is
// meant to find its fault. The failures happen in a child process of the same
// test binary.
func TestBroken(t *testing.T) {
	if testing.Short() {
		t.Skip("-short leaves out the search for faults that are rare")
	}
	if os.Getenv(inChild) != "" {
		runBroken(t)
		return
	}
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestBroken$", "-test.timeout=5m")
	child.Dir = t.TempDir()
	child.Env = append(os.Environ(), inChild+"=1")
	out, err := child.CombinedOutput()
	if err == nil {
		t.Errorf("the suite passed every broken ledger")
	}
	failed := make(map[string]bool)
	for line := range strings.Lines(string(out)) {
		if name, ok := strings.CutPrefix(strings.TrimSpace(line), "--- FAIL: TestBroken/"); ok {
			name, _, _ = strings.Cut(name, " (")
			failed[name] = true
		}
	}
	faults := make(map[fault]bool)
	var passed []brokenCase
	for _, b := range broken {
		faults[b.fault] = true
		if name := b.name() + "/" + b.test; !failed[strings.ReplaceAll(name, " ", "_")] {
			passed = append(passed, b)
		}
	}
	if len(passed) > 0 {
		// The names come last: whoever prints only the end of a long output shows them.
		t.Logf("the child process: %v\n%.20000s", err, out)
		for _, b := range passed {
			t.Errorf("a ledger that %s passes %q", b.fault, b.test)
		}
		t.FailNow()
	}
	t.Logf("all %d broken ledgers are caught", len(faults))
}

// runBroken runs the tests of the suite that must fail.
func runBroken(t *testing.T) {
	for _, b := range broken {
		t.Run(b.name(), func(t *testing.T) {
			t.Parallel()
			h := brokenHarness(b.fault)
			if b.test == random {
				t.Run(random, func(t *testing.T) {
					for n := 20; n <= 2000 && !t.Failed(); n *= 10 { // most faults show at once
						Random(t, h, n)
					}
				})
				return
			}
			for _, c := range cases() {
				if c.name == b.test {
					t.Run(c.name, func(t *testing.T) { c.test(t, h) })
				}
			}
		})
	}
}
