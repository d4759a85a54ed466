package migrations

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/golang-migrate/migrate/v4/database"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/brimgo/brim/store"
)

// The reasons why a migration did not run. Match them with [errors.Is]. errors.As finds the error
// of the server, a *pgconn.PgError. If the server cannot be reached, the error is
// [store.ErrUnavailable].
var (
	// ErrLocked reports a lock that was not granted within Options.LockTimeout.
	ErrLocked = errors.New("locked by another session")
	// ErrPrivilege reports a role without the privileges for the migration.
	ErrPrivilege = errors.New("missing privilege")
	// ErrReadOnly reports a server or a session that does not write.
	ErrReadOnly = errors.New("server is read-only")
	// ErrNewer reports a schema of a newer program that this program cannot leave alone.
	ErrNewer = errors.New("schema is newer than this program")
)

// errForeign reports a version that brim never had.
var errForeign = errors.New("table of applied migrations belongs to another program")

// The SQLSTATEs whose messages name a way out.
const (
	stateInvalidSchema   = "3F000"
	stateReadOnly        = "25006"
	stateNoPrivilege     = "42501"
	stateUndefinedTable  = "42P01"
	stateLockUnavailable = "55P03"
	stateCheckViolation  = "23514"
)

// fail adds the operation to an error, and returns nil for nil.
func fail(op string, err error) error { return store.Wrap("postgres", "migrate "+op, err) }

// explain adds the kind of an error of the server, and a way out.
func explain(ctx context.Context, err error, p plan) error {
	if err == nil {
		return nil
	}
	err = unwrapMigrate(err)
	var pg *pgconn.PgError
	switch {
	case ctx.Err() != nil:
		// The cause of the context tells more than the server's answer to the interrupt, or a
		// closed connection.
		return fmt.Errorf("%w; the next run completes the migration", context.Cause(ctx))
	case errors.Is(err, ErrLocked), errors.Is(err, ErrNewer), errors.Is(err, errForeign), errors.Is(err, errors.ErrUnsupported):
		return err
	case !errors.As(err, &pg), unreachable(err, pg):
		return fmt.Errorf("%w: %w", store.ErrUnavailable, err)
	case pg.Code == stateNoPrivilege:
		return fmt.Errorf(
			"%w: %w; use a role that owns schema %q, or have its owner apply the output of \"brim migrate sql\"",
			ErrPrivilege, err, p.Schema())
	case pg.Code == stateReadOnly:
		return fmt.Errorf(
			"%w: %w; connect to the primary (target_session_attrs=read-write), with default_transaction_read_only off",
			ErrReadOnly, err)
	case pg.Code == stateLockUnavailable:
		return fmt.Errorf(
			"%w: %w: a table was in use for %v; end the transaction that locks it (see pg_locks), and run this again",
			ErrLocked, err, p.lockTimeout)
	}
	return err
}

// unreachable reports whether the server could not accept the connection or the statement, for
// instance because it was starting.
func unreachable(err error, pg *pgconn.PgError) bool {
	var connect *pgconn.ConnectError
	// The classes are connection exception, insufficient resources, and a server that shuts down
	// or starts.
	return errors.As(err, &connect) || strings.HasPrefix(pg.Code, "08") ||
		strings.HasPrefix(pg.Code, "53") || strings.HasPrefix(pg.Code, "57P")
}

// unwrapMigrate returns the original error within golang-migrate's database.Error, which has no
// Unwrap and prints the whole migration.
func unwrapMigrate(err error) error {
	var ptr *database.Error
	var val database.Error
	switch {
	// The error of a migration, joined with the error of the unlocking.
	case errors.As(err, &val) && val.OrigErr != nil:
		return val.OrigErr
	case errors.As(err, &ptr) && ptr.OrigErr != nil:
		return ptr.OrigErr
	}
	return err
}
