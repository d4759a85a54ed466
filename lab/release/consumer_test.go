package release

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/module"
	"golang.org/x/mod/zip"
)

// rootPath is the path of the root module.
const rootPath = "github.com/brimgo/brim"

// tagged are the modules that users import or install, the root first.
var tagged = []string{".", "observe/otelbrim", "observe/prombrim", "grpclimit", "riverlimit", "cmd/brim"}

// root is the directory of the checkout.
func root(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// output runs a program in the root of the checkout and returns its standard output.
func output(ctx context.Context, dir, name string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, stderr.Bytes())
	}
	return out, nil
}

// tracked lists the files of the checkout that git tracks or would track, with slashes.
func tracked(t *testing.T) []string {
	t.Helper()
	out, err := output(t.Context(), root(t), "git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	if err != nil {
		t.Fatal(err)
	}
	var files []string
	for file := range strings.SplitSeq(string(out), "\x00") {
		// ls-files also lists files that were removed and not committed.
		if info, err := os.Lstat(filepath.Join(root(t), file)); err == nil && info.Mode().IsRegular() {
			files = append(files, file)
		}
	}
	return files
}

// released returns the go.mod that .ci/tag gives a module: it requires the version of the root, and
// replaces nothing, because "go install" refuses a module that does.
func released(t *testing.T, gomod []byte) []byte {
	t.Helper()
	f, err := modfile.Parse("go.mod", gomod, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.AddRequire(rootPath, version); err != nil {
		t.Fatal(err)
	}
	if err := f.DropReplace(rootPath, ""); err != nil {
		t.Fatal(err)
	}
	text, err := f.Format()
	if err != nil {
		t.Fatal(err)
	}
	return text
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

// version is that of the published modules.
const version = "v0.1.0"

// publish writes a module of the checkout, as its tag would publish it, to the directory of a
// proxy.
func publish(t *testing.T, proxy, dir string) {
	t.Helper()
	gomod, err := os.ReadFile(filepath.Join(root(t), dir, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	if dir != "." {
		gomod = released(t, gomod)
	}
	var list []zip.File
	for _, name := range tracked(t) {
		rel, err := filepath.Rel(dir, name)
		if err != nil || strings.HasPrefix(rel, "..") {
			continue
		}
		f := file{name: filepath.ToSlash(rel), path: filepath.Join(root(t), name)}
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
func consuming(t *testing.T, proxy string) []string {
	t.Helper()
	env, err := output(t.Context(), root(t), "go", "env", "-json", "GOMODCACHE", "GOPROXY")
	if err != nil {
		t.Fatal(err)
	}
	var goenv struct{ GOMODCACHE, GOPROXY string }
	if err := json.Unmarshal(env, &goenv); err != nil {
		t.Fatal(err)
	}
	return append(os.Environ(), "GOMODCACHE="+t.TempDir(), "GOWORK=off", "GOFLAGS=-modcacherw", "GOSUMDB=off",
		"GOPROXY="+strings.Join([]string{"file://" + proxy, "file://" + goenv.GOMODCACHE + "/cache/download", goenv.GOPROXY}, ","))
}

// A program outside of the repository gets each importable module from a proxy, builds and runs:
// without a replace directive, and with the versions that the release sets. The command can be
// installed.
func TestConsumers(t *testing.T) {
	proxy := t.TempDir()
	for _, dir := range tagged {
		publish(t, proxy, dir)
	}
	environment := consuming(t, proxy)
	for _, dir := range tagged {
		name := path.Base(dir)
		if dir == "." {
			name = "root"
		}
		t.Run(name, func(t *testing.T) {
			work := t.TempDir()
			command := func(args ...string) string {
				t.Helper()
				cmd := exec.CommandContext(t.Context(), args[0], args[1:]...)
				cmd.Dir, cmd.Env = work, append(environment, "GOBIN="+work)
				out, err := cmd.CombinedOutput()
				if err != nil {
					t.Fatalf("%s: %v\n%s", strings.Join(args, " "), err, out)
				}
				return string(out)
			}
			if dir == "cmd/brim" {
				command("go", "install", path.Join(rootPath, dir)+"@"+version)
				if out := command("./brim", "version"); !strings.Contains(out, version) {
					t.Errorf("the installed command says that it is %q", out)
				}
				return
			}
			program, err := os.ReadFile(filepath.Join("testdata/consumers", name, "main.go"))
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(work, "main.go"), program, 0o666); err != nil {
				t.Fatal(err)
			}
			command("go", "mod", "init", "consumer")
			command("go", "get", path.Join(rootPath, dir)+"@"+version)
			command("go", "get", ".")
			if out := command("go", "run", "."); out != "accepted: true\n" {
				t.Errorf("the program printed %q", out)
			}
			if gomod := command("go", "mod", "edit", "-json"); strings.Contains(gomod, `"New"`) {
				t.Errorf("the consumer needs a replace directive:\n%s", gomod)
			}
			if dir != "." {
				return
			}
			listed := func(what, golden string, args ...string) {
				t.Helper()
				got := strings.Fields(command(append([]string{"go", "list"}, args...)...))
				slices.Sort(got)
				text, err := os.ReadFile(filepath.Join("testdata/consumers/root", golden))
				if err != nil {
					t.Fatal(err)
				}
				if want := strings.Fields(string(text)); !slices.Equal(slices.Compact(got), want) {
					t.Errorf("a user of brim and bolt %s\n%s\nand no longer\n%s", what, strings.Join(got, "\n"), strings.Join(want, "\n"))
				}
			}
			listed("links", "linked.txt", "-deps", "-f", `{{if not .Standard}}{{.ImportPath}}{{end}}`, ".")
			listed("has in the module graph", "modules.txt", "-m", "-f", "{{.Path}}", "all")
		})
	}
}
