package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/brimgo/brim"
)

func (a *app) tryCommand() *cobra.Command {
	cmd := newCommand("try")
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

func (a *app) takeCommand() *cobra.Command {
	cmd := newCommand("take")
	limit := addLimit(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		_, least, err := limit.bucketArgs(args[:2])
		if err != nil {
			return err
		}
		words := func(_ float64, st brim.State) string {
			if !st.Accepted {
				return fmt.Sprintf("%s: %s; %s", a.verdict(false, "refused"), filling(st), a.comeBack(least, st))
			}
			return fmt.Sprintf("%s: %s", a.verdict(true, "took "+units(st.Taken)), filling(st))
		}
		take := func(lim *brim.Limiter, ctx context.Context, b brim.Bucket, most float64) (brim.State, error) {
			st, err := lim.TakeUpTo(ctx, b, least, most)
			if errors.Is(err, brim.ErrInvalidAmount) {
				err = usageError{err}
			}
			return st, err
		}
		c := change{creates: true, refuses: true, call: take, words: words}
		return a.change(limit, c)(cmd, []string{args[0], args[2]})
	}
	return cmd
}

func (a *app) fillupCommand() *cobra.Command {
	cmd := newCommand("fillup")
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
	cmd := newCommand("drain")
	limit := addLimit(cmd)
	words := func(_ float64, st brim.State) string { return "drained: " + filling(st) }
	cmd.RunE = a.change(limit, change{call: (*brim.Limiter).Drain, words: words})
	return cmd
}

func (a *app) ableCommand() *cobra.Command {
	cmd := newCommand("able")
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
			case st.RetryAfter >= brim.Never:
				return status(exitNever)
			}
			return status(exitRefused)
		})
	}
}
