package main

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"
)

// columns is the width of the help, which fits every terminal.
const columns = 80

// usage writes how a command is called: its arguments, examples, commands and flags. cobra's own
// text does not wrap its lines.
func usage(cmd *cobra.Command) error {
	var b strings.Builder
	section := func(name, text string) {
		if text != "" {
			fmt.Fprintf(&b, "\n%s:\n%s", name, text)
		}
	}
	call := ""
	if cmd.Runnable() {
		call = fold("  "+cmd.UseLine(), columns, "      ") + "\n"
	}
	if cmd.HasAvailableSubCommands() {
		call += "  " + cmd.CommandPath() + " [command]\n"
	}
	section("Usage", call)
	if cmd.HasExample() {
		section("Examples", cmd.Example+"\n")
	}
	var commands, topics strings.Builder
	for _, sub := range cmd.Commands() {
		line := fold(fmt.Sprintf("  %-*s  %s", cmd.NamePadding(), sub.Name(), sub.Short), columns, strings.Repeat(" ", cmd.NamePadding()+4)) + "\n"
		switch {
		case sub.IsAvailableCommand():
			commands.WriteString(line)
		case sub.IsAdditionalHelpTopicCommand():
			topics.WriteString(line)
		}
	}
	section("Commands", commands.String())
	section("Flags", cmd.LocalFlags().FlagUsagesWrapped(columns))
	section("Flags of all commands", cmd.InheritedFlags().FlagUsagesWrapped(columns))
	section("Topics of the help", topics.String())
	if cmd.HasAvailableSubCommands() {
		fmt.Fprintf(&b, "\nFor more about a command: %s [command] --help\n", cmd.CommandPath())
	}
	_, err := fmt.Fprint(cmd.OutOrStderr(), strings.TrimPrefix(b.String(), "\n"))
	return err
}

// fold breaks a line that is wider than a number of columns, and begins the further lines with
// indent. A line breaks between cells of a table, which two spaces separate, and in a line without
// cells between words. A word that is too long stays whole, and so does a command between
// backquotes, to be copied.
func fold(line string, width int, indent string) string {
	var b strings.Builder
	for utf8.RuneCountInString(line) > width {
		at := breakOf(line, width)
		if at < 0 {
			break
		}
		b.WriteString(strings.TrimRight(line[:at], " ") + "\n")
		line = indent + strings.TrimLeft(line[at:], " ")
	}
	return b.String() + line
}

// breakOf returns the index of the space at which a line is broken, or -1 if it has no such space.
func breakOf(line string, width int) int {
	word, cell, quoted, column := -1, -1, false, 0
	begun := false // the indentation is over
	for i, r := range line {
		if column > width && (word >= 0 || cell >= 0) {
			break
		}
		switch {
		case r == '`':
			quoted = !quoted
		case r == ' ' && begun && !quoted:
			if word = i; strings.HasPrefix(line[i:], "  ") && line[i-1] != ' ' {
				cell = i
			}
		}
		begun = begun || r != ' '
		column++
	}
	if cell >= 0 {
		return cell
	}
	return word
}
