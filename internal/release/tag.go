package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
)

// tag prints the steps of a release, and performs them with do: it tags the root, sets the
// version of the root in the go.mod of the other modules that users import, commits that, and tags
// those modules. It pushes nothing: the last line is the command that does.
func (r *repository) tag(ctx context.Context, version string, do bool) error {
	if err := r.ready(ctx, version); err != nil {
		return err
	}
	dirs, err := r.importable()
	if err != nil {
		return err
	}
	git := func(args ...string) error {
		r.say("git %s", shown(args))
		if !do {
			return nil
		}
		_, err := r.git(ctx, args...)
		return err
	}
	annotate := func(dir string) error {
		name := tagOf(dir, version)
		return git("tag", "--annotate", name, "--message", name)
	}
	if err := annotate("."); err != nil {
		return err
	}
	push := []string{"push", "--atomic", "origin", "HEAD", version}
	commit := []string{"commit", "--message", "go.mod: the modules that users import need brim " + version, "--"}
	for _, dir := range dirs[1:] {
		file := path.Join(dir, "go.mod")
		r.say("edit %s: require %s %s", file, rootPath, version)
		if do {
			if err := r.setVersion(file, version); err != nil {
				return err
			}
		}
		commit = append(commit, file)
		push = append(push, tagOf(dir, version))
	}
	if len(dirs) > 1 {
		if err := git(commit...); err != nil {
			return err
		}
	}
	for _, dir := range dirs[1:] {
		if err := annotate(dir); err != nil {
			return err
		}
	}
	if !do {
		r.say("Nothing was done. To do it: make release VERSION=%s DO=1", version)
		return nil
	}
	r.say("Done here. To publish it:\ngit %s", shown(push))
	return nil
}

// ready reports an error if the checkout is not in the state to be released.
func (r *repository) ready(ctx context.Context, version string) error {
	if version == "" {
		return errors.New("-version is missing; \"make release-check\" names the next one")
	}
	changes, err := r.git(ctx, "status", "--porcelain")
	if err != nil {
		return err
	}
	if changes != "" {
		return fmt.Errorf("commit the changes of the checkout first:\n%s", changes)
	}
	if _, err := r.notes(version); err != nil {
		return err
	}
	text, err := os.ReadFile(filepath.Join(r.root, "CHANGELOG.md"))
	if err != nil {
		return err
	}
	heading := regexp.MustCompile(`(?m)^## \[` + regexp.QuoteMeta(strings.TrimPrefix(version, "v")) + `\] - \d{4}-\d{2}-\d{2}$`)
	if !heading.Match(text) {
		return fmt.Errorf("CHANGELOG.md: write the date of the release behind the heading of %s, like ## [1.2.3] - 2026-01-31", version)
	}
	if tags, err := r.git(ctx, "tag", "--list", version); err != nil || tags != "" {
		return errors.Join(err, fmt.Errorf("the tag %s exists", version))
	}
	return nil
}

// setVersion writes the version of the root that a module needs to its go.mod.
func (r *repository) setVersion(file, version string) error {
	file = filepath.Join(r.root, file)
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	if text, err = requiring(text, version); err != nil {
		return err
	}
	return os.WriteFile(file, text, 0o666)
}

// shown is a list of arguments as one writes them in a shell.
func shown(args []string) string {
	quoted := make([]string, len(args))
	for i, a := range args {
		if quoted[i] = a; strings.ContainsAny(a, " :") {
			quoted[i] = "'" + a + "'"
		}
	}
	return strings.Join(quoted, " ")
}
