package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/brimgo/brim"
)

func (a *app) tryCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "try KEY AMOUNT --capacity C (--leak-rate R | --over D)",
		Short: "Put an amount in if it fits wholly",
		Long: `Puts AMOUNT into the bucket KEY if it fits wholly, in one atomic step, and changes nothing if it
does not. A refusal shows when the amount would fit if no other call came in between.

Exit status: 0 it went in; 75 it does not fit now, try again later; 78 it can never fit this
limit.`,
		Example: `  brim try tenant:42 250 --limit 10000@500
  brim try mail:alice 1 --limit 20/24h && sendmail alice@example.com < letter`,
		Args: exactArgs("KEY", "AMOUNT"),
	}
	limit := addLimit(cmd)
	words := func(n float64, st brim.State) string {
		if !st.Accepted {
			return fmt.Sprintf("%s: %s; %s", a.verdict(false, "refused"), filling(st), a.comeBack(n, st))
		}
		return a.verdict(true, "accepted") + ": " + filling(st)
	}
	cmd.RunE = a.change(limit, change{creates: true, refuses: true, call: (*brim.Limiter).TryFillup, words: words})
	return cmd
}

func (a *app) fillupCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "fillup KEY AMOUNT --capacity C (--leak-rate R | --over D)",
		Short: "Put an amount in, up to the rim",
		Long: `Puts AMOUNT into the bucket KEY, up to its capacity. The rest is lost. Use it to count events that
have happened anyway. The answer shows whether the bucket became full, and how much was lost.

Exit status: 0, whether or not all of it went in; see accepted, full and spilled of --json.`,
		Example: `  brim fillup login-failures:203.0.113.7 1 --limit 5/15m`,
		Args:    exactArgs("KEY", "AMOUNT"),
	}
	limit := addLimit(cmd)
	words := func(n float64, st brim.State) string {
		s := "filled: " + filling(st)
		if st.Full {
			s += fmt.Sprintf("; this filled it up, at %s", clockTime(st.At, a.now()))
		}
		if st.Spilled > 0 {
			s += fmt.Sprintf("; %s of %s lost over the rim", units(st.Spilled), units(n))
		}
		return s
	}
	cmd.RunE = a.change(limit, change{creates: true, call: (*brim.Limiter).Fillup, words: words})
	return cmd
}

func (a *app) drainCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "drain KEY AMOUNT --capacity C (--leak-rate R | --over D)",
		Short: "Take an amount out",
		Long: `Takes AMOUNT out of the bucket KEY, or all of its level if that is less. Use it to give units
back, or to correct a fill.

Exit status: 0.`,
		Example: `  brim drain tenant:42 250 --limit 10000@500`,
		Args:    exactArgs("KEY", "AMOUNT"),
	}
	limit := addLimit(cmd)
	words := func(_ float64, st brim.State) string { return "drained: " + filling(st) }
	cmd.RunE = a.change(limit, change{call: (*brim.Limiter).Drain, words: words})
	return cmd
}

func (a *app) ableCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "able KEY AMOUNT --capacity C (--leak-rate R | --over D)",
		Short: "Ask whether an amount would fit",
		Long: `Asks whether AMOUNT would fit into the bucket KEY now, and writes nothing. Another call may fill
the bucket before you read the answer. To decide and fill in one step, use try.

Exit status: 0 it would fit; 75 it would not. With --json, accepted is the answer.`,
		Example: `  brim able tenant:42 250 --limit 10000@500 || echo "not now"`,
		Args:    exactArgs("KEY", "AMOUNT"),
	}
	limit := addLimit(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		b, n, err := limit.bucketArgs(args)
		if err != nil {
			return err
		}
		return a.with(cmd.Context(), opening{}, func(_ *opened, lim *brim.Limiter) error {
			st, err := lim.AbleToAccept(cmd.Context(), b, n)
			if err != nil {
				return err
			}
			answer := a.verdict(true, "yes") + ": " + filling(st)
			if !st.Accepted {
				answer = fmt.Sprintf("%s: %s; %s", a.verdict(false, "no"), filling(st), a.comeBack(n, st))
			}
			if err := a.print(newStateJSON(b.Key, st), answer); err != nil || st.Accepted {
				return err
			}
			return status(exitRefused)
		})
	}
	return cmd
}

// change describes a command that changes one bucket.
type change struct {
	creates bool // the file of the store
	refuses bool // a refusal has an exit status of its own
	call    func(*brim.Limiter, context.Context, brim.Bucket, float64) (brim.State, error)
	words   func(n float64, st brim.State) string
}

// change returns the action of a command that changes one bucket.
func (a *app) change(limit *limitFlags, c change) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		b, n, err := limit.bucketArgs(args)
		if err != nil {
			return err
		}
		return a.with(cmd.Context(), opening{create: c.creates}, func(_ *opened, lim *brim.Limiter) error {
			st, err := c.call(lim, cmd.Context(), b, n)
			if err != nil {
				return err
			}
			if err := a.print(newStateJSON(b.Key, st), c.words(n, st)); err != nil {
				return err
			}
			switch {
			case !c.refuses || st.Accepted:
				return nil
			case st.RetryAfter == brim.Never:
				return status(exitNever)
			}
			return status(exitRefused)
		})
	}
}
