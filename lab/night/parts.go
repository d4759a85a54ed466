package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path"
	"regexp"
	"strings"
	"syscall"
	"time"
)

const root = ".." // of the repository; "go -C lab run" runs in the module

// parts returns all parts, in their order.
func parts() ([]part, error) {
	large := []string{"BRIM_TORTURE=1"}
	list := []part{
		{name: "random: memledger", unit: "sequences", want: 100_000, slice: 10_000, dir: ".", pkg: "./spend/memledger", run: "^TestRandom$"},
		{name: "random: boltledger", unit: "sequences", want: 20_000, slice: 2000, dir: ".", pkg: "./spend/boltledger", run: "^TestRandom$"},
		{name: "random: sqliteledger", unit: "sequences", want: 20_000, slice: 1000, dir: "sqlite/drivers", pkg: ".", run: "^TestDriver$/^random_requests$"},
		{name: "random: pgledger", unit: "sequences", want: 2000, slice: 250, dir: ".", pkg: "./spend/pgledger", run: "^TestRandom$"},
		{name: "lin", unit: "histories of each subject", want: 200, slice: 10, pkg: "./lin", run: "^TestLin$", env: large},
		{name: "lin: stops", unit: "stops of a client with a lease", want: 20, slice: 20, pkg: "./lin", run: "^TestLease$/^stops$"},
		{name: "crash: power", unit: "images of each store", want: 50_000, slice: 2500, pkg: "./crash", run: "^TestPower$"},
		{name: "crash: kills", unit: "kills of each store", want: 400, slice: 50, pkg: "./crash", run: "^TestKill$"},
		{name: "crash: errors", unit: "errors of each store", want: 4000, slice: 500, pkg: "./crash", run: "^TestErrors$", env: large},
		{name: "crash of sqlite: power", unit: "images of each store", want: 500, slice: 50, pkg: "./crash", run: "^TestPower$", tags: "sqlite"},
		{name: "crash of sqlite: kills", unit: "kills of each store", want: 400, slice: 50, pkg: "./crash", run: "^TestKill$", tags: "sqlite"},
		{name: "crash of sqlite: errors", unit: "errors of each store", want: 1000, slice: 100, pkg: "./crash", run: "^TestErrors$", env: large, tags: "sqlite"},
		{name: "sched", unit: "schedules of each subject", want: 200_000, slice: 10_000, pkg: "./sched", run: "^TestSched$"},
	}
	for _, setting := range []string{"postgres/prepared", "postgres/exec", "spend/prepared", "spend/exec", "redis/RESP3", "redis/RESP2", "redis/WAIT"} {
		list = append(list, part{
			name: "cuts: " + setting, unit: "runs with all cuts", want: 1, slice: 1, pkg: "./lin", env: large,
			run: "^TestCut$/^" + strings.ReplaceAll(setting, "/", "$/^") + "$",
		})
	}
	targets, err := matches(`^func Fuzz\w+`, "*_test.go")
	if err != nil {
		return nil, err
	}
	for _, m := range targets {
		dir, target := path.Dir(m.file), strings.TrimPrefix(m.text, "func ")
		list = append(list, part{
			name: "fuzz: " + dir + "." + target, unit: "minutes of each target", want: 3, slice: 1,
			dir: dir, pkg: ".", run: "^" + target + "$", fuzz: true,
		})
	}
	subjects, err := matches(`^\s\{"[a-z-]+`, "lab/soak/soak_test.go")
	for _, m := range subjects {
		_, subject, _ := strings.Cut(m.text, `"`)
		list = append(list, part{
			name: "soak: " + subject, unit: "minutes of each subject", want: 20, slice: 20, pkg: "./soak",
			run: "^TestFullLoad$", env: []string{"SOAK=20m", "SOAK_OF=" + subject},
		})
	}
	return list, err
}

// match is the text that a pattern matches in a file of the repository.
type match struct{ file, text string }

func matches(pattern, files string) (list []match, err error) {
	cmd := exec.Command("git", "grep", "-oE", pattern, "--", files)
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("git grep %s: %w", pattern, err)
	}
	for line := range strings.Lines(string(out)) {
		file, text, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ":")
		list = append(list, match{file, text})
	}
	return list, nil
}

// command returns the command of a slice for a shell in the root of the repository.
func (p part) command(seed uint64, count int) string {
	args := ""
	for _, a := range p.args(count) {
		if strings.ContainsAny(a, "^$ ") {
			a = "'" + a + "'"
		}
		args += " " + a
	}
	return strings.Join(p.environ(seed, count), " ") + " go" + args
}

func (p part) environ(seed uint64, count int) []string {
	return append([]string{fmt.Sprintf("BRIM_SEED=%d", seed), fmt.Sprintf("BRIM_COUNT=%d", count)}, p.env...)
}

// args returns the arguments of the command go in the root of the repository.
func (p part) args(count int) []string {
	dir := p.dir
	if dir == "" {
		dir = "lab"
	}
	args := []string{"-C", dir, "test", "-count=1", "-v", "-timeout=4h", "-tags=" + p.tags, "-run"}
	if p.fuzz {
		// By default an input that is new may be made smaller for a minute, which is the time of
		// the slice.
		return append(args, "^$", "-fuzz", p.run, fmt.Sprintf("-fuzztime=%dm", count), "-fuzzminimizetime=100x", p.pkg)
	}
	return append(args, p.run, p.pkg)
}

// logged matches the line with the number of attempts. A test prints one for each subject.
var logged = regexp.MustCompile(`(?m)(?:seed \d+[:,]|fuzz: elapsed:) (.*)$`)

// test runs a slice. A test that logs no attempts has failed: its pattern may match nothing.
func test(ctx context.Context, p part, seed uint64, count int) (log, failed string) {
	cmd := exec.CommandContext(ctx, "go", p.args(count)...)
	cmd.Dir, cmd.Env = root, append(os.Environ(), p.environ(seed, count)...)
	// The test is a grandchild. An interrupt goes to all of them.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGINT) }
	cmd.WaitDelay = 10 * time.Second
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	return judge(p, out.String(), err)
}

// late matches the end of a fuzz target that has found nothing. The coordinator of "go test" can
// take the end of -fuzztime for a failure: see https://github.com/golang/go/issues/75804. One that has
// found something writes the input to a file first, and says so.
var late = regexp.MustCompile(`(?m)^--- FAIL: \w+ \([0-9.]+s\)\n    context deadline exceeded\n`)

// judge returns the log of a slice, or why it has failed.
func judge(p part, out string, err error) (log, failed string) {
	if p.fuzz && late.MatchString(out) && !strings.Contains(out, "Failing input") {
		err = nil
	}
	lines := logged.FindAllStringSubmatch(out, -1)
	if err != nil || len(lines) == 0 {
		return "", fmt.Sprintf("%s\n%v, %d lines with attempts", out, err, len(lines))
	}
	var logs []string
	for _, l := range lines {
		logs = append(logs, l[1])
	}
	if p.fuzz {
		logs = logs[len(logs)-1:]
	}
	return strings.Join(logs, "; "), ""
}
