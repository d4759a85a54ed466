package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/brimgo/brim/internal/duration"
	"github.com/brimgo/brim/internal/place"
	"github.com/brimgo/brim/migrations"
	"github.com/brimgo/brim/sqlite"
)

func (a *app) migrateCommand() *cobra.Command {
	cmd := newCommand("migrate")
	cmd.Args, cmd.RunE = cobra.ArbitraryArgs, group
	cmd.AddCommand(a.migrateUpCommand(), a.migrateStatusCommand(), a.migrateSQLCommand(), a.migratePartitionsCommand())
	return cmd
}

func (a *app) migrateUpCommand() *cobra.Command {
	var o migrations.Options
	wait := duration.Value(migrations.DefaultLockTimeout)
	cmd := newCommand("migrate/up")
	cmd.Flags().Var(&wait, "lock-timeout", "longest time to wait for another process that migrates")
	cmd.Flags().BoolVar(&o.Unlogged, "unlogged", false,
		"create the table of buckets as UNLOGGED: faster, and empty after a crash of the server")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		o.LockTimeout = wait.Std()
		o.Logger = slog.New(slog.NewTextHandler(a.stderr, nil))
		if done, err := a.migrateSQLite(cmd.Context(), &sqlite.Options{LockTimeout: o.LockTimeout}, true); done || err != nil {
			return err
		}
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
	cmd := newCommand("migrate/status")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		var o migrations.Options
		if done, err := a.migrateSQLite(cmd.Context(), nil, false); done || err != nil {
			return err
		}
		return a.migrate(cmd.Context(), &o, func(ctx context.Context, pool *pgxpool.Pool) error {
			return a.migrationStatus(ctx, pool, &o)
		})
	}
	return cmd
}

func (a *app) migrateSQLCommand() *cobra.Command {
	cmd := newCommand("migrate/sql")
	cmd.RunE = func(*cobra.Command, []string) error {
		var o migrations.Options
		p, err := a.place()
		if err != nil {
			return err
		}
		if p.Kind() == place.SQLite {
			fmt.Fprint(a.stdout, sqlite.SQL(""))
			return nil
		}
		o.Schema, o.Table = p.Tables()
		text, err := migrations.SQL(&o)
		if err != nil {
			return err
		}
		fmt.Fprint(a.stdout, text)
		return nil
	}
	return cmd
}

func (a *app) migratePartitionsCommand() *cobra.Command {
	var every string
	var ahead int
	wait := duration.Value(migrations.DefaultLockTimeout)
	cmd := newCommand("migrate/partitions")
	cmd.Flags().StringVar(&every, "every", string(migrations.Month), "the time of a new partition: day, week or month")
	cmd.Flags().IntVar(&ahead, "ahead", 3, "number of partitions after that of this moment")
	cmd.Flags().Var(&wait, "lock-timeout", "longest time to try for each lock")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if !slices.Contains([]string{"day", "week", "month"}, every) || ahead < 0 {
			return usagef("--every is day, week or month, and --ahead is 0 or more")
		}
		o := migrations.Options{LockTimeout: wait.Std()}
		return a.migrate(cmd.Context(), &o, func(ctx context.Context, pool *pgxpool.Pool) error {
			done, err := migrations.Partition(ctx, pool, migrations.Period(every), ahead, &o)
			if err != nil {
				return err
			}
			err = a.print(struct {
				Created []string `json:"created,omitempty"`
				Dropped []string `json:"dropped,omitempty"`
				Strays  int64    `json:"strays"`
			}(done), fmt.Sprintf("created: %v; dropped: %v; %s in the default partition", done.Created, done.Dropped, count(done.Strays, "entry")))
			if err == nil && done.Strays > 0 {
				return status(exitBroken)
			}
			return err
		})
	}
	return cmd
}

// migrate calls f with a pool for the server that --store names, and sets the schema and the
// table of o.
func (a *app) migrate(ctx context.Context, o *migrations.Options, f func(context.Context, *pgxpool.Pool) error) error {
	p, err := a.place()
	switch {
	case err != nil:
		return err
	case p.Kind() != place.PostgreSQL:
		return usagef("migrations are for PostgreSQL and SQLite; give --store postgres://... or sqlite:PATH")
	}
	o.Schema, o.Table = p.Tables()
	pool, err := p.Pool(ctx)
	if err != nil {
		return openError{err}
	}
	defer pool.Close()
	if err = f(ctx, pool); err != nil && !errors.Is(err, errors.ErrUnsupported) {
		err = openError{err}
	}
	return err
}

// migrationStatus prints the status of the tables.
func (a *app) migrationStatus(ctx context.Context, pool *pgxpool.Pool, o *migrations.Options) error {
	st, err := migrations.CurrentStatus(ctx, pool, o)
	if err != nil {
		return err
	}
	return a.printMigrations(st)
}

// migrateSQLite migrates the database that --store names, if up is set, and prints the status of
// its tables. done is false for another store.
func (a *app) migrateSQLite(ctx context.Context, o *sqlite.Options, up bool) (done bool, err error) {
	p, err := a.place()
	if err != nil || p.Kind() != place.SQLite {
		return false, err
	}
	if !up {
		if err := present(p); err != nil {
			return true, err
		}
	}
	db, _, err := p.Database(ctx, 0)
	if err != nil {
		return true, openError{err}
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	if up {
		if err := sqlite.Migrate(ctx, db, o); err != nil {
			return true, openError{err}
		}
	}
	st, err := sqlite.CurrentStatus(ctx, db, nil)
	if err != nil {
		return true, openError{err}
	}
	return true, a.printMigrations(migrations.Status{Version: uint(st.Version), Latest: uint(st.Latest), Missing: st.Missing})
}

// printMigrations prints the status of the tables of a store.
func (a *app) printMigrations(st migrations.Status) error {
	err := a.print(struct {
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
