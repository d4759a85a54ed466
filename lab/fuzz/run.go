package fuzz

import (
	"context"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// each is the time of one target in a night.
const each = 2 * time.Minute

// target is a fuzz test.
type target struct {
	pkg, name string
	seeded    bool // has a seed corpus
}

// command returns a command of go in the directory of a module.
func command(ctx context.Context, dir string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = dir
	return cmd
}

// list returns all targets of a module, sorted. It reads the sources, so it compiles nothing.
func list(ctx context.Context, dir string) (all []target, err error) {
	const format = `{{$p := .}}{{range .TestGoFiles}}{{$p.ImportPath}} {{$p.Dir}} {{.}}{{"\n"}}{{end}}` +
		`{{range .XTestGoFiles}}{{$p.ImportPath}} {{$p.Dir}} {{.}}{{"\n"}}{{end}}`
	out, err := command(ctx, dir, "list", "-f", format, "./...").Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	for line := range strings.Lines(string(out)) {
		fields := strings.Fields(line)
		if len(fields) != 3 {
			continue
		}
		path := filepath.Join(fields[1], fields[2])
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		for _, d := range file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil && strings.HasPrefix(f.Name.Name, "Fuzz") {
				all = append(all, target{pkg: fields[0], name: f.Name.Name, seeded: seeded(f, fields[1])})
			}
		}
	}
	slices.SortFunc(all, func(a, b target) int { return strings.Compare(a.pkg+"."+a.name, b.pkg+"."+b.name) })
	return all, nil
}

// seeded reports whether a target of the package in dir calls Add, or has files of seeds.
func seeded(f *ast.FuncDecl, dir string) (adds bool) {
	ast.Inspect(f, func(n ast.Node) bool {
		if method, ok := n.(*ast.SelectorExpr); ok && method.Sel.Name == "Add" {
			on, ok := method.X.(*ast.Ident)
			adds = adds || ok && on.Name == f.Type.Params.List[0].Names[0].Name
		}
		return true
	})
	files, err := os.ReadDir(filepath.Join(dir, "testdata", "fuzz", f.Name.Name))
	return adds || err == nil && len(files) > 0
}

var executions = regexp.MustCompile(`execs: (\d+)`)

// fuzz runs a target for d. The result is the number of executions, and the output if the target
// fails. Go then keeps the input under testdata and prints the command that repeats it.
func (t target) fuzz(ctx context.Context, dir string, d time.Duration) (execs int, failure string) {
	out, err := command(ctx, dir, "test", "-run", "^$", "-fuzz", "^"+t.name+"$", "-fuzztime", d.String(), t.pkg).
		CombinedOutput()
	for _, m := range executions.FindAllSubmatch(out, -1) {
		execs, _ = strconv.Atoi(string(m[1])) // the text is digits, and the last line counts
	}
	if err != nil {
		failure = fmt.Sprintf("%v\n%s", err, out)
	}
	return execs, failure
}

// turn returns the targets of a night: all of them, or as many as the budget allows, beginning
// where the turn of the day before has ended.
func turn(all []target, budget time.Duration, day int) []target {
	n := min(len(all), int(budget/each))
	if n == 0 {
		return nil
	}
	from := day * n % len(all)
	return slices.Concat(all[from:], all[:from])[:n]
}
