package migrations

import (
	"context"
	"errors"
	"fmt"

	"github.com/golang-migrate/migrate/v4/database"

	"github.com/brimgo/brim/internal/pgrun"
	"github.com/brimgo/brim/store"
)

// The reasons why a migration did not run. Match them with [errors.Is]. errors.As finds the error
// of the server, a *pgconn.PgError. Each error is [store.ErrUnavailable] if it is known to pass by
// itself, as that of a server that cannot be reached, and [store.ErrMisconfigured] if it is not.
var (
	// ErrLocked reports a lock that was not granted within Options.LockTimeout. It passes.
	ErrLocked = fmt.Errorf("%w: locked by another session", store.ErrUnavailable)
	// ErrPrivilege reports a role without the privileges for the migration.
	ErrPrivilege = fmt.Errorf("%w: missing privilege", store.ErrMisconfigured)
	// ErrReadOnly reports a server or a session that does not write. It passes if the server is a
	// standby.
	ErrReadOnly = errors.New("server is read-only")
	// ErrNewer reports a schema of a newer program that this program cannot leave alone.
	ErrNewer = fmt.Errorf("%w: schema is newer than this program", store.ErrMisconfigured)
)

// errForeign reports a version that brim never had.
var errForeign = fmt.Errorf("%w: table of applied migrations belongs to another program", store.ErrMisconfigured)

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

// explain adds the class of an error, its kind, and a way out.
func explain(ctx context.Context, err error, p plan) error {
	if err == nil {
		return nil
	}
	err = unwrapMigrate(err)
	switch {
	case ctx.Err() != nil:
		// The cause of the context tells more than the server's answer to the interrupt, or a
		// closed connection.
		return fmt.Errorf("%w; the next run completes the migration", context.Cause(ctx))
	case errors.Is(err, store.ErrUnavailable), errors.Is(err, store.ErrMisconfigured), errors.Is(err, errors.ErrUnsupported):
		return err
	}
	class := pgrun.Class(err)
	if class == store.ErrUnknownOutcome { // the next run completes what this one has begun
		class = store.ErrUnavailable
	}
	switch {
	case pgrun.IsCode(err, stateNoPrivilege):
		return fmt.Errorf(
			"%w: %w; use a role that owns schema %q, or have its owner apply the output of \"brim migrate sql\"",
			ErrPrivilege, err, p.Schema())
	case pgrun.IsCode(err, stateReadOnly):
		return fmt.Errorf(
			"%w: %w: %w; connect to the primary (target_session_attrs=read-write), with default_transaction_read_only off",
			class, ErrReadOnly, err)
	case pgrun.IsCode(err, stateLockUnavailable):
		return fmt.Errorf(
			"%w: %w: a table was in use for %v; end the transaction that locks it (see pg_locks), and run this again",
			ErrLocked, err, p.lockTimeout)
	}
	return fmt.Errorf("%w: %w", class, err)
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
