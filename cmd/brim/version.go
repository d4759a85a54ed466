package main

import (
	"fmt"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// version is what this binary was built from.
type version struct {
	Version string `json:"version"` // of the module; "(devel)" where it was built from a checkout without one
	Commit  string `json:"commit,omitempty"`
	Go      string `json:"go"`
}

func (a *app) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Print the version",
		Long:    "Prints the version of brim, the commit it was built from if that is known, and the version of Go.",
		Example: "  brim version --json",
		Args:    exactArgs(),
		RunE: func(*cobra.Command, []string) error {
			v := built()
			if a.json {
				return a.printJSON(v)
			}
			text := "brim " + v.Version
			if v.Commit != "" {
				text += " (" + v.Commit + ")"
			}
			_, err := fmt.Fprintln(a.stdout, text+", "+v.Go)
			return err
		},
	}
}

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
	return v
}
