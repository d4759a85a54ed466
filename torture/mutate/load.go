package mutate

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
)

// Package is a package with its syntax, its types and its mutants.
type Package struct {
	Module  string // the directory of its module
	Path    string // its import path
	Mutants []*Mutant

	prefix   string // the import path of its module
	dir      string
	fset     *token.FileSet
	files    []*file
	info     types.Info
	importer types.Importer
}

type file struct {
	path    string
	src     []byte
	syntax  *ast.File
	edits   edits
	imports map[string]string // names of packages that the edits use
}

// listed is the part of "go list -json" that the harness reads.
type listed struct {
	ImportPath, Dir, Export string
	GoFiles, Deps           []string
	Module                  struct{ Path string }
}

// list runs "go list -json" in a directory.
func list(dir string, args ...string) ([]listed, error) {
	cmd := exec.Command("go", append([]string{"list", "-json=ImportPath,Dir,Export,GoFiles,Deps,Module"}, args...)...)
	cmd.Dir = dir
	out, err := cmd.Output()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return nil, fmt.Errorf("mutate: go list: %w: %s", err, exit.Stderr)
	}
	if err != nil {
		return nil, fmt.Errorf("mutate: go list: %w", err)
	}
	var all []listed
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var l listed
		if err := dec.Decode(&l); errors.Is(err, io.EOF) {
			return all, nil
		} else if err != nil {
			return nil, fmt.Errorf("mutate: go list: %w", err)
		}
		all = append(all, l)
	}
}

// Load reads a package of the module in a directory, and makes its mutants.
func Load(module, path string) (*Package, error) {
	module, err := filepath.Abs(module)
	if err != nil {
		return nil, err
	}
	all, err := list(module, "-export", "-deps", path)
	if err != nil {
		return nil, err
	}
	exports := make(map[string]string)
	for _, l := range all {
		exports[l.ImportPath] = l.Export
	}
	self := all[len(all)-1] // its dependencies come first
	p := &Package{Module: module, Path: self.ImportPath, prefix: self.Module.Path, dir: self.Dir, fset: token.NewFileSet()}
	p.importer = importer.ForCompiler(p.fset, "gc", func(path string) (io.ReadCloser, error) {
		return os.Open(exports[path])
	})
	for _, name := range self.GoFiles {
		f := &file{path: filepath.Join(self.Dir, name)}
		if f.src, err = os.ReadFile(f.path); err != nil {
			return nil, err
		}
		if f.syntax, err = parser.ParseFile(p.fset, f.path, f.src, parser.SkipObjectResolution); err != nil {
			return nil, err
		}
		p.files = append(p.files, f)
	}
	p.info = types.Info{
		Types: make(map[ast.Expr]types.TypeAndValue),
		Uses:  make(map[*ast.Ident]types.Object),
	}
	if err := p.check(nil, nil, &p.info); err != nil {
		return nil, fmt.Errorf("mutate: %s: %w", path, err)
	}
	for _, f := range p.files {
		generate(p, f)
	}
	nameEach(p.Mutants)
	return p, nil
}

// check compiles the package without making code, with other syntax in the place of that of one
// file.
func (p *Package) check(instead *file, by *ast.File, info *types.Info) error {
	syntax := make([]*ast.File, len(p.files))
	for i, f := range p.files {
		syntax[i] = f.syntax
		if f == instead {
			syntax[i] = by
		}
	}
	conf := types.Config{Importer: p.importer}
	_, err := conf.Check(p.Path, p.fset, syntax, info)
	return err
}

// Compiles reports whether a mutant does.
func (p *Package) Compiles(m *Mutant) bool {
	syntax, err := parser.ParseFile(p.fset, m.file.path, m.source(), parser.SkipObjectResolution)
	return err == nil && p.check(m.file, syntax, nil) == nil
}
