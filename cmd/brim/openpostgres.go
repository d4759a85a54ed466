package main

import (
	"context"
	"errors"
	"net/url"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/brimgo/brim/cmd/brim/internal/bench"
	"github.com/brimgo/brim/internal/pgname"
	"github.com/brimgo/brim/postgres"
)

// place is the content of a postgres:// value of --store: a server, and the schema and table on it.
type place struct {
	server        string // the URL without brim's own parameters
	name          string // without user and password
	schema, table string
}

// parsePlace reads a postgres:// value. brim_schema and brim_table are parameters of the URL, so
// that one flag or one environment variable names the whole place.
func parsePlace(value string) (place, error) {
	u, err := url.Parse(value)
	if err != nil {
		// The error of url.Parse quotes the URL, and with it the password.
		return place{}, usagef("--store is not a URL; write it like postgres://user:password@host:5432/database")
	}
	q := u.Query()
	p := place{schema: q.Get("brim_schema"), table: q.Get("brim_table")}
	q.Del("brim_schema")
	q.Del("brim_table")
	u.RawQuery = q.Encode()
	p.server = u.String()
	u.User, u.RawQuery = nil, ""
	p.name = u.String()
	if _, err := pgname.New(p.schema, p.table); err != nil {
		return place{}, usagef("--store: %w", err)
	}
	return p, nil
}

// connect makes a pool of at most conns connections, or of pgx's default number if conns is 0.
func (p place) connect(ctx context.Context, conns int) (*pgxpool.Pool, error) {
	cfg, err := pgxpool.ParseConfig(p.server)
	if err != nil {
		return nil, usagef("--store: %w", err)
	}
	if conns > 0 {
		cfg.MaxConns = int32(conns)
	}
	return pgxpool.NewWithConfig(ctx, cfg)
}

// postgresStore closes its pool when it is closed.
type postgresStore struct {
	*postgres.Store
	pool *pgxpool.Pool
}

func (s *postgresStore) Close() error {
	err := s.Store.Close()
	s.pool.Close()
	return err
}

// newPostgresStore makes a store at a place. It does not ask the server yet.
func newPostgresStore(ctx context.Context, p place, o opening) (*postgresStore, error) {
	pool, err := p.connect(ctx, o.conns)
	if err != nil {
		return nil, err
	}
	s, err := postgres.New(pool, &postgres.Options{
		Schema: p.schema, Table: p.table, Clock: o.clock, MaxSkew: o.maxSkew(), Logger: o.log,
	})
	if err != nil {
		pool.Close()
		return nil, err
	}
	return &postgresStore{s, pool}, nil
}

// openPostgres opens a store in PostgreSQL.
func openPostgres(ctx context.Context, value string, o opening) (*opened, error) {
	p, err := parsePlace(value)
	if err != nil {
		return nil, err
	}
	s, err := newPostgresStore(ctx, p, o)
	if err != nil {
		return nil, err
	}
	// A missing server, or missing tables, must show before any work begins.
	if _, err := s.Scan(ctx, "", "", 1); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return &opened{
		Store:  s,
		name:   p.name,
		update: s.Update,
		reference: func(ctx context.Context, keys int) (*bench.Reference, error) {
			return bench.PostgresReference(ctx, s.pool, p.schema, keys)
		},
	}, nil
}
