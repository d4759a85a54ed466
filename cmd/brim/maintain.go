package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/brimgo/brim"
	"github.com/brimgo/brim/store"
)

func (a *app) resetCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "reset KEY...",
		Short: "Delete buckets, whatever they hold",
		Long: `Deletes the buckets with these keys, with their level, held units and block: the next call finds them empty.
Keys that have no bucket are passed over.

Exit status: 0.`,
		Example: `  brim reset tenant:42
  brim list --prefix test/ --json | jq -r .key | xargs brim reset`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
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
			return a.with(cmd.Context(), opening{absent: empty}, func(s *opened, _ *brim.Limiter) error {
				if err := s.Delete(cmd.Context(), args...); err != nil {
					return err
				}
				if a.json {
					return a.printJSON(map[string]int{"reset": len(args)})
				}
				_, err := fmt.Fprintf(a.stdout, "reset: %d\n", len(args))
				return err
			})
		},
	}
}

func (a *app) pruneCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "prune",
		Short: "Remove buckets that have leaked empty",
		Long: `Removes the buckets that are empty, hold nothing and are not blocked, and says how many. It changes no answer: an
empty bucket and an absent one are the same. Buckets that do not leak stay.

Exit status: 0.`,
		Example: `  brim prune --store /var/lib/app/limits.db`,
		Args:    exactArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.with(cmd.Context(), opening{absent: empty}, func(_ *opened, lim *brim.Limiter) error {
				p := a.progress("prune")
				n, err := lim.Prune(cmd.Context())
				p.end()
				if err != nil {
					return err
				}
				if a.json {
					return a.printJSON(map[string]int64{"pruned": n})
				}
				_, err = fmt.Fprintf(a.stdout, "pruned: %d\n", n)
				return err
			})
		},
	}
}

func (a *app) compactCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "compact",
		Short: "Shrink a bbolt file",
		Long: `Rewrites a bbolt file without the space that deleted buckets have left in it, and says how large it was and is.
The file must not be in use by another process. Run prune first to remove what is empty.

Exit status: 0.`,
		Example: `  brim prune --store limits.db && brim compact --store limits.db`,
		Args:    exactArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.with(cmd.Context(), opening{absent: fail}, func(s *opened, _ *brim.Limiter) error {
				if s.compact == nil {
					return usagef("%s has no file to compact: this is for bbolt", s.name)
				}
				before, after, err := s.compact(cmd.Context())
				if err != nil {
					return err
				}
				if a.json {
					return a.printJSON(struct {
						Before int64 `json:"before_bytes"`
						After  int64 `json:"after_bytes"`
					}{before, after})
				}
				_, err = fmt.Fprintf(a.stdout, "compacted: %d bytes before, %d after\n", before, after)
				return err
			})
		},
	}
}
