package main

import (
	"cmp"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// version describes the source of this binary.
type version struct {
	Version string `json:"version"` // of the module; "(devel)" for a checkout without a version
	Commit  string `json:"commit,omitempty"`
	Go      string `json:"go"`
}

func (a *app) versionCommand() *cobra.Command {
	cmd := newCommand("version")
	cmd.RunE = func(*cobra.Command, []string) error { return a.printVersion() }
	return cmd
}

// printVersion prints the version, for "brim version" and "brim --version".
func (a *app) printVersion() error {
	v := built()
	text := "brim " + v.Version
	if v.Commit != "" {
		text += " (" + v.Commit + ")"
	}
	return a.print(v, text+", "+v.Go)
}

// The linker sets these in the programs of a release, which are built without the information
// that Go takes from git.
var stampedVersion, stampedCommit string

// built returns the version of this binary.
func built() version {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return version{Version: "unknown", Go: "unknown"}
	}
	v := version{Version: info.Main.Version, Go: info.GoVersion}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			v.Commit = s.Value
		}
	}
	v.Version, v.Commit = cmp.Or(stampedVersion, v.Version), cmp.Or(stampedCommit, v.Commit)
	return v
}
