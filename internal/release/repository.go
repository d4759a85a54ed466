package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strings"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/semver"
)

// rootPath is the path of the root module.
const rootPath = "github.com/brimgo/brim"

// repository is a checkout of brim.
type repository struct {
	root  string // absolute
	tools string // the go.mod that pins apidiff
	out   io.Writer
}

func (r *repository) say(format string, args ...any) { fmt.Fprintf(r.out, format+"\n", args...) }

// command runs a program in a directory below the root and returns its standard output.
func (r *repository) command(ctx context.Context, dir string, env []string, name string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = filepath.Join(r.root, dir)
	cmd.Env = append(os.Environ(), env...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w\n%s%s", name, strings.Join(args, " "), err, out, stderr.Bytes())
	}
	return out, nil
}

func (r *repository) git(ctx context.Context, args ...string) (string, error) {
	out, err := r.command(ctx, ".", nil, "git", args...)
	return strings.TrimSpace(string(out)), err
}

// importable returns the directories of the modules that users import, the root first. IMPORTED in
// the Makefile lists them.
func (r *repository) importable() ([]string, error) {
	text, err := os.ReadFile(filepath.Join(r.root, "Makefile"))
	if err != nil {
		return nil, err
	}
	line := regexp.MustCompile(`(?m)^IMPORTED := (.*)$`).FindSubmatch(text)
	if line == nil {
		return nil, fmt.Errorf("the Makefile does not list IMPORTED")
	}
	dirs := strings.Fields(string(line[1]))
	if len(dirs) == 0 || dirs[0] != "." {
		return nil, fmt.Errorf("IMPORTED in the Makefile is %q; it must begin with the root, which is %q", dirs, ".")
	}
	return dirs, nil
}

// tagOf returns the tag of a version of the module in a directory.
func tagOf(dir, version string) string { return strings.TrimPrefix(path.Join(dir, version), "./") }

// lastTag returns the tag of the latest version of the module in a directory that HEAD descends
// from, HEAD's own tag excepted, or "" if there is none.
func (r *repository) lastTag(ctx context.Context, dir string) (string, error) {
	tags, err := r.git(ctx, "tag", "--merged", "HEAD", "--no-contains", "HEAD", "--list", tagOf(dir, "v*"))
	if err != nil {
		return "", err
	}
	last := ""
	for tag := range strings.FieldsSeq(tags) {
		if v := path.Base(tag); tagOf(dir, v) == tag && semver.Compare(v, path.Base(last)) > 0 {
			last = tag
		}
	}
	return last, nil
}

// files lists the files of the checkout that git tracks or would track, with slashes.
func (r *repository) files(ctx context.Context) ([]string, error) {
	out, err := r.git(ctx, "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	if err != nil {
		return nil, err
	}
	var files []string
	for file := range strings.SplitSeq(out, "\x00") {
		// ls-files also lists files that were removed and not committed.
		if info, err := os.Lstat(filepath.Join(r.root, file)); err == nil && info.Mode().IsRegular() {
			files = append(files, file)
		}
	}
	return files, nil
}

// copyTo copies the files of the checkout to another directory.
func (r *repository) copyTo(ctx context.Context, dir string) error {
	files, err := r.files(ctx)
	if err != nil {
		return err
	}
	for _, file := range files {
		text, err := os.ReadFile(filepath.Join(r.root, file))
		if err != nil {
			return err
		}
		to := filepath.Join(dir, file)
		if err := os.MkdirAll(filepath.Dir(to), 0o777); err != nil {
			return err
		}
		if err := os.WriteFile(to, text, 0o666); err != nil {
			return err
		}
	}
	return nil
}

// requiring returns the text of a go.mod in which the module requires the version of the root.
// Users ignore its replace directive, by which the repository builds against its own files.
func requiring(gomod []byte, version string) ([]byte, error) {
	f, err := modfile.Parse("go.mod", gomod, nil)
	if err != nil {
		return nil, err
	}
	if err := f.AddRequire(rootPath, version); err != nil {
		return nil, err
	}
	return f.Format()
}

// notes returns the section of CHANGELOG.md about a version, without its heading.
func (r *repository) notes(version string) (string, error) {
	text, err := os.ReadFile(filepath.Join(r.root, "CHANGELOG.md"))
	if err != nil {
		return "", err
	}
	_, section, ok := strings.Cut(string(text), "\n## ["+strings.TrimPrefix(version, "v")+"]")
	if !ok {
		return "", fmt.Errorf("CHANGELOG.md has no section about %s", version)
	}
	_, section, _ = strings.Cut(section, "\n")
	section, _, _ = strings.Cut(section, "\n## ")
	if section = strings.TrimSpace(section); section == "" {
		return "", fmt.Errorf("the section of CHANGELOG.md about %s is empty", version)
	}
	return section + "\n", nil
}
