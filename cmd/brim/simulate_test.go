package main

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
)

func TestSimulate(t *testing.T) {
	args := func(more ...string) []string {
		return append([]string{"simulate", "--rate", "40", "--duration", "500ms", "--capacity", "10", "--leak-rate", "5"}, more...)
	}
	// The leak during the burst lets 12 through, and not the 10 of the capacity alone.
	var s simulationJSON
	cli(t, args("--json")...).decode(t, &s)
	if len(s.Limits) != 1 || s.Limits[0].Accepted != 12 || s.Limits[0].Refused != 8 || s.Limits[0].Busiest != 20 || !s.Complete {
		t.Errorf("got %+v; want 12 of 20 accepted", s)
	}
	cli(t, args()...).want(t, exitOK, "40.00%", "")
	path := filepath.Join(t.TempDir(), "burst.svg")
	cli(t, args("--plot", path)...).want(t, exitOK, "12        8", "the picture is in")
	svg, err := os.ReadFile(path)
	if crosses := strings.Count(string(svg), "<path"); err != nil || crosses != 8 {
		t.Errorf("%v, %d refusals are marked; want 8", err, crosses)
	}
	sweep := cli(t, args("--sweep", "--json")...)
	sweep.decode(t, &s)
	if len(s.Limits) != 13 || s.Limits[12].Refused != 0 || s.Limits[0].Refused <= s.Limits[6].Refused {
		t.Errorf("the sweep is %+v", s)
	}
	// A storm with jitter serves as many, and its waves are lower.
	storm := []string{
		"simulate", "--pattern", "bursts", "--burst", "100", "--rate", "1", "--duration", "100s",
		"--capacity", "20", "--over", "4s", "--attempts", "3", "--retry-every", "1s", "--json",
	}
	first, again := cli(t, storm...), cli(t, storm...)
	if first.stdout != again.stdout || first.code != exitOK {
		t.Errorf("the same flags give %s and %s", first.stdout, again.stdout)
	}
	first.decode(t, &s)
	if l := s.Limits[0]; l.Attempts != 100+80+75 || l.Served != 30 || l.GaveUp != 70 || l.LongestWait != 2 {
		t.Errorf("a storm: %+v; want 20 callers served at once, and 5 after each second", l)
	}
}

func TestSimulateInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(signalError{syscall.SIGINT})
	r := cliIn(t, ctx, "", "simulate", "--rate", "1e6", "--duration", "90s", "--capacity", "10", "--leak-rate", "5", "--json")
	r.want(t, 130, `"complete":false`, "ended by signal: interrupt")
}

func TestCompare(t *testing.T) {
	args := []string{"simulate", "--rate", "10", "--duration", "20s", "--capacity", "5", "--over", "10s", "--compare"}
	var c comparisonJSON
	cli(t, append(args, "--json")...).decode(t, &c)
	if len(c.Algorithms) != 7 || c.Window != 10 || !c.Complete {
		t.Fatalf("got %+v; want seven algorithms and a window of 10 s", c)
	}
	for _, a := range c.Algorithms {
		if a.Accepted+a.Refused != 200 || a.Bytes == 0 || a.MostInWindow < 5 || (a.Beyond > 0) != (a.MostInWindow > 5) {
			t.Errorf("%+v: the numbers contradict each other", a)
		}
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(signalError{syscall.SIGINT})
	long := []string{"simulate", "--rate", "1000", "--duration", "90s", "--capacity", "5", "--over", "10s", "--compare", "--json"}
	cliIn(t, ctx, "", long...).want(t, 130, `"complete":false`, "ended by signal: interrupt")
}

// Every answer in docs/algorithms.md is the output of the command above it.
func TestAlgorithmsPage(t *testing.T) {
	page, err := os.ReadFile("../../docs/algorithms.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?s)```console\n\\$ brim ([^\n]*)\n(.*?)```").FindAllStringSubmatch(string(page), -1)
	if len(blocks) != 10 || strings.Count(string(page), "```") != 2*len(blocks) {
		t.Errorf("the page has %d commands; want 10, and no other blocks", len(blocks))
	}
	for _, block := range blocks {
		r := cli(t, strings.Fields(block[1])...)
		if r.code != exitOK || r.stdout != block[2] {
			t.Errorf("brim %s\nanswers\n%s\nand the page shows\n%s", block[1], r.stdout, block[2])
		}
	}
}
