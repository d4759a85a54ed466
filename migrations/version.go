package migrations

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/brimgo/brim/internal/pgname"
	"github.com/brimgo/brim/store"
)

// Status is the state of a schema.
type Status struct {
	Version uint // the last applied migration; 0 if there is none
	Latest  uint // the last migration that this program knows; below Version for a newer schema
	Dirty   bool // a migration is running, or was cut short, which Up repairs
	// Missing are the tables, without their schema, that migrations have made and somebody has
	// dropped. Up makes them again.
	Missing []string
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
	return Status{
		Version: uint(max(v.number, 0)), Latest: uint(versions[len(versions)-1]), Dirty: v.dirty, Missing: v.missing,
	}, nil
}

// none is golang-migrate's version of a schema without migrations.
const none = -1

// version is a version as golang-migrate records it. A dirty one is that of a running migration,
// or of one that was cut short.
type version struct {
	number  int
	dirty   bool
	missing []string // tables of the migrations up to number that do not exist
}

type querier interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// readVersion reads the version that golang-migrate has recorded. A missing table means that no
// migration was applied.
//
// The lock timeout bounds the whole: the server may not answer, or somebody may have locked the
// table.
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
	if err == nil && v.number > 0 {
		v.missing, err = p.missing(ctx, q, v.number)
	}
	if err != nil && ctx.Err() != nil && caller.Err() == nil {
		err = fmt.Errorf("no answer within %v; see Options.LockTimeout", p.lockTimeout)
	}
	return v, err
}

// missing returns the tables of the migrations up to a version that do not exist. It needs no right
// on them.
func (p plan) missing(ctx context.Context, q querier, number int) (missing []string, err error) {
	tables := []string{p.Table()}
	if number >= 2 {
		tables = append(tables, p.Ledger()...)
	}
	err = q.QueryRow(ctx, `SELECT ARRAY(SELECT t.name FROM pg_catalog.unnest($2::pg_catalog.text[]) AS t (name) WHERE NOT EXISTS (
		SELECT FROM pg_catalog.pg_class AS c CROSS JOIN LATERAL (
			SELECT FROM pg_catalog.pg_namespace AS n
			WHERE n.oid OPERATOR(pg_catalog.=) c.relnamespace AND n.nspname::pg_catalog.text OPERATOR(pg_catalog.=) $1::pg_catalog.text) AS n
		WHERE c.relname::pg_catalog.text OPERATOR(pg_catalog.=) t.name AND c.relkind::pg_catalog.text OPERATOR(pg_catalog.=) ANY ('{r,p}'::pg_catalog.text[])))`,
		p.Schema(), tables).Scan(&missing)
	if len(missing) == 0 {
		missing = nil
	}
	return missing, err
}

// spent reports whether a table of the ledger exists and has rows.
func (p plan) spent(ctx context.Context, q querier) (spent bool, err error) {
	missing, err := p.missing(ctx, q, 2)
	for _, name := range p.Ledger() {
		if err != nil || spent {
			break
		}
		if !slices.Contains(missing, name) {
			err = q.QueryRow(ctx, `SELECT EXISTS (SELECT FROM `+pgname.Quote(p.Schema())+`.`+pgname.Quote(name)+`)`).Scan(&spent)
		}
	}
	return spent, err
}
