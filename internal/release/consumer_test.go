package main

import (
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/mod/module"
	"golang.org/x/mod/zip"
)

// here is the checkout that this package is in.
func here(t *testing.T) *repository {
	t.Helper()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	return &repository{root: root, tools: filepath.Join(root, "internal/release/go.mod"), out: t.Output()}
}

// file is a file of a module, whose content may differ from that on disk.
type file struct {
	name, path string
	text       []byte // nil: the content on disk
}

func (f file) Path() string                { return f.name }
func (f file) Lstat() (os.FileInfo, error) { return os.Lstat(f.path) }
func (f file) Open() (io.ReadCloser, error) {
	if f.text != nil {
		return io.NopCloser(strings.NewReader(string(f.text))), nil
	}
	return os.Open(f.path)
}

// publish writes a module of the checkout, as its tag would publish it, to the directory of a
// proxy.
func publish(t *testing.T, r *repository, proxy, dir, version string) {
	t.Helper()
	files, err := r.files(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	gomod, err := os.ReadFile(filepath.Join(r.root, dir, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	if dir != "." {
		if gomod, err = requiring(gomod, version); err != nil {
			t.Fatal(err)
		}
	}
	var list []zip.File
	for _, name := range files {
		rel, err := filepath.Rel(dir, name)
		if err != nil || strings.HasPrefix(rel, "..") {
			continue
		}
		f := file{name: filepath.ToSlash(rel), path: filepath.Join(r.root, name)}
		if f.name == "go.mod" {
			f.text = gomod
		}
		list = append(list, f)
	}
	m := module.Version{Path: path.Join(rootPath, dir), Version: version}
	at := filepath.Join(proxy, filepath.FromSlash(m.Path), "@v")
	if err := os.MkdirAll(at, 0o777); err != nil {
		t.Fatal(err)
	}
	out, err := os.Create(filepath.Join(at, version+".zip"))
	if err != nil {
		t.Fatal(err)
	}
	if err := zip.Create(out, m, list); err != nil {
		t.Fatal(err)
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"list": version + "\n", version + ".mod": string(gomod), version + ".info": `{"Version":"` + version + `"}`,
	} {
		if err := os.WriteFile(filepath.Join(at, name), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
}

// consuming returns the environment of a program outside of the repository that gets our modules
// from a proxy, and the others from the cache of modules or from where this test would get them.
func consuming(t *testing.T, r *repository, proxy string) []string {
	t.Helper()
	env, err := r.command(t.Context(), ".", nil, "go", "env", "-json", "GOMODCACHE", "GOPROXY")
	if err != nil {
		t.Fatal(err)
	}
	var goenv struct{ GOMODCACHE, GOPROXY string }
	if err := json.Unmarshal(env, &goenv); err != nil {
		t.Fatal(err)
	}
	return append(os.Environ(), "GOMODCACHE="+t.TempDir(), "GOWORK=off", "GOFLAGS=-mod=mod -modcacherw", "GOSUMDB=off",
		"GOPROXY="+strings.Join([]string{"file://" + proxy, "file://" + goenv.GOMODCACHE + "/cache/download", goenv.GOPROXY}, ","))
}

// A program outside of the repository gets each importable module from a proxy, builds and runs:
// without a replace directive, and with the versions that the release sets.
func TestConsumers(t *testing.T) {
	r := here(t)
	const version = "v0.1.0"
	dirs, err := r.importable()
	if err != nil {
		t.Fatal(err)
	}
	proxy := t.TempDir()
	for _, dir := range dirs {
		publish(t, r, proxy, dir, version)
	}
	environment := consuming(t, r, proxy)
	for _, dir := range dirs {
		name := path.Base(dir)
		if dir == "." {
			name = "root"
		}
		t.Run(name, func(t *testing.T) {
			program, err := os.ReadFile(filepath.Join("testdata/consumers", name, "main.go"))
			if err != nil {
				t.Fatalf("%v; each module of IMPORTED in the Makefile needs a consumer", err)
			}
			work := t.TempDir()
			if err := os.WriteFile(filepath.Join(work, "main.go"), program, 0o666); err != nil {
				t.Fatal(err)
			}
			command := func(args ...string) string {
				t.Helper()
				cmd := exec.CommandContext(t.Context(), "go", args...)
				cmd.Dir, cmd.Env = work, environment
				out, err := cmd.CombinedOutput()
				if err != nil {
					t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, out)
				}
				return string(out)
			}
			command("mod", "init", "consumer")
			command("get", path.Join(rootPath, dir)+"@"+version)
			command("get", ".")
			if out := command("run", "."); out != "accepted: true\n" {
				t.Errorf("the program printed %q", out)
			}
			if gomod := command("mod", "edit", "-json"); strings.Contains(gomod, `"New"`) {
				t.Errorf("the consumer needs a replace directive:\n%s", gomod)
			}
			if dir != "." {
				return
			}
			listed := func(what, golden string, args ...string) {
				t.Helper()
				got := strings.Fields(command(args...))
				slices.Sort(got)
				text, err := os.ReadFile(filepath.Join("testdata/consumers/root", golden))
				if err != nil {
					t.Fatal(err)
				}
				if want := strings.Fields(string(text)); !slices.Equal(slices.Compact(got), want) {
					t.Errorf("a user of brim and bolt %s\n%s\nand no longer\n%s", what, strings.Join(got, "\n"), strings.Join(want, "\n"))
				}
			}
			listed("links", "linked.txt", "list", "-deps", "-f", `{{if not .Standard}}{{.ImportPath}}{{end}}`, ".")
			listed("has in the module graph", "modules.txt", "list", "-m", "-f", "{{.Path}}", "all")
		})
	}
}
