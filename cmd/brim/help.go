package main

import (
	"embed"
	"strings"

	"github.com/spf13/cobra"
)

// help has a file for each command: its usage, one line about it, a description, and examples.
//
//go:embed help
var help embed.FS

// helpText returns a file of help, with the texts that several files share in place of their names.
func helpText(name string) string {
	text, err := help.ReadFile("help/" + name + ".txt")
	if err != nil {
		panic(err) // the file is embedded
	}
	whole := strings.TrimSuffix(string(text), "\n")
	for _, shared := range []string{"exits", "log"} {
		if strings.Contains(whole, "{"+shared+"}") {
			whole = strings.Replace(whole, "{"+shared+"}", helpText(shared), 1)
		}
	}
	return whole
}

// newCommand returns a command without an action, by its file of help. The words in capitals at the
// beginning of the usage are the arguments that the command needs.
func newCommand(name string) *cobra.Command {
	usage, text, _ := strings.Cut(helpText(name), "\n\n")
	short, text, _ := strings.Cut(text, "\n\n")
	long, example, _ := strings.Cut(text, "\n\nExamples:\n")
	var args []string
	for _, word := range strings.Fields(usage)[1:] {
		if strings.Trim(word, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") != "" {
			break
		}
		args = append(args, word)
	}
	return &cobra.Command{Use: usage, Short: short, Long: long, Example: example, Args: exactArgs(args...)}
}
