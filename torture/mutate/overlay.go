package mutate

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

//go:embed mutant/mutant.go
var switches []byte

// overlay writes files that take the place of others, and returns the argument for the go command.
// It keeps them in dir.
func overlay(dir string, files map[string][]byte) (flag string, err error) {
	replace := make(map[string]string)
	for i, path := range slices.Sorted(maps.Keys(files)) {
		replace[path] = filepath.Join(dir, strconv.Itoa(i), filepath.Base(path))
		if err := os.MkdirAll(filepath.Dir(replace[path]), 0o755); err != nil {
			return "", err
		}
		if err := os.WriteFile(replace[path], files[path], 0o644); err != nil {
			return "", err
		}
	}
	text, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	name := filepath.Join(dir, "overlay.json")
	return "-overlay=" + name, os.WriteFile(name, text, 0o644)
}

// schema writes the overlay with all mutants. Where a switch does not compile, for instance
// because the expression must be constant, the mutants of its line get no switch and are compiled
// alone.
func (p *Package) schema(dir string) (flag string, err error) {
	for range len(p.files) * 10 {
		files := map[string][]byte{filepath.Join(p.Module, "internal", "mutant", "mutant.go"): switches}
		for _, f := range p.files {
			if len(f.edits.before) > 0 {
				files[f.path] = f.rewritten()
			}
		}
		if flag, err = overlay(dir, files); err != nil {
			return "", err
		}
		cmd := exec.Command("go", "build", "-gcflags=-e", flag, p.Path)
		cmd.Dir = p.Module
		out, err := cmd.CombinedOutput()
		if err == nil {
			return flag, nil
		}
		if !p.withdraw(string(out)) {
			return "", fmt.Errorf("mutate: %s with its mutants: %w\n%s", p.Path, err, out)
		}
	}
	return "", fmt.Errorf("mutate: %s does not compile with its mutants", p.Path)
}

// rewritten returns the file with its switches.
func (f *file) rewritten() []byte {
	head := ""
	for _, path := range slices.Sorted(maps.Keys(f.imports)) {
		head += fmt.Sprintf("; import %s %q", f.imports[path], path)
	}
	f.edits.after[int(f.syntax.Name.End()-f.syntax.FileStart)] = head
	return []byte(f.edits.apply(f.src) + "\nvar _ = mutant.On\n")
}

var position = regexp.MustCompile(`(?m)^(\S+\.go):(\d+):`)

// withdraw takes the switches out of the lines that the compiler complains about. It reports
// whether there were any.
func (p *Package) withdraw(complaints string) (some bool) {
	for _, at := range position.FindAllStringSubmatch(complaints, -1) {
		line, err := strconv.Atoi(at[2])
		if err != nil {
			continue
		}
		for _, f := range p.files {
			if filepath.Base(at[1]) == filepath.Base(f.path) {
				some = f.edits.clear(f.src, line) || some
			}
		}
		for _, m := range p.Mutants {
			if filepath.Base(at[1]) == filepath.Base(m.file.path) && m.line() == line {
				m.alone = true
			}
		}
	}
	return some
}

// clear drops the edits of a line.
func (e edits) clear(src []byte, line int) (some bool) {
	within := func(offset int) bool {
		found := 1+strings.Count(string(src[:offset]), "\n") == line
		some = some || found
		return found
	}
	maps.DeleteFunc(e.before, func(o int, _ string) bool { return within(o) })
	maps.DeleteFunc(e.after, func(o int, _ string) bool { return within(o) })
	maps.DeleteFunc(e.instead, func(o int, _ replacement) bool { return within(o) })
	return some
}
