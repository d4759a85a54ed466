package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/brimgo/brim"
	"github.com/brimgo/brim/internal/uiapi"
	"github.com/brimgo/brim/store"
)

func (a *app) resetCommand() *cobra.Command {
	var (
		all, yes bool
		prefix   string
	)
	cmd := takesPage(newCommand("reset"))
	cmd.Args = func(_ *cobra.Command, args []string) error {
		switch {
		case all && len(args) > 0:
			return usagef("--all needs no KEY; leave out one of the two")
		case !all && (yes || prefix != ""):
			return usagef("--yes and --prefix need --all")
		case !all && len(args) == 0:
			return usagef("KEY is missing")
		}
		for _, key := range args {
			if err := store.ValidateKey(key); err != nil {
				return usageError{err}
			}
		}
		return nil
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		done := func() error {
			return a.print(map[string]int{"reset": len(args)}, fmt.Sprintf("reset: %d", len(args)))
		}
		page, err := a.page()
		switch {
		case err != nil:
			return err
		case page != nil && all:
			return usagef("--all does not go through a page; name the keys, or the store itself with --store")
		case page != nil:
			for i, key := range args {
				if _, err := page.Change(cmd.Context(), uiapi.Change{Act: uiapi.Reset, Key: key, Reason: cmd.CommandPath()}); err != nil {
					return fmt.Errorf("buckets reset: %d, and then: %w", i, err)
				}
			}
			return done()
		}
		return a.with(cmd.Context(), opening{}, func(s *opened, _ *brim.Limiter) error {
			if all {
				return a.resetAll(cmd.Context(), s, prefix, yes)
			}
			if err := s.Delete(cmd.Context(), args...); err != nil {
				return err
			}
			return done()
		})
	}
	cmd.Flags().BoolVar(&all, "all", false, "delete all buckets, after a question")
	cmd.Flags().StringVar(&prefix, "prefix", "", "with --all: only keys that begin with this text")
	cmd.Flags().BoolVar(&yes, "yes", false, "with --all: do not ask")
	return cmd
}

func (a *app) pruneCommand() *cobra.Command {
	cmd := newCommand("prune")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return a.with(cmd.Context(), opening{}, func(_ *opened, lim *brim.Limiter) error {
			p := a.progress("prune")
			n, err := lim.Prune(cmd.Context())
			p.end()
			if err != nil {
				return err
			}
			return a.print(map[string]int64{"pruned": n}, fmt.Sprintf("pruned: %d", n))
		})
	}
	return cmd
}

func (a *app) compactCommand() *cobra.Command {
	cmd := newCommand("compact")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := a.isFile("compact shrinks"); err != nil {
			return err
		}
		return a.with(cmd.Context(), opening{}, func(s *opened, _ *brim.Limiter) error {
			before, after, err := s.file.Compact(cmd.Context())
			if err != nil {
				return err
			}
			return a.print(struct {
				Before int64 `json:"before_bytes"`
				After  int64 `json:"after_bytes"`
			}{before, after}, fmt.Sprintf("compacted: %s before, %d after", count(before, "byte"), after))
		})
	}
	return cmd
}
