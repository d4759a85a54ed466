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
		Long: `Puts AMOUNT into the bucket KEY if it fits wholly, in one atomic step, and changes nothing if it does not.
A refusal says when the amount would fit if nobody else came.

Exit status: 0 it went in; 75 it does not fit now, try again later; 78 it can never fit this limit.`,
		Example: `  brim try tenant:42 250 --capacity 10000 --leak-rate 500
  brim try mail:alice 1 --capacity 20 --over 24h && sendmail alice@example.com < letter`,
		Args: exactArgs("KEY", "AMOUNT"),
	}
	limit := addLimit(cmd)
	cmd.RunE = a.change(limit, change{absent: create, refuses: true, call: (*brim.Limiter).TryFillup, words: func(n float64, st brim.State) string {
		if !st.Accepted {
			return fmt.Sprintf("refused: %s; %s", filling(st), a.comeBack(n, st))
		}
		return "accepted: " + filling(st)
	}})
	return cmd
}

func (a *app) fillupCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "fillup KEY AMOUNT --capacity C (--leak-rate R | --over D)",
		Short: "Put an amount in, up to the rim",
		Long: `Puts AMOUNT into the bucket KEY. What exceeds the rim is lost: for what has happened anyway.
Says whether this brought the bucket to its capacity, and what was lost.

Exit status: 0, whether or not all of it went in; see accepted, full and spilled of --json.`,
		Example: `  brim fillup login-failures:203.0.113.7 1 --capacity 5 --over 15m`,
		Args:    exactArgs("KEY", "AMOUNT"),
	}
	limit := addLimit(cmd)
	cmd.RunE = a.change(limit, change{absent: create, call: (*brim.Limiter).Fillup, words: func(n float64, st brim.State) string {
		s := "filled: " + filling(st)
		if st.Full {
			s += fmt.Sprintf("; this filled it up, at %s", clockTime(st.At, a.now()))
		}
		if st.Spilled > 0 {
			s += fmt.Sprintf("; %s of %s lost over the rim", units(st.Spilled), units(n))
		}
		return s
	}})
	return cmd
}

func (a *app) drainCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "drain KEY AMOUNT --capacity C (--leak-rate R | --over D)",
		Short: "Take an amount out",
		Long: `Takes AMOUNT out of the bucket KEY, at most what is in it: units that are given back, or were counted in error.

Exit status: 0.`,
		Example: `  brim drain tenant:42 250 --capacity 10000 --leak-rate 500`,
		Args:    exactArgs("KEY", "AMOUNT"),
	}
	limit := addLimit(cmd)
	cmd.RunE = a.change(limit, change{absent: empty, call: (*brim.Limiter).Drain, words: func(_ float64, st brim.State) string {
		return "drained: " + filling(st)
	}})
	return cmd
}

func (a *app) ableCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "able KEY AMOUNT --capacity C (--leak-rate R | --over D)",
		Short: "Ask whether an amount would fit",
		Long: `Asks whether AMOUNT would fit into the bucket KEY now, and writes nothing. By the time that the answer is there,
somebody else may have filled the bucket: to decide and fill at once, use try.

Exit status: 0 it would fit; 75 it would not. With --json, accepted is the answer.`,
		Example: `  brim able tenant:42 250 --capacity 10000 --leak-rate 500 || echo "not now"`,
		Args:    exactArgs("KEY", "AMOUNT"),
	}
	limit := addLimit(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		b, n, err := limit.bucketArgs(args)
		if err != nil {
			return err
		}
		return a.with(cmd.Context(), opening{absent: empty}, func(_ *opened, lim *brim.Limiter) error {
			st, err := lim.AbleToAccept(cmd.Context(), b, n)
			if err != nil {
				return err
			}
			answer := "yes: " + filling(st)
			if !st.Accepted {
				answer = fmt.Sprintf("no: %s; %s", filling(st), a.comeBack(n, st))
			}
			if err := a.answer(b.Key, st, answer); err != nil || st.Accepted {
				return err
			}
			return status(exitRefused)
		})
	}
	return cmd
}

// change is a command that changes one bucket.
type change struct {
	absent  absence
	refuses bool // is a refusal told by the exit status?
	call    func(*brim.Limiter, context.Context, brim.Bucket, float64) (brim.State, error)
	words   func(n float64, st brim.State) string
}

func (a *app) change(limit *limitFlags, c change) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		b, n, err := limit.bucketArgs(args)
		if err != nil {
			return err
		}
		return a.with(cmd.Context(), opening{absent: c.absent}, func(_ *opened, lim *brim.Limiter) error {
			st, err := c.call(lim, cmd.Context(), b, n)
			if err != nil {
				return err
			}
			if err := a.answer(b.Key, st, c.words(n, st)); err != nil {
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

// answer prints a state as JSON or in words.
func (a *app) answer(key string, st brim.State, words string) error {
	if a.json {
		return a.printJSON(newStateJSON(key, st))
	}
	_, err := fmt.Fprintln(a.stdout, words)
	return err
}
