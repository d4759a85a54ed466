package sqlite

import (
	"cmp"
	"context"
	"database/sql"

	"github.com/brimgo/brim/internal/sqliterun"
	"github.com/brimgo/brim/store"
)

// Status is the state of the tables in a database.
type Status = sqliterun.Status

// Migrate brings the tables of brim in db to the version that this program needs. [New] does so,
// too, unless [Options.NoMigrate] is set. Migrate does nothing if the tables are current, and
// leaves newer ones alone. Several processes may call it at once. Only the options Prefix and
// LockTimeout count.
func Migrate(ctx context.Context, db *sql.DB, o *Options) error {
	full, err := o.withDefaults()
	if err == nil {
		err = sqliterun.Explain(sqliterun.Migrate(ctx, db, full.Prefix, full.LockTimeout))
	}
	return store.Wrap(backend, "migrate", err)
}

// CurrentStatus returns the state of the tables, and changes nothing. Only the option Prefix
// counts.
func CurrentStatus(ctx context.Context, db *sql.DB, o *Options) (Status, error) {
	full, err := o.withDefaults()
	var s Status
	if err == nil {
		s, err = sqliterun.StatusOf(ctx, db, full.Prefix)
	}
	return s, store.Wrap(backend, "status", sqliterun.Explain(err))
}

// SQL returns one script with all migrations, for a person or another migration tool to run. It may
// run again. "" is the default prefix.
func SQL(prefix string) string { return sqliterun.Script(cmp.Or(prefix, DefaultPrefix)) }
