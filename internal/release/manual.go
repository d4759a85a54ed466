package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

// command is a command of the program, as "brim commands" prints it.
type command struct {
	Use, Short, Long, Example string
	Flags                     []flagOf
	Commands                  []command
}

// flagOf is a flag of a command.
type flagOf struct {
	Name, Kind, Default, Usage string
	Global                     bool // it belongs to the subcommands, too
}

// manual returns one page for each command, from the list that the program prints. The program
// does not write the pages by itself, because the writer's dependencies would be brim's, too.
func manual(rel *release, tree []byte) ([]member, error) {
	var root command
	if err := json.Unmarshal(tree, &root); err != nil {
		return nil, fmt.Errorf("brim commands: %w", err)
	}
	dir, err := os.MkdirTemp("", "brim-man-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	header := &doc.GenManHeader{Section: "1", Date: &rel.date, Source: "brim " + rel.version, Manual: "brim"}
	if err := doc.GenManTree(root.cobra(), header, dir); err != nil {
		return nil, err
	}
	files, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var pages []member
	for _, f := range files {
		text, err := os.ReadFile(filepath.Join(dir, f.Name()))
		if err != nil {
			return nil, err
		}
		pages = append(pages, member{name: "man/man1/" + f.Name(), text: text})
	}
	return pages, nil
}

// table is a table in a help text, whose lines are indented, and the line before it.
var table = regexp.MustCompile(`(?m)^.*\n((?:  .*(?:\n|$))+)`)

// markdown returns a help text as Markdown, which the writer of the pages reads: behind an empty
// line, lines with four spaces keep their breaks.
func markdown(text string) string {
	return table.ReplaceAllStringFunc(text, func(found string) string {
		before, lines, _ := strings.Cut(found, "\n")
		return strings.TrimRight(before, "\n") + "\n\n  " + strings.ReplaceAll(lines, "\n  ", "\n    ")
	})
}

func (c command) cobra() *cobra.Command {
	cmd := &cobra.Command{
		Use: c.Use, Short: c.Short, Long: markdown(c.Long), Example: c.Example,
		DisableAutoGenTag: true, Run: func(*cobra.Command, []string) {},
	}
	for _, f := range c.Flags {
		flags := cmd.Flags()
		if f.Global {
			flags = cmd.PersistentFlags()
		}
		flags.Var(value(f), f.Name, f.Usage)
	}
	for _, sub := range c.Commands {
		cmd.AddCommand(sub.cobra())
	}
	return cmd
}

// value shows a flag's type and default on a page.
type value flagOf

func (v value) String() string   { return v.Default }
func (v value) Type() string     { return v.Kind }
func (v value) Set(string) error { return nil }
