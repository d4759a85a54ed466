package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
)

// allPlatforms are the systems that a release has a program for.
var allPlatforms = []string{
	"linux/amd64", "linux/arm64", "linux/386", "darwin/amd64", "darwin/arm64", "windows/amd64", "windows/arm64",
}

// checksums is the name of the file that lists the others with their SHA-256.
const checksums = "checksums.txt"

// release is what all builds of a version have in common.
type release struct {
	version, commit string
	date            time.Time // of the commit
	platforms       []string
	modules         map[string]*dependency
}

// buildTwice builds the files of a release into dist, and again from a copy of the checkout in
// another directory, and compares them. With anew, the second build has an empty cache, so that it
// compiles all packages again; without, it only links again.
func (r *repository) buildTwice(ctx context.Context, version string, platforms []string, modules map[string]*dependency, anew bool) error {
	head, err := r.git(ctx, "log", "-1", "--format=%H %ct")
	if err != nil {
		return err
	}
	commit, at, _ := strings.Cut(head, " ")
	seconds, err := strconv.ParseInt(at, 10, 64)
	if err != nil {
		return err
	}
	changes, err := r.git(ctx, "status", "--porcelain")
	if err != nil {
		return err
	}
	if changes != "" {
		commit += "-modified"
	}
	rel := &release{version, commit, time.Unix(seconds, 0).UTC(), platforms, modules}

	scratch, err := os.MkdirTemp("", "brim-release-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(scratch)
	second := &repository{root: filepath.Join(scratch, "another", "directory"), out: r.out}
	if err := r.copyTo(ctx, second.root); err != nil {
		return err
	}
	var env []string
	if anew {
		env = append(env, "GOCACHE="+filepath.Join(scratch, "cache"))
	}
	if err := r.build(ctx, rel, nil); err != nil {
		return err
	}
	if err := second.build(ctx, rel, env); err != nil {
		return err
	}
	first, err := os.ReadFile(filepath.Join(r.root, "dist", checksums))
	if err != nil {
		return err
	}
	again, err := os.ReadFile(filepath.Join(second.root, "dist", checksums))
	if err != nil {
		return err
	}
	if !bytes.Equal(first, again) {
		return fmt.Errorf("the two builds differ:\n%s\n%s", first, again)
	}
	r.say("%s\ntwo builds of %s, one hash for each file:\n%s", filepath.Join(r.root, "dist"), version, first)
	return nil
}

// build writes all files of a release to the directory dist, which it replaces.
func (r *repository) build(ctx context.Context, rel *release, env []string) error {
	dist := filepath.Join(r.root, "dist")
	if err := os.RemoveAll(dist); err != nil {
		return err
	}
	if err := os.MkdirAll(dist, 0o777); err != nil {
		return err
	}
	bin, err := os.MkdirTemp("", "brim-bin-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(bin)
	host := filepath.Join(bin, "host.exe")
	if err := r.compile(ctx, rel, runtime.GOOS+"/"+runtime.GOARCH, host, env); err != nil {
		return err
	}
	common, err := r.documents(ctx, rel, host)
	if err != nil {
		return err
	}
	for _, platform := range rel.platforms {
		name := "brim_" + rel.version + "_" + strings.ReplaceAll(platform, "/", "_")
		program := member{name: "brim", mode: 0o755}
		if strings.HasPrefix(platform, "windows/") {
			program.name = "brim.exe"
		}
		path := filepath.Join(bin, name)
		if err := r.compile(ctx, rel, platform, path, env); err != nil {
			return err
		}
		if program.text, err = os.ReadFile(path); err != nil {
			return err
		}
		if strings.Contains(string(program.text), r.root) {
			return fmt.Errorf("the program for %s contains the path of the directory that it was built in", platform)
		}
		linked, err := links(rel, path)
		if err != nil {
			return err
		}
		bom, err := bill(rel, program.text, linked)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dist, name+".cdx.json"), bom, 0o666); err != nil {
			return err
		}
		if err := archive(filepath.Join(dist, name), rel.date, append(slices.Clone(common), program, notices(linked))); err != nil {
			return err
		}
	}
	if err := os.WriteFile(filepath.Join(dist, "licences.csv"), licenceList(rel.modules), 0o666); err != nil {
		return err
	}
	return sum(dist)
}

// compile builds the command line for a platform, without paths of this machine in it.
func (r *repository) compile(ctx context.Context, rel *release, platform, to string, env []string) error {
	goos, goarch, _ := strings.Cut(platform, "/")
	env = append(slices.Clone(env), "GOOS="+goos, "GOARCH="+goarch, "CGO_ENABLED=0", "GOFLAGS=")
	stamp := fmt.Sprintf("-s -w -buildid= -X main.stampedVersion=%s -X main.stampedCommit=%s", rel.version, rel.commit)
	_, err := r.command(ctx, ".", env, "go", "build", "-trimpath", "-buildvcs=false", "-ldflags", stamp, "-o", to, "./cmd/brim")
	return err
}

// documents returns the files that are in the archives of all platforms: texts of the repository,
// and the manual and the completions that the program prints.
func (r *repository) documents(ctx context.Context, rel *release, program string) ([]member, error) {
	var all []member
	for _, file := range []string{"CHANGELOG.md", "LICENSE", "README.md"} {
		text, err := os.ReadFile(filepath.Join(r.root, file))
		if err != nil {
			return nil, err
		}
		all = append(all, member{name: file, text: text})
	}
	for shell, file := range map[string]string{"bash": "brim.bash", "zsh": "_brim", "fish": "brim.fish", "powershell": "brim.ps1"} {
		text, err := r.command(ctx, ".", nil, program, "completion", shell)
		if err != nil {
			return nil, err
		}
		all = append(all, member{name: "completions/" + file, text: text})
	}
	tree, err := r.command(ctx, ".", nil, program, "commands")
	if err != nil {
		return nil, err
	}
	pages, err := manual(rel, tree)
	if err != nil {
		return nil, err
	}
	return append(all, pages...), nil
}

// sum writes the SHA-256 of each file of a directory to a file there, in the format of sha256sum.
func sum(dir string) error {
	files, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	var list bytes.Buffer
	for _, f := range files {
		text, err := os.ReadFile(filepath.Join(dir, f.Name()))
		if err != nil {
			return err
		}
		fmt.Fprintf(&list, "%x  %s\n", sha256.Sum256(text), f.Name())
	}
	return os.WriteFile(filepath.Join(dir, checksums), list.Bytes(), 0o666)
}
