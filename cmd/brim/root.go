package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"time"

	"github.com/spf13/cobra"

	"github.com/brimgo/brim/internal/uiapi"
)

// app is one run of the command.
type app struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	store          string // the flag --store
	json           bool   // the flag --json
	asksPages      bool   // the command takes the address of a page as its store
	screen         screen // that stdout is shown on
	now            func() time.Time
}

// run runs brim with the arguments and returns its exit status. It closes everything that it
// opens before it returns.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) (code int) {
	defer func() {
		if p := recover(); p != nil {
			fmt.Fprintf(stderr, "brim: internal error, please report it: %v\n%s", p, debug.Stack())
			code = exitInternal
		}
	}()
	out := &output{w: stdout}
	a := &app{stdin: stdin, stdout: out, stderr: stderr, screen: screenOf(stdout), now: time.Now}
	root := a.root()
	root.SetArgs(args)
	command, err := root.ExecuteContextC(ctx)
	if err != nil && ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		err = context.Cause(ctx)
	}
	if out.err != nil && !errors.As(err, new(signalError)) {
		err = fmt.Errorf("cannot write the answer: %w", out.err)
	}
	if err != nil {
		report(stderr, err, command.CommandPath())
	}
	return exitStatus(err)
}

func (a *app) root() *cobra.Command {
	showVersion := false
	root := newCommand("brim")
	root.Args, root.SilenceErrors, root.SilenceUsage = cobra.ArbitraryArgs, true, true
	root.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error {
		a.asksPages = cmd.Annotations[pageStore] != ""
		if cmd.Flags().Changed("store") && uiapi.IsAddress(a.store) && !a.asksPages {
			return notThere()
		}
		return nil
	}
	root.RunE = func(cmd *cobra.Command, args []string) error {
		if showVersion {
			return a.printVersion()
		}
		return group(cmd, args)
	}
	root.SetIn(a.stdin)
	root.SetOut(a.stdout)
	root.SetErr(a.stderr)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		if words := cmd.Flags().Args(); cmd.HasSubCommands() && len(words) > 0 {
			return group(cmd, words) // the flags belong to a command that does not exist
		}
		return flagError(err)
	})
	root.Flags().BoolVar(&showVersion, "version", false, "print the version")
	root.SetHelpCommand(helpCommand())
	root.SetUsageFunc(usage)
	flags := root.PersistentFlags()
	flags.StringVar(&a.store, "store", defaultStore(), "store of the buckets: a file, memory:, postgres://... or redis://...")
	flags.Lookup("store").DefValue = "$BRIM_STORE, else brim.db" // help must not show a password
	flags.BoolVar(&a.json, "json", false, "print JSON to stdout")
	root.AddCommand(a.tryCommand(), a.takeCommand(), a.fillupCommand(), a.ableCommand(), a.drainCommand(), a.execCommand(),
		a.stateCommand(), a.listCommand(), a.uiCommand(), a.blockCommand(), a.unblockCommand(), a.resetCommand(), a.pruneCommand(),
		a.compactCommand(), a.backupCommand(), a.verifyCommand(), a.doctorCommand(),
		a.replayCommand(), a.sizeCommand(), a.simulateCommand(), a.benchCommand(), a.migrateCommand(), a.versionCommand(), a.manCommand(), newCommand("exit"), a.spendCommand())
	root.InitDefaultCompletionCmd()
	completion, _, _ := root.Find([]string{"completion"})
	completion.Args, completion.RunE = cobra.ArbitraryArgs, group
	a.completeInBash(completion)
	a.addCompletions(root)
	return root
}

// helpCommand prints the help of a command or a topic.
func helpCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND]",
		Short: "Help about any command",
		RunE: func(cmd *cobra.Command, args []string) error {
			about, rest, err := cmd.Root().Find(args)
			if err != nil || len(rest) > 0 {
				return group(about, rest)
			}
			about.InitDefaultHelpFlag()
			return about.Help()
		},
	}
}

// group is the action of a command that only has commands below it.
func group(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return cmd.Help()
	}
	cmd.SuggestionsMinimumDistance = 2
	if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		return usagef("there is no command %q; did you mean %q?", args[0], near[0])
	}
	return usagef("there is no command %q", args[0])
}

func defaultStore() string {
	if s := os.Getenv("BRIM_STORE"); s != "" {
		return s
	}
	return "brim.db"
}

// exactArgs accepts exactly one argument per name.
func exactArgs(names ...string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) < len(names) {
			return usagef("%s is missing", names[len(args)])
		}
		return mostArgs(len(names))(nil, args)
	}
}

// mostArgs accepts at most n arguments.
func mostArgs(n int) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if more := len(args) - n; more > 0 {
			return usagef("%s too many", count(more, "argument"))
		}
		return nil
	}
}

// output remembers the first failed write to stdout. A command whose answer nobody could read
// must not end with status 0.
type output struct {
	w   io.Writer
	err error
}

func (o *output) Write(p []byte) (int, error) {
	n, err := o.w.Write(p)
	if err != nil && o.err == nil {
		o.err = err
	}
	return n, err
}
