package main

import (
	"encoding/json"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// commandJSON describes a command and its subcommands.
type commandJSON struct {
	Use      string        `json:"use"`
	Short    string        `json:"short"`
	Long     string        `json:"long,omitempty"`
	Example  string        `json:"example,omitempty"`
	Flags    []flagJSON    `json:"flags,omitempty"`
	Commands []commandJSON `json:"commands,omitempty"`
}

// flagJSON describes a flag.
type flagJSON struct {
	Name    string `json:"name"`
	Kind    string `json:"kind"`
	Default string `json:"default,omitempty"`
	Usage   string `json:"usage"`
	Global  bool   `json:"global,omitempty"` // it belongs to the subcommands, too
}

// commandsCommand lists the commands for generators of documentation: internal/release makes the
// manual pages of it.
func (a *app) commandsCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "commands",
		Short:   "Print all commands and their flags as JSON, for generators of documentation",
		Long:    "Prints all commands with their help texts and their flags, as one JSON object.",
		Example: "  brim commands | jq -r '.commands[].use'",
		Hidden:  true,
		Args:    exactArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return json.NewEncoder(a.stdout).Encode(treeOf(cmd.Root()))
		},
	}
}

func treeOf(cmd *cobra.Command) commandJSON {
	d := commandJSON{Use: cmd.Use, Short: cmd.Short, Long: cmd.Long, Example: cmd.Example}
	cmd.NonInheritedFlags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			d.Flags = append(d.Flags, flagJSON{
				Name: f.Name, Kind: f.Value.Type(), Default: f.DefValue, Usage: f.Usage,
				Global: cmd.PersistentFlags().Lookup(f.Name) != nil,
			})
		}
	})
	for _, sub := range cmd.Commands() {
		if sub.IsAvailableCommand() {
			d.Commands = append(d.Commands, treeOf(sub))
		}
	}
	return d
}
