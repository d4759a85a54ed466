package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/brimgo/brim"
	"github.com/brimgo/brim/internal/duration"
	"github.com/brimgo/brim/internal/uiapi"
	"github.com/brimgo/brim/store"
)

func (a *app) blockCommand() *cobra.Command {
	cmd := takesPage(newCommand("block"))
	limit := addLimit(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		key := args[0]
		if err := store.ValidateKey(key); err != nil {
			return usageError{err}
		}
		d, err := blockFor(args[1])
		if err != nil {
			return err
		}
		var l brim.Limit
		if limit.given() {
			if l, err = limit.limit(); err != nil {
				return err
			}
		}
		// Without a limit there must be a bucket, and so a file.
		st, err := a.stateOf(cmd.Context(), opening{create: limit.given()}, func(page *uiapi.Client) (brim.State, error) {
			c := uiapi.Change{Act: uiapi.Block, Key: key, Capacity: l.Capacity, LeakRate: l.LeakRate, Reason: cmd.CommandPath()}
			c.SetBlockFor(d)
			return page.Change(cmd.Context(), c)
		}, func(lim *brim.Limiter) (st brim.State, err error) {
			if !limit.given() {
				if l, err = lastLimit(cmd.Context(), lim, key); err != nil {
					return st, err
				}
			}
			return lim.Block(cmd.Context(), l.For(key), d)
		})
		if err != nil {
			return err
		}
		words := "not blocked, because the bucket is empty: "
		if !st.BlockedUntil.IsZero() {
			words = "blocked until " + clockTime(st.BlockedUntil, a.now()) + ": "
		}
		return a.print(newStateJSON(key, st), words+filling(st))
	}
	return cmd
}

// blockFor reads the duration of a block.
func blockFor(text string) (time.Duration, error) {
	if text == "until-empty" {
		return brim.UntilEmpty, nil
	}
	var d duration.Value
	if err := d.Set(text); err != nil || d.Std() < time.Microsecond {
		return 0, usagef("DURATION is %q; it must be a positive time like 90s, 15m, 24h or 30d, or until-empty", text)
	}
	return d.Std(), nil
}

// lastLimit returns the limit that was last used with key.
func lastLimit(ctx context.Context, lim *brim.Limiter, key string) (brim.Limit, error) {
	st, err := lim.StateOf(ctx, key)
	if err == nil && st.Capacity == 0 {
		err = usagef("there is no such bucket; give --capacity, and one of --leak-rate and --over")
	}
	return brim.Limit{Capacity: st.Capacity, LeakRate: st.LeakRate}, err
}

func (a *app) unblockCommand() *cobra.Command {
	cmd := takesPage(newCommand("unblock"))
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		key := args[0]
		if err := store.ValidateKey(key); err != nil {
			return usageError{err}
		}
		st, err := a.stateOf(cmd.Context(), opening{}, func(page *uiapi.Client) (brim.State, error) {
			return page.Change(cmd.Context(), uiapi.Change{Act: uiapi.Unblock, Key: key, Reason: cmd.CommandPath()})
		}, func(lim *brim.Limiter) (brim.State, error) { return lim.Unblock(cmd.Context(), key) })
		if err != nil {
			return err
		}
		words := "not blocked: there is no such bucket"
		if st.Capacity > 0 {
			words = "not blocked: " + filling(st)
		}
		return a.print(newStateJSON(key, st), words)
	}
	return cmd
}
