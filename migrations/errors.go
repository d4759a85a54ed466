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

// Why a migration did not run. Match them with [errors.Is]; the server's own error, a *pgconn.PgError, is found with
// errors.As. A server that could not be reached is [store.ErrUnavailable].
var (
	// ErrLocked is a lock that was not granted within Options.LockTimeout.
	ErrLocked = errors.New("locked by another session")
	// ErrPrivilege is a role that may not do what has to be done.
	ErrPrivilege = errors.New("missing privilege")
	// ErrReadOnly is a server, or a session, that does not write.
	ErrReadOnly = errors.New("server is read-only")
	// ErrNewer is a schema of a newer program, where this one cannot simply leave it alone.
	ErrNewer = errors.New("schema is newer than this program")
)

// errForeign is a version that brim never had.
var errForeign = errors.New("table of applied migrations is another program's")

// SQLSTATEs that have a way out of their own.
const (
	stateInvalidSchema   = "3F000"
	stateReadOnly        = "25006"
	stateNoPrivilege     = "42501"
	stateUndefinedTable  = "42P01"
	stateLockUnavailable = "55P03"
)

// fail names the operation that failed; nil stays nil.
func fail(op string, err error) error { return store.Wrap("postgres", "migrate "+op, err) }

// explain says what to do about what went wrong between us and the server.
func explain(ctx context.Context, err error, p plan) error {
	if err == nil {
		return nil
	}
	err = unwrapMigrate(err)
	var pg *pgconn.PgError
	switch {
	case ctx.Err() != nil:
		// The server's answer to being interrupted, or a dead connection, says less than the reason.
		return fmt.Errorf("%w; what was begun is finished by the next run", context.Cause(ctx))
	case errors.Is(err, ErrLocked), errors.Is(err, ErrNewer), errors.Is(err, errForeign):
		return err
	case !errors.As(err, &pg), unreachable(err, pg):
		return fmt.Errorf("%w: %w", store.ErrUnavailable, err)
	case pg.Code == stateNoPrivilege:
		return fmt.Errorf("%w: %w; use a role that owns schema %q, or have its owner apply the output of \"brim migrate sql\"",
			ErrPrivilege, err, p.Schema())
	case pg.Code == stateReadOnly:
		return fmt.Errorf("%w: %w; connect to the primary (target_session_attrs=read-write), with default_transaction_read_only off",
			ErrReadOnly, err)
	case pg.Code == stateLockUnavailable:
		return fmt.Errorf("%w: %w: a table was in use for %v; end the transaction that holds it (see pg_locks), and run this again",
			ErrLocked, err, p.lockTimeout)
	}
	return err
}

// unreachable reports whether the server's error is that it has no place or no time for us, and not what we asked of it.
func unreachable(err error, pg *pgconn.PgError) bool {
	var connect *pgconn.ConnectError
	return errors.As(err, &connect) || strings.HasPrefix(pg.Code, "08") || // connection exception
		strings.HasPrefix(pg.Code, "53") || strings.HasPrefix(pg.Code, "57P") // insufficient resources; shutting down or starting
}

// unwrapMigrate returns what golang-migrate's database.Error was made of: it does not unwrap, and prints the whole migration.
func unwrapMigrate(err error) error {
	var ptr *database.Error
	var val database.Error
	switch {
	case errors.As(err, &val) && val.OrigErr != nil: // a migration's, joined to what unlocking said
		return val.OrigErr
	case errors.As(err, &ptr) && ptr.OrigErr != nil:
		return ptr.OrigErr
	}
	return err
}
