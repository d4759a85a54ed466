package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/google/licenseclassifier/v2/assets"
)

// allowed are the licences that a dependency may have. All of them permit use in programs under
// any licence, if their text comes along: the archives hold the texts.
var allowed = []string{"MIT", "BSD-2-Clause", "BSD-3-Clause", "Apache-2.0", "ISC", "PostgreSQL"}

// forTests are modules with another licence, by path. Only store/storetest imports them, for tests
// of backends: no program may link them.
var forTests = map[string]string{"pgregory.net/rapid": "MPL-2.0"}

// dependency is a module that a module of the repository links.
type dependency struct {
	Path, Version, Dir string
	Licences           []string `json:"-"` // SPDX identifiers, sorted
	Texts              []string `json:"-"` // the texts of its licences and notices
}

// licences finds the modules that a user of an importable module, or the command line, links on
// any of the platforms. It is an error if the licence of one is unknown or not allowed.
func (r *repository) licences(ctx context.Context, platforms []string) (map[string]*dependency, error) {
	dirs, err := r.importable()
	if err != nil {
		return nil, err
	}
	modules := make(map[string]*dependency)
	for _, dir := range dirs {
		for _, platform := range platforms {
			if err := r.linked(ctx, dir, platform, modules); err != nil {
				return nil, err
			}
		}
	}
	goroot, err := r.command(ctx, ".", nil, "go", "env", "GOROOT", "GOVERSION")
	if err != nil {
		return nil, err
	}
	if env := strings.Fields(string(goroot)); len(env) == 2 {
		modules["std"] = &dependency{Path: "std", Version: env[1], Dir: env[0]}
	}
	classifier, err := assets.DefaultClassifier()
	if err != nil {
		return nil, err
	}
	var problems []error
	for _, m := range sorted(modules) {
		if err := m.read(); err != nil {
			return nil, err
		}
		for _, text := range m.Texts {
			for _, match := range classifier.Match([]byte(text)).Matches {
				if match.MatchType == "License" && !slices.Contains(m.Licences, match.Name) {
					m.Licences = append(m.Licences, match.Name)
				}
			}
		}
		slices.Sort(m.Licences)
		bad := func(name string) bool { return !slices.Contains(allowed, name) && forTests[m.Path] != name }
		if len(m.Licences) == 0 {
			problems = append(problems, fmt.Errorf("%s %s: no licence was recognized", m.Path, m.Version))
		} else if slices.ContainsFunc(m.Licences, bad) {
			problems = append(problems, fmt.Errorf("%s %s: its licence %v is not on the list of allowed ones", m.Path, m.Version, m.Licences))
		}
	}
	if err := errors.Join(problems...); err != nil {
		return nil, err
	}
	r.say("licences of %d dependencies: all allowed (%s)", len(modules), strings.Join(allowed, ", "))
	return modules, nil
}

// linked adds the modules whose packages the packages of a directory's module import.
func (r *repository) linked(ctx context.Context, dir, platform string, modules map[string]*dependency) error {
	goos, goarch, ok := strings.Cut(platform, "/")
	if !ok {
		return fmt.Errorf("platform %q is not like linux/amd64", platform)
	}
	out, err := r.command(ctx, dir, []string{"GOOS=" + goos, "GOARCH=" + goarch, "CGO_ENABLED=0"},
		"go", "list", "-deps", "-json=Module", "./...")
	if err != nil {
		return err
	}
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p struct{ Module *dependency }
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		if m := p.Module; m != nil && m.Path != rootPath && !strings.HasPrefix(m.Path, rootPath+"/") {
			modules[m.Path] = m
		}
	}
}

var licenceFile = regexp.MustCompile(`(?i)^(licen[cs]e|copying|notice)([.-].*)?$`)

// read reads the licences and notices of the module, in order of name.
func (m *dependency) read() error {
	files, err := os.ReadDir(m.Dir)
	if err != nil {
		return fmt.Errorf("%s %s: %w; run \"go mod download\" first", m.Path, m.Version, err)
	}
	for _, f := range files {
		if f.Type().IsRegular() && licenceFile.MatchString(f.Name()) {
			text, err := os.ReadFile(filepath.Join(m.Dir, f.Name()))
			if err != nil {
				return err
			}
			m.Texts = append(m.Texts, string(text))
		}
	}
	return nil
}

func sorted(modules map[string]*dependency) []*dependency {
	list := make([]*dependency, 0, len(modules))
	for _, m := range modules {
		list = append(list, m)
	}
	slices.SortFunc(list, func(a, b *dependency) int { return cmp.Compare(a.Path, b.Path) })
	return list
}

// licenceList returns the modules with their licences as CSV.
func licenceList(modules map[string]*dependency) []byte {
	var list bytes.Buffer
	list.WriteString("module,version,licences\n")
	for _, m := range sorted(modules) {
		fmt.Fprintf(&list, "%s,%s,%s\n", m.Path, m.Version, strings.Join(m.Licences, " "))
	}
	return list.Bytes()
}

// notices returns the file with the licences of the modules that a program links.
func notices(linked []link) member {
	var all bytes.Buffer
	for _, l := range linked {
		fmt.Fprintf(&all, "%s %s (%s)\n\n%s\n\n", l.Path, l.Version, strings.Join(l.Licences, " "), strings.Join(l.Texts, "\n\n"))
	}
	return member{name: "LICENCES-OF-DEPENDENCIES.txt", text: all.Bytes()}
}
