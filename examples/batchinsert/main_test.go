package main

import (
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The test builds and runs the program as a reader does, with a rate that keeps the test short.
func TestRun(t *testing.T) {
	bin := filepath.Join(t.TempDir(), "batchinsert")
	if out, err := exec.Command("go", "build", "-o", bin, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	file := filepath.Join(t.TempDir(), "limits.db")
	for _, test := range []struct {
		name, why string
		args      []string
		want      string
		ok        bool
	}{
		{
			name: "memory", why: "batches of 700 are split into parts of at most 300, and all 1,000 rows arrive",
			args: []string{"-rate", "20000"}, want: `(?s)waiting .*1000 rows in 6 inserts`, ok: true,
		},
		{
			name: "file", why: "the same limit over a file",
			args: []string{"-rate", "20000", "-store", file}, want: `1000 rows in 6 inserts`, ok: true,
		},
		{
			name: "file again", why: "the file exists already",
			args: []string{"-rate", "20000", "-store", file, "-rows", "100"}, want: `100 rows in 1 inserts`, ok: true,
		},
		{
			name: "invalid limit", why: "an error of the store stops the program",
			args: []string{"-rate", "-1"}, want: `no more rows are inserted: brim: invalid limit`,
		},
		{
			name: "capacity under a row", why: "no part of a batch would fit",
			args: []string{"-capacity", "0.5"}, want: `under one row`,
		},
		{
			name: "capacity too large", why: "the store refuses an invalid limit before the program splits by it",
			args: []string{"-capacity", "1e300"}, want: `no more rows are inserted: brim: invalid limit`,
		},
		{
			name: "capacity is not a number", why: "no part of a batch would fit",
			args: []string{"-capacity", "NaN"}, want: `under one row`,
		},
		{
			name: "store that cannot be opened", why: "the program inserts nothing without its limit",
			args: []string{"-store", t.TempDir()}, want: `bolt: open`,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			out, err := exec.Command(bin, test.args...).CombinedOutput()
			if (err == nil) != test.ok || !regexp.MustCompile(test.want).Match(out) {
				t.Errorf("%s printed\n%s, %v; want %s: %s", strings.Join(test.args, " "), out, err, test.want, test.why)
			}
		})
	}
}
