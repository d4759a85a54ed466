package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// exits is the table of all exit statuses. The help prints it, and docs/cli.md has the same.
var exits = []struct{ status, meaning string }{
	{"0", "done; for `try` and `able`: it fits"},
	{"1", "`doctor`: the store cannot keep a promise; `size`: every limit on the list refuses too many; `migrate status`: the tables are behind, or one was dropped"},
	{"64", "wrong usage"},
	{"65", "bad data: a damaged store, or a file that is no log; `verify`: damage was found"},
	{"66", "there is no such store; for a command that reads"},
	{"69", "the store cannot be reached, opened or written"},
	{"70", "a defect of brim, or the answer could not be written"},
	{"75", "refused for now: a later try may succeed"},
	{"78", "refused for good: the amount can never fit this limit"},
	{"126, 127", "`exec`: the command cannot be run; there is no such command"},
	{"128 + n", "ended by signal n; 130 is an interrupt"},
}

// exitTable is the table as lines of plain text.
func exitTable() string {
	var b strings.Builder
	for _, e := range exits {
		fmt.Fprintf(&b, "  %-9s %s\n", e.status, strings.ReplaceAll(e.meaning, "`", ""))
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// exitTopic is no command: "brim help exit" prints its text.
func exitTopic() *cobra.Command {
	return &cobra.Command{
		Use:   "exit",
		Short: "The exit statuses of all commands",
		Long: "Every command ends with one of these statuses, most of them from sysexits.h. A script can\n" +
			"repeat a call that ended with 75 or 69.\n\n" + exitTable(),
	}
}
