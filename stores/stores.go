package stores

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"

	"github.com/brimgo/brim/bolt"
	"github.com/brimgo/brim/memory"
	"github.com/brimgo/brim/postgres"
	"github.com/brimgo/brim/redisstore"
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
	// Place is the name of the store.
	Place Place
	// Bolt is the store in a file.
	Bolt *bolt.Store
	// Postgres is the store in PostgreSQL, and Pool its connections. Close closes them.
	Postgres *postgres.Store
	Pool     *pgxpool.Pool
	// Redis is the store in Redis, and Client its client. Close closes it.
	Redis  *redisstore.Store
	Client redis.UniversalClient

	release func() error // closes the connections; nil if there are none
	once    sync.Once
}

// Open opens the store of that name; the package comment lists the names. o may be nil.
//
// If name is not the name of a store, the error is [ErrName]. If a server cannot be reached, or
// lacks the tables of package migrations, or cannot keep the promises of package redisstore, Open
// returns the backend's error.
func Open(ctx context.Context, name string, o *Options) (*Store, error) {
	p, err := Parse(name)
	if err != nil {
		return nil, fmt.Errorf("stores: %w", err)
	}
	return p.Open(ctx, o)
}

// Open opens the store at p. o may be nil.
func (p Place) Open(ctx context.Context, o *Options) (*Store, error) {
	if o == nil {
		o = &Options{}
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	switch p.kind {
	case Memory:
		s, err := memory.New(&memory.Options{Clock: o.Clock, MaxSkew: o.MaxSkew, Logger: o.Logger})
		if err != nil {
			return nil, err
		}
		return &Store{Store: s, Place: p}, nil
	case File:
		s, err := bolt.Open(p.target.path, &bolt.Options{
			Clock: o.Clock, MaxSkew: o.MaxSkew, Logger: o.Logger, Trace: o.Trace,
		})
		if err != nil {
			return nil, err
		}
		return &Store{Store: s, Place: p, Bolt: s}, nil
	case PostgreSQL:
		return p.openPostgres(ctx, o)
	case Redis:
		return p.openRedis(o)
	}
	return nil, errors.New("stores: the zero Place is no store; make one with Parse")
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
