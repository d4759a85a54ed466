package main

import (
	"context"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
)

// TestAlgorithmsPage is about the tables, and this test about the rest.
func TestSimulate(t *testing.T) {
	args := strings.Fields("simulate --rate 40 --duration 500ms --capacity 10 --leak-rate 5")
	var s simulationJSON
	cli(t, append(args, "--json")...).decode(t, &s)
	if len(s.Limits) != 1 || s.Limits[0].Accepted != 12 || s.Limits[0].Refused != 8 || s.Limits[0].Busiest != 20 || !s.Complete {
		t.Errorf("got %+v; want 12 of 20 accepted", s)
	}
	// A queue serves five a second: a caller waits 175 ms longer than the one before.
	queue := append(args, "--queue", "--timeout", "1s")
	cli(t, append(queue, "--json")...).decode(t, &s)
	if l := s.Limits[0]; l.Served != 12 || l.TooLate != 6 || l.Through != 5 {
		t.Errorf("a queue: %+v; want 12 served, six of them after 1 s, and at most 5 in a second", l)
	}
	cli(t, queue...).want(t, exitOK, "of them too late                6\n", "")
	path := filepath.Join(t.TempDir(), "burst.svg")
	cli(t, append(args, "--plot", path)...).want(t, exitOK, "callers served                 12\n", "the picture is in")
	svg, err := os.ReadFile(path)
	if crosses := strings.Count(string(svg), "<path"); err != nil || crosses != 8 {
		t.Errorf("%v, %d refusals are marked; want 8", err, crosses)
	}
	cli(t, strings.Fields("simulate --pattern poisson --rate 0.001 --duration 1s --capacity 1 --leak-rate 1")...).
		want(t, exitData, "", "no requests")
}

// A limit is the same one in one flag as in two, its exact time included.
func TestSimulateLimit(t *testing.T) {
	for one, two := range map[string]string{
		"--limit 60/1m":  "--capacity 60 --over 1m",
		"--limit 7/d":    "--capacity 7 --over 24h",
		"--limit 3/365d": "--capacity 3 --over 365d",
		"--limit 60@0.7": "--capacity 60 --leak-rate 0.7",
	} {
		for _, way := range []string{"", " --compare"} {
			call := "simulate --rate 10 --duration 20s" + way + " "
			got, want := cli(t, strings.Fields(call+one)...), cli(t, strings.Fields(call+two)...)
			if got != want || got.code != exitOK {
				t.Errorf("%s answers %+v, and %s %+v", one, got, two, want)
			}
		}
	}
}

func TestSimulateEach(t *testing.T) {
	var s simulationJSON
	limit := []string{"simulate", "--capacity", "3", "--leak-rate", "1.5", "--each"}
	with := func(more ...string) []string { return append(limit[:len(limit):len(limit)], more...) }
	cli(t, with("--at", "1s,2@1.7s,2s,2@2.3s,3@6s", "--fillup", "--json")...).decode(t, &s)
	if len(s.Decisions) != 5 || s.Pattern != "listed" {
		t.Fatalf("got %+v; want five decisions", s)
	}
	if d := s.Decisions[3]; d.At != 2.3 || d.Cost != 2 || d.Level != 3 || d.Accepted || !d.Full || math.Abs(d.Spilled-1.1) > 1e-9 {
		t.Errorf("the fourth fill is %+v; want 1.1 of 2 lost at level 3", d)
	}
	cli(t, with("--at", "4@0s")...).want(t, exitOK, "never", "")
	cli(t, with("--at", "0s,0s", "--keys", "2")...).want(t, exitOK, "client-1", "")
	cli(t, with("--at", "0s,0s,0s,200ms", "--queue", "--max-wait", "1s", "--json")...).decode(t, &s)
	if d := s.Decisions; math.Abs(d[1].Turn-2./3) > 1e-6 || d[2].Accepted || math.Abs(*d[2].RetryAfter-1./3) > 2e-6 {
		t.Errorf("the queue is %+v; want the second turn after 2/3 s, and no third within 1 s", d)
	}
	cli(t, with("--at", "0s,3@0s,9s", "--penalty", "8s")...).want(t, exitOK, "  9s     1  accepted", "")
	for why, args := range map[string][]string{
		"--at lists the arrivals": {"--at", "0s", "--rate", "1"},
		"a cost and a time":       {"--at", "x@0s"},
		"not a duration":          {"--at", "0s,,1s"},
		"in the order of time":    {"--at", "2s,1s"},
		"too many to list":        {"--rate", "1000", "--duration", "1h"},
		"leave out --fillup":      {"--at", "0s", "--attempts", "2", "--fillup"},
		"needs a queue":           {"--at", "0s", "--max-wait", "1s"},
		"choose one":              {"--at", "0s", "--queue", "--penalty", "1s"},
		"--penalty is":            {"--at", "0s", "--penalty", "soon"},
		"--queue needs a limit":   {"--at", "0s", "--queue", "--leak-rate", "0"},
		"--queue and --penalty":   {"--at", "0s", "--compare", "--each=false", "--queue"},
		"--timeout needs callers": {"--at", "0s", "--timeout", "1s"},
		"--each and --timeout":    {"--at", "0s", "--compare", "--each=false", "--queue", "--timeout", "1s"},
	} {
		cli(t, with(args...)...).want(t, exitUsage, "", why)
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
	if len(c.Algorithms) != 8 || c.Window != 10 || !c.Complete {
		t.Fatalf("got %+v; want eight algorithms and a window of 10 s", c)
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

// Every answer in docs/algorithms.md, docs/queues.md and docs/texts.md is the output of the command
// above it. The binary answers, since the race detector would make the long simulations ten times
// slower, and they are one goroutine each.
func TestAlgorithmsPage(t *testing.T) {
	var pages strings.Builder
	for _, name := range []string{"algorithms.md", "queues.md", "texts.md"} {
		text, err := os.ReadFile("../../docs/" + name)
		if err != nil {
			t.Fatal(err)
		}
		pages.Write(text)
	}
	page := pages.String()
	blocks := regexp.MustCompile("(?s)```console\n\\$ brim ([^\n]*)\n(.*?)```").FindAllStringSubmatch(page, -1)
	if len(blocks) != 36 || strings.Count(page, "```") != 2*len(blocks) {
		t.Errorf("the pages have %d commands of brim; want 36, and no other blocks", len(blocks))
	}
	for _, block := range blocks {
		r := execute(t, strings.Fields(block[1])...)
		if r != (result{stdout: block[2]}) { // no line of progress either: stderr is a pipe
			t.Errorf("brim %s\nanswers\n%s%s\nand the page shows\n%s", block[1], r.stdout, r.stderr, block[2])
		}
	}
}
