package stores

import (
	"context"
	"errors"
	"fmt"
	"net/url"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/brimgo/brim/internal/pgname"
	"github.com/brimgo/brim/postgres"
	"github.com/brimgo/brim/store"
)

func parsePostgres(u *url.URL, t *target) error {
	server := *u
	own, err := takeOwn(&server, "brim_schema", "brim_table")
	if err != nil {
		return err
	}
	t.schema, t.table = own["brim_schema"], own["brim_table"]
	if _, err := pgname.New(t.schema, t.table); err != nil {
		return err
	}
	if t.pool, err = pgxpool.ParseConfig(server.String()); err != nil {
		return unreadable(err, u)
	}
	if params := t.pool.ConnConfig.RuntimeParams; params["application_name"] == "" { // nor in PGAPPNAME
		params["application_name"] = "brim"
	}
	return nil
}

// Pool returns a pool for a place of kind [PostgreSQL], for migrations and checks; for another kind
// it returns an error. It sends nothing, and the caller closes the pool. Of o, which may be nil, it
// uses MaxConns.
func (p Place) Pool(ctx context.Context, o *Options) (*pgxpool.Pool, error) {
	if p.kind != PostgreSQL {
		return nil, fmt.Errorf("stores: a pool needs a server of PostgreSQL, and this is: %v", p.kind)
	}
	return pgxpool.NewWithConfig(ctx, p.poolConfig(o))
}

func (p Place) poolConfig(o *Options) *pgxpool.Config {
	config := p.target.pool.Copy()
	if o != nil && o.MaxConns > 0 {
		config.MaxConns = int32(min(o.MaxConns, 1<<20))
	}
	postgres.WatchCommits(config)
	return config
}

func (p Place) openPostgres(ctx context.Context, o *Options) (*Store, error) {
	config := p.poolConfig(o)
	if config.ConnConfig.ConnectTimeout == 0 {
		// A call has time for a server that hangs, and for the next one in the connection string.
		config.ConnConfig.ConnectTimeout = postgres.DefaultStatementTimeout / 3
	}
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	s, err := postgres.New(pool, &postgres.Options{
		Schema: p.target.schema, Table: p.target.table,
		Clock: o.Clock, MaxSkew: o.MaxSkew, Logger: o.Logger, Trace: o.Trace,
	})
	if err != nil {
		pool.Close()
		return nil, err
	}
	// A missing server, or missing tables, must show before any work begins.
	if err := s.Visit(ctx, "", func(store.Entry) bool { return false }); err != nil {
		err = errors.Join(err, s.Close())
		pool.Close()
		return nil, err
	}
	return &Store{
		Store: s, Place: p, Postgres: s, Pool: pool,
		release: func() error { pool.Close(); return nil },
	}, nil
}
