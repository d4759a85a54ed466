// Command release checks whether a version of brim can be released, and tags it.
//
//	go run . check [-version v1.2.3] [-anew] [-platforms linux/amd64,...]
//	go run . tag -version v1.2.3 [-do]
//	go run . notes -version v1.2.3
//
// "check" builds the command line for every platform, twice and in two directories, compares all
// files byte by byte, and leaves the archives, the bills of materials, the licences and the checksums in
// dist. It compares the exported API with that of the last tag, and names the version that must
// follow. "tag" prints the steps of a release, and performs them with -do. "notes" prints the
// section of CHANGELOG.md about a version.
//
// The program is a module of its own, because its dependencies are no dependencies of brim.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"

	"golang.org/x/mod/semver"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

var errUsage = errors.New(`call it with "check", "tag" or "notes"`)

func run(ctx context.Context, args []string, out io.Writer) error {
	if len(args) == 0 {
		return errUsage
	}
	flags := flag.NewFlagSet(args[0], flag.ContinueOnError)
	dir := flags.String("root", "../..", "directory of the root module")
	version := flags.String("version", "", "version to release, like v1.2.3; check takes the next one by default")
	platforms := flags.String("platforms", strings.Join(allPlatforms, ","), "systems to build for")
	anew := flags.Bool("anew", false, "check: compile everything for the second build, with an empty cache")
	do := flags.Bool("do", false, "tag: perform the steps instead of printing them")
	if err := flags.Parse(args[1:]); err != nil {
		return err
	}
	root, err := filepath.Abs(*dir)
	if err != nil {
		return err
	}
	if *version != "" && semver.Canonical(*version) != *version {
		return fmt.Errorf("-version is %q; write it like v1.2.3", *version)
	}
	r := &repository{root: root, tools: filepath.Join(root, "internal/release/go.mod"), out: out}
	switch args[0] {
	case "check":
		return r.check(ctx, *version, strings.Split(*platforms, ","), *anew)
	case "tag":
		return r.tag(ctx, *version, *do)
	case "notes":
		text, err := r.notes(*version)
		if err == nil {
			_, err = io.WriteString(out, text)
		}
		return err
	}
	return errUsage
}

// check performs all checks. The directory dist of the root holds the files of the release after it.
func (r *repository) check(ctx context.Context, version string, platforms []string, anew bool) error {
	next, err := r.next(ctx)
	if err != nil {
		return err
	}
	if version == "" {
		version = next
	}
	if semver.Compare(version, next) < 0 {
		return fmt.Errorf("%s is too low a version: the changes of the API ask for %s", version, next)
	}
	if _, err := r.notes(version); err != nil {
		return err
	}
	r.say("CHANGELOG.md has a section about %s", version)
	modules, err := r.licences(ctx, platforms)
	if err != nil {
		return err
	}
	return r.buildTwice(ctx, version, platforms, modules, anew)
}
