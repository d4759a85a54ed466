package main

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/brimgo/brim"
	"github.com/brimgo/brim/internal/duration"
	"github.com/brimgo/brim/internal/uiapi"
	"github.com/brimgo/brim/store"
)

func (a *app) blockCommand() *cobra.Command {
	cmd := takesPage(newCommand("block"))
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		key := args[0]
		if err := store.ValidateKey(key); err != nil {
			return usageError{err}
		}
		d, err := blockFor(args[1])
		if err != nil {
			return err
		}
		st, err := a.stateOf(cmd.Context(), opening{}, func(page *uiapi.Client) (brim.State, error) {
			c := uiapi.Change{Act: uiapi.Block, Key: key, Reason: cmd.CommandPath()}
			c.SetBlockFor(d)
			return page.Change(cmd.Context(), c)
		}, func(lim *brim.Limiter) (brim.State, error) { return lim.Block(cmd.Context(), key, d) })
		if err != nil {
			return err
		}
		words := "not blocked, because the bucket is empty"
		if !st.BlockedUntil.IsZero() {
			words = "blocked until " + clockTime(st.BlockedUntil, a.now())
		}
		if st.Capacity > 0 {
			words += ": " + filling(st)
		}
		return a.print(newStateJSON(key, st), words)
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
		words := "not blocked: the bucket is empty, or there is no such bucket" // Unblock cannot tell
		if st.Capacity > 0 {
			words = "not blocked: " + filling(st)
		}
		return a.print(newStateJSON(key, st), words)
	}
	return cmd
}
