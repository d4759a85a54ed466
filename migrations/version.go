package migrations

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/brimgo/brim/store"
)

// Status is the state of a schema.
type Status struct {
	Version uint // the last applied migration; 0 if there is none
	Latest  uint // the last migration that this program knows; below Version for a newer schema
	Dirty   bool // a migration is running, or was cut short, which Up repairs
}

// CurrentStatus returns the state of the schema. It needs SELECT on the table of applied
// migrations, and changes nothing.
func CurrentStatus(ctx context.Context, pool *pgxpool.Pool, o *Options) (Status, error) {
	p, err := newPlan(o)
	if err != nil {
		return Status{}, fail("status", err)
	}
	if pool == nil {
		return Status{}, fail("status", store.ErrClosed)
	}
	versions, err := known()
	if err != nil {
		return Status{}, fail("status", err)
	}
	v, err := readVersion(ctx, pool, p)
	if err != nil {
		return Status{}, fail("status", explain(ctx, err, p))
	}
	return Status{Version: uint(max(v.number, 0)), Latest: uint(versions[len(versions)-1]), Dirty: v.dirty}, nil
}

// none is golang-migrate's version of a schema without migrations.
const none = -1

// version is a version as golang-migrate records it. A dirty one is that of a running migration,
// or of one that was cut short.
type version struct {
	number int
	dirty  bool
}

type querier interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// readVersion reads the version that golang-migrate has recorded. A missing table means that no
// migration was applied.
//
// The lock timeout bounds the whole: the server may not answer, or somebody may have locked the table.
func readVersion(caller context.Context, q querier, p plan) (version, error) {
	ctx, cancel := context.WithTimeout(caller, p.lockTimeout)
	defer cancel()
	var v version
	err := q.QueryRow(ctx, `SELECT version, dirty FROM `+p.QualifiedVersions()+` LIMIT 1`).Scan(&v.number, &v.dirty)
	var pg *pgconn.PgError
	missing := errors.As(err, &pg) && (pg.Code == stateUndefinedTable || pg.Code == stateInvalidSchema)
	if missing || errors.Is(err, pgx.ErrNoRows) {
		return version{number: none}, nil
	}
	if err != nil && ctx.Err() != nil && caller.Err() == nil {
		err = fmt.Errorf("no answer within %v; see Options.LockTimeout", p.lockTimeout)
	}
	return v, err
}
