package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/brimgo/brim/cmd/brim/internal/bench"
)

func TestBench(t *testing.T) {
	t.Parallel()
	path := storeIn(t)
	cli(t, "try", "live", "3", "--capacity", "5", "--leak-rate", "0", "--store", path).want(t, exitOK, "accepted", "")
	args := strings.Fields("bench --callers 4 --keys 50 --duration 100ms --refused 0.5 --store " + path)
	var rep bench.Report
	cli(t, append(args, "--reference", "--json")...).decode(t, &rep)
	if rep.Store != path || rep.Callers != 4 || rep.Keys != 50 || rep.DecisionsPerSecond <= 0 || rep.Ratio == nil ||
		rep.AdmittedBeyondLimit != 0 {
		t.Errorf("got %+v", rep)
	}
	cli(t, append(args, "--reference")...).want(t, exitOK, "ratio to the reference", "")
	cli(t, "bench", "--duration", "20ms", "--store", "memory:", "--json").
		want(t, exitOK, `"reference_per_second":null,"reference_p99_ms":null,"ratio":null`, "")
	// The keys and files of the benchmark are gone, and the live bucket is unchanged.
	if r := cli(t, "list", "--store", path, "--json"); strings.Count(r.stdout, "\n") != 1 ||
		!strings.Contains(r.stdout, `"key":"live","level":3,`) {
		t.Errorf("after the benchmark the store contains %s", r.stdout)
	}
	if left, _ := os.ReadDir(filepath.Dir(path)); len(left) != 1 {
		t.Errorf("the benchmark has left %v", left)
	}
}

func TestBenchInterrupted(t *testing.T) {
	path := storeIn(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	var stdout, stderr bytes.Buffer
	done := make(chan int)
	go func() {
		done <- run(ctx, []string{"bench", "--duration", "1h", "--keys", "5000", "--reference", "--store", path}, strings.NewReader(""), &stdout, &stderr)
	}()
	// The benchmark creates the file of the reference before it creates its keys. When the file
	// exists, the benchmark is at work.
	for len(glob(t, filepath.Join(filepath.Dir(path), "brim-bench-*"))) == 0 {
		time.Sleep(time.Millisecond)
	}
	cancel(signalError{syscall.SIGTERM})
	code := <-done
	result{code, stdout.String(), stderr.String()}.want(t, 143, "", "ended by signal: terminated")
	cli(t, "list", "--store", path).want(t, exitOK, "", "")
	if left, _ := os.ReadDir(filepath.Dir(path)); len(left) != 1 {
		t.Errorf("the benchmark has left %v", left)
	}
}

// An interrupt after the warm-up of 0.2 s prints the report of all decisions before it.
func TestBenchReportsUntilTheInterrupt(t *testing.T) {
	t.Parallel()
	for report, args := range map[string][]string{
		`"complete":false`:          {"--json"},
		"complete               no": nil,
	} {
		for wait := time.Second; ; wait *= 2 { // a busy machine may still warm up
			ctx, cancel := context.WithCancelCause(t.Context())
			time.AfterFunc(wait, func() { cancel(signalError{syscall.SIGINT}) })
			r := cliIn(t, ctx, "", append(args, strings.Fields("bench --duration 1h --keys 5 --store memory:")...)...)
			if r.stdout != "" || wait > time.Minute {
				r.want(t, 130, report, "ended by signal: interrupt")
				break
			}
		}
	}
}

func glob(t *testing.T, pattern string) []string {
	t.Helper()
	found, err := filepath.Glob(pattern)
	if err != nil {
		t.Fatal(err)
	}
	return found
}
