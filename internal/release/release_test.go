package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestAfter(t *testing.T) {
	for _, tc := range []struct {
		last, want string
		c          change
		why        string
	}{
		{"v0.1.0", "v0.1.1", none, "a correction changes no name"},
		{"v0.1.1", "v0.2.0", compatible, "a new name is a new minor version"},
		{"v0.9.3", "v0.10.0", incompatible, "before v1, a minor version may break names"},
		{"v1.2.3", "v1.3.0", compatible, "a new name is a new minor version"},
		{"v1.2.3", "v2.0.0", incompatible, "from v1 on, only a major version may break names"},
	} {
		if got, err := after(tc.last, tc.c); err != nil || got != tc.want {
			t.Errorf("after %s and %s: %s, %v; want %s, because %s", tc.last, tc.c, got, err, tc.want, tc.why)
		}
	}
}

// checkout makes a small repository with the layout of brim, and one commit.
func checkout(t *testing.T) (*repository, *bytes.Buffer) {
	t.Helper()
	var out bytes.Buffer
	r := &repository{root: t.TempDir(), tools: here(t).tools, out: &out}
	write(t, r, map[string]string{
		"Makefile":                  "IMPORTED := . observe/otelbrim\n",
		"CHANGELOG.md":              "# Changelog\n\n## [0.1.0] - 2026-01-31\n\nThe first.\n\n### Added\n\n## [0.0.1]\n\nNothing.\n",
		"go.mod":                    "module github.com/brimgo/brim\n\ngo 1.26.0\n",
		"brim.go":                   "package brim\n\nfunc Fill() {}\n",
		"internal/x/x.go":           "package x\n\nfunc X() {}\n",
		"observe/otelbrim/go.mod":   "module github.com/brimgo/brim/observe/otelbrim\n\ngo 1.26.0\n\nrequire github.com/brimgo/brim v0.0.0\n\nreplace github.com/brimgo/brim => ../../\n",
		"observe/otelbrim/hooks.go": "package otelbrim\n\nimport \"github.com/brimgo/brim\"\n\nfunc New() { brim.Fill() }\n",
	})
	git(t, r, "init", "--quiet")
	git(t, r, "config", "user.name", "brim")
	git(t, r, "config", "user.email", "brim@example.com")
	commit(t, r, "first")
	return r, &out
}

func write(t *testing.T, r *repository, files map[string]string) {
	t.Helper()
	for name, text := range files {
		path := filepath.Join(r.root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
}

func git(t *testing.T, r *repository, args ...string) string {
	t.Helper()
	out, err := r.git(t.Context(), args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func commit(t *testing.T, r *repository, message string) {
	t.Helper()
	git(t, r, "add", "--all")
	git(t, r, "commit", "--quiet", "--message", message)
}

func TestTag(t *testing.T) {
	r, out := checkout(t)
	before := git(t, r, "rev-parse", "HEAD")
	if err := r.tag(t.Context(), "v0.1.0", false); err != nil {
		t.Fatal(err)
	}
	if tags := git(t, r, "tag"); tags != "" || git(t, r, "rev-parse", "HEAD") != before {
		t.Fatalf("a dry run left the tags %q and the commit %s", tags, git(t, r, "rev-parse", "HEAD"))
	}
	for _, step := range []string{"git tag --annotate v0.1.0", "edit observe/otelbrim/go.mod", "git tag --annotate observe/otelbrim/v0.1.0", "Nothing was done"} {
		if !strings.Contains(out.String(), step) {
			t.Errorf("the dry run does not show %q:\n%s", step, out)
		}
	}
	if err := r.tag(t.Context(), "v0.1.0", true); err != nil {
		t.Fatal(err)
	}
	if got := git(t, r, "rev-parse", "v0.1.0^{commit}"); got != before {
		t.Errorf("the root's tag is at %s; want %s", got, before)
	}
	if got := git(t, r, "rev-parse", "observe/otelbrim/v0.1.0^{commit}"); got == before || got != git(t, r, "rev-parse", "HEAD") {
		t.Errorf("the module's tag is at %s; want the commit that sets its version", got)
	}
	gomod := git(t, r, "show", "observe/otelbrim/v0.1.0:observe/otelbrim/go.mod")
	if !strings.Contains(gomod, "require github.com/brimgo/brim v0.1.0") {
		t.Errorf("the tagged module requires another version:\n%s", gomod)
	}
	if !strings.Contains(out.String(), "git push --atomic origin HEAD v0.1.0 observe/otelbrim/v0.1.0") {
		t.Errorf("the last line is not the push:\n%s", out)
	}
}

func TestTagRefuses(t *testing.T) {
	for _, tc := range []struct {
		name, version, says string
		change              func(*testing.T, *repository)
	}{
		{"no version", "", "-version is missing", func(*testing.T, *repository) {}},
		{"no section", "v0.2.0", "no section about v0.2.0", func(*testing.T, *repository) {}},
		{"no date", "v0.0.1", "write the date", func(*testing.T, *repository) {}},
		{"uncommitted changes", "v0.1.0", "commit the changes", func(t *testing.T, r *repository) { write(t, r, map[string]string{"new.go": "package brim\n"}) }},
		{"a tag twice", "v0.1.0", "exists", func(t *testing.T, r *repository) { git(t, r, "tag", "v0.1.0") }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r, _ := checkout(t)
			tc.change(t, r)
			if err := r.tag(t.Context(), tc.version, true); err == nil || !strings.Contains(err.Error(), tc.says) {
				t.Errorf("error %v; want %q in it", err, tc.says)
			}
		})
	}
}

func TestNext(t *testing.T) {
	r, out := checkout(t)
	next := func(want, says string) {
		t.Helper()
		out.Reset()
		got, err := r.next(t.Context())
		if err != nil || got != want || !strings.Contains(out.String(), says) {
			t.Errorf("next is %q, %v; want %q, and %q in\n%s", got, err, want, says, out)
		}
		if trees := git(t, r, "worktree", "list"); strings.Contains(trees, "\n") {
			t.Errorf("a worktree was left behind:\n%s", trees)
		}
	}
	next(firstVersion, "no earlier tag")
	if err := r.tag(t.Context(), "v0.1.0", true); err != nil {
		t.Fatal(err)
	}
	write(t, r, map[string]string{"internal/x/x.go": "package x\n\nfunc Y() {}\n"})
	commit(t, r, "an internal name")
	next("v0.1.1", "no changes")
	write(t, r, map[string]string{"observe/otelbrim/more.go": "package otelbrim\n\nfunc More() {}\n"})
	commit(t, r, "a new name in a module beside the root")
	next("v0.2.0", "More: added")
	write(t, r, map[string]string{"brim.go": "package brim\n\nfunc Fill(n int) {}\n", "observe/otelbrim/hooks.go": "package otelbrim\n\nfunc New() {}\n"})
	commit(t, r, "another signature")
	next("v0.2.0", "incompatible changes")
}

func TestNotes(t *testing.T) {
	r, _ := checkout(t)
	if got, err := r.notes("v0.1.0"); err != nil || got != "The first.\n\n### Added\n" {
		t.Errorf("notes are %q, %v", got, err)
	}
	if _, err := r.notes("v9.0.0"); err == nil {
		t.Error("a version without a section has notes")
	}
}

// The manual has a page for each command that brim lists, with its examples, and its tables keep
// their lines.
func TestManual(t *testing.T) {
	r := here(t)
	tree, err := r.command(t.Context(), ".", nil, "go", "run", "./cmd/brim", "commands")
	if err != nil {
		t.Fatal(err)
	}
	pages, err := manual(&release{version: "v0.1.0", date: time.Unix(0, 0).UTC()}, tree)
	if err != nil {
		t.Fatal(err)
	}
	var root command
	if err := json.Unmarshal(tree, &root); err != nil {
		t.Fatal(err)
	}
	if len(root.Commands) < 20 {
		t.Fatalf("brim lists %d commands", len(root.Commands))
	}
	page := func(name string) string {
		i := slices.IndexFunc(pages, func(m member) bool { return m.name == "man/man1/"+name })
		if i < 0 {
			t.Fatalf("there is no page %s", name)
		}
		return string(pages[i].text)
	}
	for _, c := range root.Commands {
		word, _, _ := strings.Cut(c.Use, " ")
		if text := page("brim-" + word + ".1"); !strings.Contains(text, ".SH EXAMPLE") || !strings.Contains(text, "--store") ||
			strings.Contains(text, "--version") {
			t.Errorf("the page of %s has no example, no --store, or a flag of another command", word)
		}
	}
	if text := page("brim.1"); !strings.Contains(text, "\n.EX\nlimits.db ") || !strings.Contains(text, "\n.EX\n0         done;") {
		t.Errorf("a table lost its lines:\n%s", text)
	}
}

func TestArchive(t *testing.T) {
	at := time.Date(2026, 1, 31, 0, 0, 0, 0, time.UTC)
	members := []member{{name: "brim", mode: 0o755, text: []byte("program")}, {name: "LICENSE", text: []byte("MIT")}}
	dir := t.TempDir()
	for _, name := range []string{"brim_v1_linux_amd64.tar.gz", "brim_v1_windows_amd64.zip"} {
		base := strings.TrimSuffix(strings.TrimSuffix(name, ".tar.gz"), ".zip")
		var texts [2][]byte
		for i := range texts {
			if err := archive(filepath.Join(dir, base), at, members); err != nil {
				t.Fatal(err)
			}
			text, err := os.ReadFile(filepath.Join(dir, name))
			if err != nil {
				t.Fatal(err)
			}
			texts[i] = text
			slices.Reverse(members)
		}
		if !bytes.Equal(texts[0], texts[1]) {
			t.Errorf("%s depends on the order of its members", name)
		}
	}
	if err := sum(dir); err != nil {
		t.Fatal(err)
	}
	list, err := os.ReadFile(filepath.Join(dir, checksums))
	if err != nil || strings.Count(string(list), "\n") != 2 {
		t.Errorf("the checksums are %q, %v", list, err)
	}
}
