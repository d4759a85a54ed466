// Command quick reads the output of "go test -json". It prints the packages, the output of tests
// that fail, and at the end how many tests of which packages were skipped, and why. Its exit status
// is 1 if a test or a package failed.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
)

// event is a line of "go test -json"; see "go doc test2json".
type event struct {
	Action, Package, ImportPath, Test, Output string
}

// where is the place in the source that stands before a message of a test.
var where = regexp.MustCompile(`^\s*\S+\.go:\d+: `)

// report copies lines about packages and failures from r to w, and then tells about skipped tests.
func report(w io.Writer, r io.Reader) (failed bool, err error) {
	type test struct{ pkg, name string }
	output := make(map[test][]string)  // of tests that have not ended
	tests := make(map[string]int)      // that ended, by package
	skipped := make(map[[2]string]int) // by package and reason
	d := json.NewDecoder(bufio.NewReader(r))
	for {
		var e event
		switch err := d.Decode(&e); {
		case err == io.EOF:
			for _, key := range slices.SortedFunc(maps.Keys(skipped), func(a, b [2]string) int { return slices.Compare(a[:], b[:]) }) {
				fmt.Fprintf(w, "skipped %d of %d tests of %s: %s\n", skipped[key], tests[key[0]], key[0], key[1])
			}
			return failed, nil
		case err != nil:
			return true, fmt.Errorf("reading the output of go test -json: %w", err)
		}
		at := test{e.Package, e.Test}
		lines := output[at]
		switch e.Action {
		case "build-output":
			fmt.Fprint(w, e.Output)
		case "build-fail":
			failed = true
		case "output":
			if e.Test != "" || !strings.HasPrefix(e.Output, "ok ") {
				output[at] = append(lines, e.Output)
				break
			}
			fmt.Fprint(w, e.Output)
		case "pass", "skip", "fail":
			delete(output, at)
			if e.Action == "fail" {
				failed = true
				fmt.Fprint(w, strings.Join(lines, ""))
			}
			if e.Test == "" {
				break
			}
			tests[e.Package]++
			if e.Action == "skip" {
				skipped[[2]string{e.Package, reason(lines)}]++
			}
		}
	}
}

// reason returns the message of a skipped test.
func reason(output []string) string {
	for _, line := range output {
		if at := where.FindString(line); at != "" {
			return strings.TrimSpace(strings.TrimPrefix(line, at))
		}
	}
	return "no reason is given"
}

func main() {
	failed, err := report(os.Stdout, os.Stdin)
	if err != nil {
		fmt.Fprintln(os.Stderr, "quick:", err)
	}
	if failed {
		os.Exit(1)
	}
}
