package main

import (
	"strings"
	"testing"
)

func TestReport(t *testing.T) {
	const (
		ok = `{"Action":"run","Package":"p","Test":"TestA"}
{"Action":"output","Package":"p","Test":"TestA","Output":"    a.go:1: noise of a server\n"}
{"Action":"pass","Package":"p","Test":"TestA"}
`
		skip = `{"Action":"output","Package":"p","Test":"TestB","Output":"=== RUN   TestB\n"}
{"Action":"output","Package":"p","Test":"TestB","Output":"    b_test.go:7: -short leaves out B\n"}
{"Action":"skip","Package":"p","Test":"TestB"}
`
		end = `{"Action":"output","Package":"p","Output":"PASS\n"}
{"Action":"output","Package":"p","Output":"ok  \tp\t0.1s\n"}
{"Action":"pass","Package":"p"}
`
		fail = `{"Action":"output","Package":"p","Test":"TestC","Output":"    c_test.go:3: got 1, want 2\n"}
{"Action":"fail","Package":"p","Test":"TestC"}
{"Action":"output","Package":"p","Output":"FAIL\tp\t0.1s\n"}
{"Action":"fail","Package":"p"}
`
		build = `{"ImportPath":"q","Action":"build-output","Output":"q.go:1: no\n"}
{"ImportPath":"q","Action":"build-fail"}
`
	)
	for _, c := range []struct {
		name, in, want string
		failed         bool
	}{
		{"the output of a test that passes is left out", ok + end, "ok  \tp\t0.1s\n", false},
		{
			"skipped tests are counted by package and reason", ok + skip + skip + end,
			"ok  \tp\t0.1s\nskipped 2 of 3 tests of p: -short leaves out B\n", false,
		},
		{"a failure shows its output", ok + fail, "    c_test.go:3: got 1, want 2\nFAIL\tp\t0.1s\n", true},
		{"so does a package that does not build", build, "q.go:1: no\n", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			var got strings.Builder
			failed, err := report(&got, strings.NewReader(c.in))
			if got.String() != c.want || failed != c.failed || err != nil {
				t.Errorf("failed = %v, %v, and\n%s\nwant failed = %v and\n%s", failed, err, got.String(), c.failed, c.want)
			}
		})
	}
	if failed, err := report(&strings.Builder{}, strings.NewReader("go: no such package")); err == nil || !failed {
		t.Error("words that are not of test2json pass for success")
	}
}
