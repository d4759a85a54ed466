package main

import (
	"context"
	"fmt"
	"log/slog"
	"strings"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/brimgo/brim/internal/duration"
	"github.com/brimgo/brim/migrations"
)

func (a *app) migrateCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "migrate",
		Short: "Make and change the tables in PostgreSQL",
		Long: `Brings the tables of a PostgreSQL store to the version that this brim knows. --store names the server; the schema and the
table of buckets are brim.buckets, or what the URL's parameters brim_schema and brim_table say.`,
		Example: `  brim migrate up --store postgres://owner@db.example/app
  brim migrate status --store 'postgres://app@db.example/app?brim_schema=limits'
  brim migrate sql > brim.sql`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usagef("unknown command %q; there are up, status and sql", args[0])
			}
			return cmd.Help()
		},
	}
	cmd.AddCommand(a.migrateUpCommand(), a.migrateStatusCommand(), a.migrateSQLCommand())
	return cmd
}

func (a *app) migrateUpCommand() *cobra.Command {
	var o migrations.Options
	wait := duration.Value(migrations.DefaultLockTimeout)
	cmd := &cobra.Command{
		Use:   "up [--lock-timeout D] [--unlogged]",
		Short: "Apply the migrations that are missing",
		Long: `Applies the migrations that are missing; does nothing where none is. Any number of processes may do so at once, and a run
that was cut short is repaired by the next.

It needs a connection that stays the same: not one through a pooler in transaction mode.

Exit status: 0; 69 if the server cannot be reached, or the lock was not granted in time.`,
		Example: `  brim migrate up --store postgres://owner@db.example/app`,
		Args:    exactArgs(),
	}
	cmd.Flags().Var(&wait, "lock-timeout", "how long to wait for another process that migrates")
	cmd.Flags().BoolVar(&o.Unlogged, "unlogged", false, "make the table of buckets UNLOGGED: faster, and empty after a crash of the server")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		o.LockTimeout = wait.Std()
		o.Logger = slog.New(slog.NewTextHandler(a.stderr, nil))
		return a.migrate(cmd.Context(), &o, func(ctx context.Context, pool *pgxpool.Pool) error {
			if err := migrations.Up(ctx, pool, &o); err != nil {
				return err
			}
			return a.migrationStatus(ctx, pool, &o)
		})
	}
	return cmd
}

func (a *app) migrateStatusCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "status",
		Short:   "Say which migration was applied last",
		Long:    "Says which migration was applied last, and which is the last that this brim knows. Changes nothing.",
		Example: `  brim migrate status --store postgres://app@db.example/app --json`,
		Args:    exactArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			var o migrations.Options
			return a.migrate(cmd.Context(), &o, func(ctx context.Context, pool *pgxpool.Pool) error {
				return a.migrationStatus(ctx, pool, &o)
			})
		},
	}
}

func (a *app) migrateSQLCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "sql",
		Short: "Print the migrations as one SQL script",
		Long: `Prints one script that does what "brim migrate up" does, for another migration tool or a person to run: one transaction, which
may run again. It needs no server; where --store is a postgres:// URL, its brim_schema and brim_table are used.`,
		Example: `  brim migrate sql > brim.sql
  brim migrate sql --store 'postgres:///?brim_schema=limits' | psql app`,
		Args: exactArgs(),
		RunE: func(*cobra.Command, []string) error {
			var o migrations.Options
			if isPostgres(a.store) {
				p, err := parsePlace(a.store)
				if err != nil {
					return err
				}
				o.Schema, o.Table = p.schema, p.table
			}
			text, err := migrations.SQL(&o)
			if err != nil {
				return err
			}
			fmt.Fprint(a.stdout, text)
			return nil
		},
	}
}

// migrate calls f with a pool for the server that --store names, and puts schema and table into o.
func (a *app) migrate(ctx context.Context, o *migrations.Options, f func(context.Context, *pgxpool.Pool) error) error {
	if !isPostgres(a.store) {
		return usagef("migrations are for PostgreSQL; give --store postgres://...")
	}
	p, err := parsePlace(a.store)
	if err != nil {
		return err
	}
	o.Schema, o.Table = p.schema, p.table
	pool, err := p.connect(ctx, 0)
	if err != nil {
		return err
	}
	defer pool.Close()
	if err := f(ctx, pool); err != nil {
		return openError{err}
	}
	return nil
}

func (a *app) migrationStatus(ctx context.Context, pool *pgxpool.Pool, o *migrations.Options) error {
	st, err := migrations.CurrentStatus(ctx, pool, o)
	if err != nil {
		return err
	}
	if a.json {
		return a.printJSON(struct {
			Version uint `json:"version"`
			Latest  uint `json:"latest"`
			Dirty   bool `json:"dirty"`
		}{st.Version, st.Latest, st.Dirty})
	}
	fmt.Fprintf(a.stdout, "version %d of %d: %s\n", st.Version, st.Latest, migrationAdvice(st))
	return nil
}

func migrationAdvice(st migrations.Status) string {
	switch {
	case st.Dirty:
		return "a migration is running, or was cut short; \"brim migrate up\" repairs it"
	case st.Version > st.Latest:
		return "newer than this brim, which works with it"
	case st.Version < st.Latest:
		return "run \"brim migrate up\""
	}
	return "up to date"
}

func isPostgres(value string) bool {
	return strings.HasPrefix(value, "postgres://") || strings.HasPrefix(value, "postgresql://")
}
