package stores

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"

	"github.com/brimgo/brim/bolt"
	"github.com/brimgo/brim/internal/place"
	"github.com/brimgo/brim/memory"
	"github.com/brimgo/brim/postgres"
	"github.com/brimgo/brim/redisstore"
	"github.com/brimgo/brim/sqlite"
	"github.com/brimgo/brim/store"
)

// Options adjust a [Store]. The zero value is the default.
type Options struct {
	// Clock replaces the clock of the store, for tests and for replaying logs; see the Options of
	// the backend.
	Clock func() time.Time
	// MaxSkew limits how far ahead of the clock a stored time is believed; 0 means
	// [store.DefaultMaxSkew].
	MaxSkew time.Duration
	// PruneEvery is the interval at which the store removes empty buckets: see the Options of the
	// backend. 0 means its default, and a negative interval means never.
	PruneEvery time.Duration
	// Lazy has Open make sure of no more than that a store in PostgreSQL can be read, for tools
	// whose user may lack the rights to write, or that look at a standby. In a SQLite database that
	// has tables of others, Open then makes none of its own.
	Lazy bool
	// MaxConns is the largest number of connections to a server, or to each server of a cluster; 0
	// leaves it to the name and to the default of the client.
	MaxConns int
	// Logger gets the warnings of the backend; nil is silent. go-redis has a logger of its own; see
	// [redis.SetLogger].
	Logger *slog.Logger
	// Trace gets each flush and each retry of a backend that combines calls.
	Trace store.Trace
}

// Store is an open store together with the parts of its backend, for the abilities that the
// backend has beside [store.Store]. The fields of other backends are nil. It may be used by any
// number of goroutines at once.
type Store struct {
	store.Store
	// Name is the name of the store without user, password and parameters: for a file its path.
	Name string
	// Bolt is the store in a file.
	Bolt *bolt.Store
	// Postgres is the store in PostgreSQL, and Pool its connections. Close closes them.
	Postgres *postgres.Store
	Pool     *pgxpool.Pool
	// SQLite is the store in a SQLite database, and DB the database. Close closes it.
	SQLite *sqlite.Store
	DB     *sql.DB
	// Redis is the store in Redis, and Client its client. Close closes it.
	Redis  *redisstore.Store
	Client redis.UniversalClient

	release func() error // closes the connections; nil if there are none
	once    sync.Once
}

// ErrName reports a name that is not the name of a store. The error says how to write it and does
// not quote it, since a password may be in it.
var ErrName = place.ErrName

// Open opens the store of that name; the package comment lists the names. o may be nil.
//
// If name is not the name of a store, the error is [ErrName]. If a server cannot be reached, or
// lacks the tables of package migrations or a right on them, or cannot keep the promises of package
// redisstore, Open returns the backend's error.
func Open(ctx context.Context, name string, o *Options) (*Store, error) {
	p, err := place.Parse(name)
	if err != nil {
		return nil, fmt.Errorf("stores: %w", err)
	}
	if o == nil {
		o = &Options{}
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if o.MaxSkew < 0 {
		return nil, fmt.Errorf("stores: MaxSkew is %v; it must be positive, or 0 for %v", o.MaxSkew, store.DefaultMaxSkew)
	}
	s := &Store{Name: p.String()}
	switch p.Kind() {
	case place.Memory:
		s.Store = memory.New(&memory.Options{Clock: o.Clock, MaxSkew: o.MaxSkew, PruneEvery: o.PruneEvery, Logger: o.Logger})
	case place.File:
		s.Bolt, err = bolt.Open(p.Path(), &bolt.Options{
			Clock: o.Clock, MaxSkew: o.MaxSkew, PruneEvery: o.PruneEvery, Logger: o.Logger, Trace: o.Trace,
		})
		s.Store = s.Bolt
	case place.PostgreSQL:
		err = s.openPostgres(ctx, p, o)
	case place.Redis:
		err = s.openRedis(p, o)
	case place.SQLite:
		err = s.openSQLite(ctx, p, o)
	}
	if err != nil {
		return nil, err
	}
	return s, nil
}

func (s *Store) openPostgres(ctx context.Context, p place.Place, o *Options) error {
	config, err := p.PoolConfig(o.MaxConns)
	if err != nil {
		return err
	}
	if config.ConnConfig.ConnectTimeout == 0 {
		// A call has time for a server that hangs, and for the next one in the connection string.
		config.ConnConfig.ConnectTimeout = postgres.DefaultStatementTimeout / 3
	}
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return err
	}
	schema, table := p.Tables()
	s.Postgres, err = postgres.New(pool, &postgres.Options{
		Schema: schema, Table: table, Clock: o.Clock, MaxSkew: o.MaxSkew, PruneEvery: o.PruneEvery, Logger: o.Logger, Trace: o.Trace,
	})
	if err == nil {
		// A missing server, table or right must show before any work begins.
		if o.Lazy {
			err = s.Postgres.Visit(ctx, "", func(store.Entry) bool { return false })
		} else {
			err = s.Postgres.Ping(ctx)
		}
		if err != nil {
			err = errors.Join(err, s.Postgres.Close())
		}
	}
	if err != nil {
		pool.Close()
		return err
	}
	s.Store, s.Pool, s.release = s.Postgres, pool, func() error { pool.Close(); return nil }
	return nil
}

func (s *Store) openRedis(p place.Place, o *Options) error {
	client, options, err := p.Client(o.MaxConns)
	if err != nil {
		return err
	}
	options.Clock, options.MaxSkew, options.Logger, options.Trace = o.Clock, o.MaxSkew, o.Logger, o.Trace
	if s.Redis, err = redisstore.New(client, &options); err != nil {
		return errors.Join(err, client.Close())
	}
	s.Store, s.Client, s.release = s.Redis, client, client.Close
	return nil
}

// Close closes the store, and then the connections that Open has made. A second Close does nothing
// and returns nil.
func (s *Store) Close() error {
	var err error
	s.once.Do(func() {
		err = s.Store.Close()
		if s.release != nil {
			err = errors.Join(err, s.release())
		}
	})
	return err
}
