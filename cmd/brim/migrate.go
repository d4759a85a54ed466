package main

import (
	"context"
	"fmt"
	"log/slog"
	"strings"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/brimgo/brim/internal/duration"
	"github.com/brimgo/brim/internal/place"
	"github.com/brimgo/brim/migrations"
)

func (a *app) migrateCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "migrate",
		Short: "Create and change the tables in PostgreSQL",
		Long: `Brings the tables of a PostgreSQL store to the version that this brim knows. --store names the
server. The table of buckets is brim.buckets, unless the parameters brim_schema and brim_table of
the URL name another.`,
		Example: `  brim migrate up --store postgres://owner@db.example/app
  brim migrate status --store 'postgres://app@db.example/app?brim_schema=limits'
  brim migrate sql > brim.sql`,
		Args: cobra.ArbitraryArgs,
		RunE: group,
	}
	cmd.AddCommand(a.migrateUpCommand(), a.migrateStatusCommand(), a.migrateSQLCommand())
	return cmd
}

func (a *app) migrateUpCommand() *cobra.Command {
	var o migrations.Options
	wait := duration.Value(migrations.DefaultLockTimeout)
	cmd := &cobra.Command{
		Use:   "up [--lock-timeout D] [--unlogged]",
		Short: "Apply the missing migrations",
		Long: `Applies the missing migrations, and does nothing if none is missing. Any number of processes may
do so at once. If a run was cut short, the next run repairs it. Tables that somebody has dropped are
made again, but not beside those of a ledger that has rows.

The command needs one connection for all of its statements. A pooler in transaction mode does not
give it one.

Exit status: 0; 69 if the server cannot be reached, or the lock was not granted in time.`,
		Example: `  brim migrate up --store postgres://owner@db.example/app`,
		Args:    exactArgs(),
	}
	cmd.Flags().Var(&wait, "lock-timeout", "longest time to wait for another process that migrates")
	cmd.Flags().BoolVar(&o.Unlogged, "unlogged", false,
		"create the table of buckets as UNLOGGED: faster, and empty after a crash of the server")
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
		Use:   "status",
		Short: "Show the last applied migration",
		Long: "Shows the last applied migration, and the last one that this brim knows. Changes nothing.\n\n" +
			"Exit status: 0; 1 if the tables are behind, one was dropped, or a migration was cut short.",
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
		Long: `Prints one SQL script with the effect of "brim migrate up", for another migration tool or a person
to run. The script is one transaction, and may run again. The command needs no server. If --store
is a postgres:// URL, its brim_schema and brim_table are used.`,
		Example: `  brim migrate sql > brim.sql
  brim migrate sql --store 'postgres:///?brim_schema=limits' | psql app`,
		Args: exactArgs(),
		RunE: func(*cobra.Command, []string) error {
			var o migrations.Options
			p, err := a.place()
			if err != nil {
				return err
			}
			o.Schema, o.Table = p.Tables()
			text, err := migrations.SQL(&o)
			if err != nil {
				return err
			}
			fmt.Fprint(a.stdout, text)
			return nil
		},
	}
}

// migrate calls f with a pool for the server that --store names, and sets the schema and the
// table of o.
func (a *app) migrate(ctx context.Context, o *migrations.Options, f func(context.Context, *pgxpool.Pool) error) error {
	p, err := a.place()
	switch {
	case err != nil:
		return err
	case p.Kind() != place.PostgreSQL:
		return usagef("migrations are for PostgreSQL; give --store postgres://...")
	}
	o.Schema, o.Table = p.Tables()
	pool, err := p.Pool(ctx)
	if err != nil {
		return openError{err}
	}
	defer pool.Close()
	if err := f(ctx, pool); err != nil {
		return openError{err}
	}
	return nil
}

// migrationStatus prints the status of the tables.
func (a *app) migrationStatus(ctx context.Context, pool *pgxpool.Pool, o *migrations.Options) error {
	st, err := migrations.CurrentStatus(ctx, pool, o)
	if err != nil {
		return err
	}
	err = a.print(struct {
		Version uint     `json:"version"`
		Latest  uint     `json:"latest"`
		Dirty   bool     `json:"dirty"`
		Missing []string `json:"missing,omitempty"`
	}{st.Version, st.Latest, st.Dirty, st.Missing}, fmt.Sprintf("version %d of %d: %s", st.Version, st.Latest, migrationAdvice(st)))
	if err == nil && (st.Dirty || st.Version < st.Latest || len(st.Missing) > 0) {
		return status(exitBroken)
	}
	return err
}

// migrationAdvice describes a status, and the way out of it.
func migrationAdvice(st migrations.Status) string {
	switch {
	case st.Dirty:
		return "a migration is running, or was cut short; \"brim migrate up\" repairs it"
	case st.Version > st.Latest:
		return "newer than this brim, which can use it"
	case len(st.Missing) > 0:
		return fmt.Sprintf("somebody has dropped the tables %s; run \"brim migrate up\"", strings.Join(st.Missing, ", "))
	case st.Version < st.Latest:
		return "run \"brim migrate up\""
	}
	return "up to date"
}
