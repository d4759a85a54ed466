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
	cmd := takesPage(&cobra.Command{
		Use:   "reset (KEY... | --all [--prefix P])",
		Short: "Delete buckets with all their units",
		Long: `Deletes the buckets with these keys, with their level, held units and block. The next call finds
them empty. A key without a bucket has no effect. A ledger of spends in the store stays.

--all deletes all buckets, or those whose keys begin with --prefix. It counts them and asks first;
without a terminal, it needs --yes.

Exit status: 0; 64 the answer was not yes, and nothing was deleted; 65 a damaged bucket stays.`,
		Example: `  brim reset tenant:42
  brim reset --all --prefix test/ --yes`,
		Args: func(_ *cobra.Command, args []string) error {
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
		},
		RunE: func(cmd *cobra.Command, args []string) error {
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
						return fmt.Errorf("%d buckets were reset, and then: %w", i, err)
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
		},
	})
	cmd.Flags().BoolVar(&all, "all", false, "delete all buckets, after a question")
	cmd.Flags().StringVar(&prefix, "prefix", "", "with --all: only keys that begin with this text")
	cmd.Flags().BoolVar(&yes, "yes", false, "with --all: do not ask")
	return cmd
}

func (a *app) pruneCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "prune",
		Short: "Remove buckets that have leaked empty",
		Long: `Removes the buckets that are empty, have no held units and are not blocked, and prints their
number. This changes no answer, because an empty bucket and an absent one are the same. A bucket
that does not leak stays.

Exit status: 0.`,
		Example: `  brim prune --store /var/lib/app/limits.db`,
		Args:    exactArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.with(cmd.Context(), opening{}, func(_ *opened, lim *brim.Limiter) error {
				p := a.progress("prune")
				n, err := lim.Prune(cmd.Context())
				p.end()
				if err != nil {
					return err
				}
				return a.print(map[string]int64{"pruned": n}, fmt.Sprintf("pruned: %d", n))
			})
		},
	}
}

func (a *app) compactCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "compact",
		Short: "Shrink a bbolt file",
		Long: `Rewrites a bbolt file without the unused space that deleted buckets have left, and prints its size
before and after. No other process may use the file meanwhile. Run prune first, which removes
empty buckets.

Exit status: 0.`,
		Example: `  brim prune --store limits.db && brim compact --store limits.db`,
		Args:    exactArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.with(cmd.Context(), opening{}, func(s *opened, _ *brim.Limiter) error {
				if s.file == nil {
					return usagef("%s has no file to compact; give a bbolt file", s.name)
				}
				before, after, err := s.file.Compact(cmd.Context())
				if err != nil {
					return err
				}
				return a.print(struct {
					Before int64 `json:"before_bytes"`
					After  int64 `json:"after_bytes"`
				}{before, after}, fmt.Sprintf("compacted: %d bytes before, %d after", before, after))
			})
		},
	}
}
