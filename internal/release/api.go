package main

import (
	"context"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"

	"golang.org/x/mod/semver"
)

// firstVersion is the version of a repository without tags.
const firstVersion = "v0.1.0"

// next compares the exported API of each importable module with that of the root's last tag, prints the
// differences, and returns the version that must follow. All modules get the same version.
func (r *repository) next(ctx context.Context) (string, error) {
	dirs, err := r.importable()
	if err != nil {
		return "", err
	}
	last, err := r.lastTag(ctx, ".")
	if err != nil {
		return "", err
	}
	if last == "" {
		r.say("API: there is no earlier tag to compare with; the next version is %s", firstVersion)
		return firstVersion, nil
	}
	old, err := os.MkdirTemp("", "brim-api-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(old)
	tree := filepath.Join(old, "tree")
	if _, err := r.git(ctx, "worktree", "add", "--detach", tree, last); err != nil {
		return "", err
	}
	defer func() { _, _ = r.git(context.WithoutCancel(ctx), "worktree", "remove", "--force", tree) }()
	changes := none
	for _, dir := range dirs {
		if _, err := os.Stat(filepath.Join(tree, dir)); err != nil {
			r.say("API of %s: new since %s", path.Join(rootPath, dir), last)
			changes = max(changes, compatible)
			continue
		}
		found, err := r.compare(ctx, tree, dir, old, last)
		if err != nil {
			return "", err
		}
		changes = max(changes, found)
	}
	next, err := after(last, changes)
	if err != nil {
		return "", err
	}
	r.say("API: since %s there are %s; the next version is at least %s", last, changes, next)
	return next, nil
}

// change tells how an API differs from an earlier one.
type change int

const (
	none change = iota
	compatible
	incompatible
)

func (c change) String() string {
	return [...]string{"no changes", "compatible changes only", "incompatible changes"}[c]
}

// compare runs apidiff on a module of the checkout and the same module in the tree of a tag.
func (r *repository) compare(ctx context.Context, tree, dir, scratch, tag string) (change, error) {
	tool := []string{"tool", "-modfile=" + r.tools, "apidiff", "-m"}
	module := path.Join(rootPath, dir)
	before, now := filepath.Join(scratch, "before"), filepath.Join(scratch, "now")
	for file, root := range map[string]string{before: tree, now: r.root} {
		side := &repository{root: root}
		if _, err := side.command(ctx, dir, nil, "go", append(tool, "-w", file, module)...); err != nil {
			return 0, err
		}
	}
	out, err := r.command(ctx, dir, nil, "go", append(tool, before, now)...)
	if err != nil {
		return 0, err
	}
	found := none
	switch text := string(out); {
	case strings.Contains(text, "Incompatible changes:"):
		found = incompatible
	case strings.Contains(text, "Compatible changes:"):
		found = compatible
	}
	r.say("API of %s: %s since %s\n%s", module, found, tag, out)
	return found, nil
}

// after returns the version that follows a version by the rules of semantic versions. Before v1,
// an incompatible change asks for a new minor version.
func after(version string, c change) (string, error) {
	var major, minor, patch int
	if _, err := fmt.Sscanf(semver.Canonical(version), "v%d.%d.%d", &major, &minor, &patch); err != nil {
		return "", fmt.Errorf("tag %s: %w", version, err)
	}
	switch {
	case c == incompatible && major > 0:
		return fmt.Sprintf("v%d.0.0", major+1), nil
	case c != none:
		return fmt.Sprintf("v%d.%d.0", major, minor+1), nil
	}
	return fmt.Sprintf("v%d.%d.%d", major, minor, patch+1), nil
}
