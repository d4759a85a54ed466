//go:build linux

package mutate

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// binary is the test binary of a package.
type binary struct {
	pkg, dir, path string
	flags          []string
	tests          []*test
}

// test is a test function, an example, a fuzz target with its seeds, or a subtest.
type test struct {
	bin   *binary
	name  string // with the names of the tests around a subtest, as "go test -v" writes it
	took  time.Duration
	seen  []byte // for each mutant: 1 if it makes a difference in this test
	kills atomic.Int64
}

// worth is the number of mutants that the test kills in a second.
func (t *test) worth() float64 {
	return float64(t.kills.Load()+1) / (t.took + 5*time.Millisecond).Seconds()
}

// outcome is the end of a run of some tests.
type outcome uint8

const (
	passed outcome = iota
	failed
	late
)

// lab builds test binaries and runs them.
type lab struct {
	dir string
	env []string // added to the environment of tests
	n   atomic.Int64
}

// newLab returns a lab that keeps its files in dir.
func newLab(dir string, env ...string) *lab {
	for _, e := range os.Environ() {
		// These would make the tests of brim longer, or write into the report.
		if !strings.HasPrefix(e, "BRIM_TORTURE=") && !strings.HasPrefix(e, "BRIM_REPORT=") {
			env = append(env, e)
		}
	}
	return &lab{dir: dir, env: env}
}

// path returns a new name in the lab.
func (l *lab) path(kind string) string {
	return filepath.Join(l.dir, fmt.Sprintf("%s%d", kind, l.n.Add(1)))
}

var errNotBuilt = errors.New("mutate: the tests do not compile")

// build makes the test binary of a package. It returns nil if the package has no tests.
func (l *lab) build(module, pkg, dir string, short bool, flags ...string) (*binary, error) {
	b := &binary{pkg: pkg, dir: dir, path: l.path("test")}
	if short {
		b.flags = append(b.flags, "-test.short")
	}
	args := append([]string{"test", "-c", "-vet=off", "-ldflags=-w", "-o", b.path}, flags...)
	cmd := exec.Command("go", append(args, pkg)...)
	cmd.Dir = module
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%w: %s: %w\n%s", errNotBuilt, pkg, err, out)
	}
	if _, err := os.Stat(b.path); errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	cmd = exec.Command(b.path, "-test.list=^(Test|Example|Fuzz)")
	cmd.Dir = dir
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("mutate: list the tests of %s: %w", pkg, err)
	}
	// Rapid would leave files about failures in the tree.
	const quiet = "-rapid.nofailfile"
	help, _ := exec.Command(b.path, "-help").CombinedOutput() // ends with status 2
	if bytes.Contains(help, []byte(quiet)) {
		b.flags = append(b.flags, quiet)
	}
	for _, name := range strings.Fields(string(out)) {
		if regexp.MustCompile(`^(Test|Example|Fuzz)\w*$`).MatchString(name) {
			b.tests = append(b.tests, &test{bin: b, name: name})
		}
	}
	return b, nil
}

// pattern returns the argument of -test.run for tests.
func pattern(tests []*test) string {
	patterns := make([]string, len(tests))
	for i, t := range tests {
		patterns[i] = "^" + strings.ReplaceAll(regexp.QuoteMeta(t.name), "/", "$/^") + "$"
	}
	return strings.Join(patterns, "|")
}

// run runs tests of a binary. env has further variables. A run that exceeds limit is late, and is
// killed together with its children.
func (l *lab) run(b *binary, tests []*test, limit time.Duration, env ...string) (outcome, []byte, error) {
	tmp := l.path("tmp")
	if err := os.Mkdir(tmp, 0o755); err != nil {
		return 0, nil, err
	}
	defer os.RemoveAll(tmp)
	ctx, stop := context.WithTimeout(context.Background(), limit)
	defer stop()
	args := []string{"-test.failfast", "-test.v", "-test.timeout=0", "-test.run=" + pattern(tests)}
	cmd := exec.CommandContext(ctx, b.path, append(args, b.flags...)...)
	cmd.Dir, cmd.Env = b.dir, slices.Concat(l.env, env, []string{"TMPDIR=" + tmp})
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second
	err := cmd.Run()
	switch exit := (*exec.ExitError)(nil); {
	case ctx.Err() != nil:
		return late, out.Bytes(), nil
	case err == nil:
		return passed, out.Bytes(), nil
	case errors.As(err, &exit), errors.Is(err, exec.ErrWaitDelay):
		return failed, out.Bytes(), nil
	}
	return 0, nil, err
}

// record runs every test of a binary by itself, and notes the mutants that make a difference
// there. If slowest is not 0, a test that takes longer is divided into its subtests, and a slow
// test that has none is left out.
func (l *lab) record(b *binary, mutants int, slowest time.Duration) error {
	var mutex sync.Mutex
	for tests := b.tests; len(tests) > 0; {
		var parts []*test
		err := each(tests, func(t *test) error {
			out, err := l.recordOne(t, mutants)
			if err == nil && slowest == 0 && t.took >= patience {
				err = fmt.Errorf("mutate: %s of %s does not end without a mutant", t.name, b.pkg)
			}
			if err != nil || slowest == 0 || t.took <= slowest {
				return err
			}
			mutex.Lock()
			defer mutex.Unlock()
			t.seen, parts = nil, append(parts, subtests(t, out)...)
			return nil
		})
		if err != nil {
			return err
		}
		b.tests = append(slices.DeleteFunc(b.tests, func(t *test) bool { return t.seen == nil }), parts...)
		tests = parts
	}
	return nil
}

// patience is the time that a test may take without a mutant. A slower one is cut off, and only the
// subtests that it has begun are known.
const patience = 10 * time.Minute

// recordOne runs a test without a mutant, and returns its output.
func (l *lab) recordOne(t *test, mutants int) ([]byte, error) {
	seen := l.path("seen")
	if err := os.WriteFile(seen, make([]byte, mutants+1), 0o644); err != nil {
		return nil, err
	}
	defer os.Remove(seen)
	start := time.Now()
	got, out, err := l.run(t.bin, []*test{t}, patience, "BRIM_MUTANT_SEEN="+seen)
	if err != nil {
		return nil, err
	}
	if got == failed {
		return nil, fmt.Errorf("mutate: %s of %s fails without a mutant:\n%s", t.name, t.bin.pkg, out)
	}
	t.took = time.Since(start)
	t.seen, err = os.ReadFile(seen)
	return out, err
}

var begun = regexp.MustCompile(`(?m)^=== RUN +(\S+)$`)

// subtests returns the subtests of t according to its output, without their own subtests.
func subtests(t *test, out []byte) (parts []*test) {
	within := func(name, outer string) bool { return strings.HasPrefix(name, outer+"/") }
	for _, m := range begun.FindAllSubmatch(out, -1) {
		name := string(m[1])
		known := slices.ContainsFunc(parts, func(p *test) bool { return p.name == name || within(name, p.name) })
		if within(name, t.name) && !known {
			parts = append(parts, &test{bin: t.bin, name: name})
		}
	}
	return parts
}

// workers is the number of tests that run at once.
const workers = 2

// each calls fn for all elements, on as many goroutines as there are workers. After an error, it
// does not begin another element.
func each[T any](all []T, fn func(T) error) error {
	var next atomic.Int64
	errs := make(chan error, workers)
	for range workers {
		go func() {
			for {
				i := int(next.Add(1)) - 1
				if i >= len(all) {
					errs <- nil
					return
				}
				if err := fn(all[i]); err != nil {
					next.Store(int64(len(all)))
					errs <- err
					return
				}
			}
		}()
	}
	var err error
	for range workers {
		err = errors.Join(err, <-errs)
	}
	return err
}
