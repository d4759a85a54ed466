package main

import (
	"regexp"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

// manCommand writes the manual pages of a release; see .goreleaser.yaml.
func (a *app) manCommand() *cobra.Command {
	cmd := newCommand("man")
	cmd.Hidden = true
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		root := cmd.Root()
		root.DisableAutoGenTag = true
		keepTables(root)
		return doc.GenManTree(root, &doc.GenManHeader{Source: "brim " + built().Version, Manual: "brim"}, args[0])
	}
	return cmd
}

// tables matches a table in a help text, whose lines are indented, and the line before it.
var tables = regexp.MustCompile(`(?m)^.*\n((?:  .*(?:\n|$))+)`)

// keepTables makes Markdown of the help texts, since the writer of manual pages reads that: behind
// an empty line, lines with four spaces keep their breaks.
func keepTables(cmd *cobra.Command) {
	cmd.Long = tables.ReplaceAllStringFunc(cmd.Long, func(found string) string {
		before, lines, _ := strings.Cut(found, "\n")
		return strings.TrimRight(before, "\n") + "\n\n  " + strings.ReplaceAll(lines, "\n  ", "\n    ")
	})
	for _, sub := range cmd.Commands() {
		keepTables(sub)
	}
}
