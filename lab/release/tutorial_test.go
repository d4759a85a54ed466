package release

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// numbers have digits that depend on the time that the test takes: a bucket leaks meanwhile.
var (
	clockTime = regexp.MustCompile(`(\d{4}-\d\d-\d\d )?\d\d:\d\d:\d\d`)
	decimal   = regexp.MustCompile(`\d+(\.\d+)?e-\d+|\d+\.\d+`)
	blanks    = regexp.MustCompile(` +`)
)

// masked returns an output without clock times, with decimals rounded to hundredths, and without
// the width of columns.
func masked(text string) string {
	text = clockTime.ReplaceAllString(text, "TIME")
	text = decimal.ReplaceAllStringFunc(text, func(s string) string {
		f, err := strconv.ParseFloat(s, 64)
		if err != nil {
			return s
		}
		return strings.TrimSuffix(fmt.Sprintf("%.2f", f), ".00")
	})
	return strings.TrimSpace(blanks.ReplaceAllString(text, " "))
}

// shell returns a directory outside of the repository and runs commands in it, with modules as
// their tags would publish them.
func shell(t *testing.T, modules ...string) (work string, execute func(command string) (string, error)) {
	t.Helper()
	proxy, bin, work := t.TempDir(), t.TempDir(), t.TempDir()
	for _, dir := range modules {
		publish(t, proxy, dir)
	}
	environment := append(consuming(t, proxy), "GOBIN="+bin, "PATH="+bin+string(os.PathListSeparator)+os.Getenv("PATH"), "BRIM_STORE=")
	return work, func(command string) (string, error) {
		cmd := exec.CommandContext(t.Context(), "sh", "-c", command)
		cmd.Dir, cmd.Env = work, environment
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
}

// Each command of docs/tutorial.md runs in the order of the page, in one directory outside of the
// repository, with the modules as their tags would publish them. Blocks of "sh" must succeed, and
// the output of the commands in blocks of "console" must be the one that the page shows.
func TestTutorial(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(root(t), "docs/tutorial.md"))
	if err != nil {
		t.Fatal(err)
	}
	work, execute := shell(t, ".", "cmd/brim")
	ran := 0
	for _, block := range regexp.MustCompile("(?s)```(sh|console|go)\n(.*?)```").FindAllStringSubmatch(string(page), -1) {
		switch text := block[2]; block[1] {
		case "go":
			if err := os.WriteFile(filepath.Join(work, "main.go"), []byte(text), 0o666); err != nil {
				t.Fatal(err)
			}
		case "sh":
			ran++
			if out, err := execute("set -e\n" + text); err != nil {
				t.Fatalf("%s: %v\n%s", text, err, out)
			}
		case "console":
			for step := range strings.SplitSeq("\n"+strings.TrimSpace(text), "\n$ ") {
				if step == "" {
					continue
				}
				ran++
				command, want, _ := strings.Cut(step, "\n")
				got, err := execute(command)
				if err != nil {
					t.Errorf("%s: %v", command, err)
				}
				if masked(got) != masked(want) {
					t.Errorf("%s prints\n%s\nand the page shows\n%s", command, got, want)
				}
			}
		}
	}
	if ran < 15 {
		t.Errorf("ran %d commands; the search for them is broken", ran)
	}
}

// The first command of the README runs its program, as a user would who has nothing but the README.
func TestReadme(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(root(t), "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	work, execute := shell(t, ".")
	blocks := regexp.MustCompile("(?s)```go\n(.*?)```.*?```sh\n(.*?)```").FindStringSubmatch(string(page))
	if err := os.WriteFile(filepath.Join(work, "main.go"), []byte(blocks[1]), 0o666); err != nil {
		t.Fatal(err)
	}
	if out, err := execute(blocks[2]); err != nil || !strings.HasSuffix(out, "refused; retry in 12s\n") {
		t.Errorf("%s: %v\n%s", blocks[2], err, out)
	}
}
