package main

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/brimgo/brim/internal/uiapi"
	"github.com/brimgo/brim/store"
)

// Bounds of a completion of keys, for which somebody waits at a prompt.
const (
	offerTime = time.Second
	mostKeys  = 100
)

// offered are the values of flags that a completion offers.
var offered = map[string][]string{
	"pattern":   {"constant", "poisson", "bursts"},
	"by":        {"key", "level", "ratio", "refused"},
	"every":     {"day", "week", "month"},
	"on-expiry": {"release", "spend"},
	"limit":     {"nobody", "unlimited"},
	"penalty":   {"until-empty"},
	"cost":      {"bytes"},
	"key":       {"host", "user", "method", "path", "status", "referer", "agent"},
	"time":      {"start"},
}

// addCompletions has a shell complete the arguments and flags of a command, and of all commands
// below it. A shell offers files only in the place of a file.
func (a *app) addCompletions(cmd *cobra.Command) {
	cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
		if f.Name == "store" || f.Name == "plot" || f.Name == "rules" || f.Value.Type() == "bool" {
			return // a file, or no value
		}
		_ = cmd.RegisterFlagCompletionFunc(f.Name, cobra.FixedCompletions(offered[f.Name], cobra.ShellCompDirectiveNoFileComp)) // fails for a second function
	})
	for _, sub := range cmd.Commands() {
		if sub.Name() != "completion" && sub.Name() != "help" {
			sub.ValidArgsFunction = a.complete
			a.addCompletions(sub)
		}
	}
}

// complete offers values of the next argument, whose name stands in the usage of the command.
func (a *app) complete(cmd *cobra.Command, args []string, begin string) ([]string, cobra.ShellCompDirective) {
	words := strings.Fields(cmd.Use)
	place := words[min(len(args)+1, len(words)-1)]
	if cmd.Name() == "reset" {
		place = "KEY"
	}
	switch place = strings.Trim(place, "[]"); {
	case place == "LOG", place == "FILE", place == "DIR", cmd.Name() == "exec" && len(args) > 1:
		return nil, cobra.ShellCompDirectiveDefault
	case place == "KEY":
		return a.keys(cmd.Context(), begin), cobra.ShellCompDirectiveNoFileComp
	case place == "DURATION":
		return []string{"until-empty"}, cobra.ShellCompDirectiveNoFileComp
	}
	return nil, cobra.ShellCompDirectiveNoFileComp
}

// keys returns keys of the store that begin with a text, or none if the store does not answer soon.
func (a *app) keys(ctx context.Context, begin string) (keys []string) {
	ctx, cancel := context.WithTimeout(ctx, offerTime)
	defer cancel()
	offer := func(key string) bool {
		if printable(key) == key {
			keys = append(keys, key)
		}
		return len(keys) < mostKeys
	}
	if page, err := a.page(); err != nil || page != nil {
		if err == nil {
			offerPage(ctx, page, begin, offer)
		}
		return keys
	}
	p, err := a.place()
	if err != nil {
		return nil
	}
	s, err := a.open(ctx, p, opening{})
	if err != nil {
		return nil
	}
	_ = s.Visit(ctx, begin, func(e store.Entry) bool { return offer(e.Key) }) // a part of the keys helps, too
	_ = s.Close()                                                             // nothing was written
	return keys
}

func offerPage(ctx context.Context, page *uiapi.Client, begin string, offer func(string) bool) {
	_, entries, err := page.List(ctx, begin)
	if err != nil {
		return
	}
	for e, err := range entries {
		if err != nil || !offer(e.Key) {
			return
		}
	}
}

// bashHelp describes "completion bash". cobra's own text asks for the package bash-completion.
const bashHelp = `Prints the completion for bash. To use it in this session:

  source <(brim completion bash)

and in every session:

  brim completion bash > /etc/bash_completion.d/brim`

// bashWords is the part of a script for bash that finds the words of the line.
//
//go:embed completion.bash
var bashWords string

// completeInBash has "completion bash" print a script that works without the package
// bash-completion, on which cobra's script relies to find the words of the line.
func (a *app) completeInBash(completion *cobra.Command) {
	bash, _, _ := completion.Find([]string{"bash"})
	bash.Long = bashHelp
	bash.RunE = func(cmd *cobra.Command, _ []string) error {
		var script bytes.Buffer
		plain, _ := cmd.Flags().GetBool("no-descriptions")
		if err := cmd.Root().GenBashCompletionV2(&script, !plain); err != nil {
			return err
		}
		const words = `    _get_comp_words_by_ref "$@" cur prev words cword` + "\n"
		before, after, found := strings.Cut(script.String(), words)
		if !found {
			return errors.New("the script of cobra has changed")
		}
		_, err := fmt.Fprint(a.stdout, before, bashWords, after)
		return err
	}
}
