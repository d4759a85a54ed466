package release

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	jobHead   = regexp.MustCompile(`(?m)^  [a-z][\w-]*:$`)
	mayWrite  = regexp.MustCompile(`(?m)^ +[\w-]+: write\b|write-all`)
	step      = regexp.MustCompile(`(?m)^ +(?:- )?(uses|run): (.*)$`)
	githubs   = regexp.MustCompile(`^actions/[\w-]+@[0-9a-f]{40} # v`)
	pinned    = regexp.MustCompile(`^[\w-]+/[\w/-]+@[0-9a-f]{40} # v`)
	ownRunner = regexp.MustCompile(`^(gh|sha256sum) [^|;&` + "`" + `]*$`)
)

// TestJobsThatMayWrite has each job of each workflow that may write contents, or ask for an
// identity token, run GitHub's own programs alone: whoever takes over another program could publish
// a release.
func TestJobsThatMayWrite(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(root(t), ".github/workflows/*.yml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("workflows: %v, %v", files, err)
	}
	writing := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		head, jobs, found := strings.Cut(string(text), "\njobs:\n")
		if !found || mayWrite.MatchString(head) || !strings.Contains(head, "\npermissions:\n  contents: read\n") {
			t.Errorf("%s: all jobs may write, or there are none", file)
		}
		for _, job := range jobHead.Split(jobs, -1) {
			may := mayWrite.MatchString(job)
			if may {
				writing++
			}
			for _, s := range step.FindAllStringSubmatch(job, -1) {
				switch kind, what := s[1], s[2]; {
				case kind == "uses" && !pinned.MatchString(what):
					t.Errorf("%s: %s is not pinned by commit", file, what)
				case may && kind == "uses" && !githubs.MatchString(what), may && kind == "run" && !ownRunner.MatchString(what):
					t.Errorf("%s: a job that may write runs %s", file, what)
				}
			}
		}
	}
	if writing != 1 {
		t.Errorf("%d jobs may write; want one, which publishes", writing)
	}
}
