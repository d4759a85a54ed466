package main

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"

	"github.com/brimgo/brim/postgres"
	"github.com/brimgo/brim/redisstore"
	"github.com/brimgo/brim/store"
)

// server is a connection to a PostgreSQL or a Redis.
type server struct {
	store store.Store
	now   func(context.Context) (time.Time, error) // reads the server's clock
	close func() error                             // closes the store, too
}

// connect connects to the server at a URL.
func connect(ctx context.Context, url string) (*server, error) {
	if strings.HasPrefix(url, "redis://") {
		o, err := redis.ParseURL(url)
		if err != nil {
			return nil, err
		}
		client := redis.NewClient(o)
		s, err := redisstore.New(client, nil)
		if err != nil {
			return nil, errors.Join(err, client.Close())
		}
		return &server{
			store: s,
			now:   func(ctx context.Context) (time.Time, error) { return client.Time(ctx).Result() },
			close: func() error { return errors.Join(s.Close(), client.Close()) },
		}, nil
	}
	pool, err := pgxpool.New(ctx, url)
	if err != nil {
		return nil, err
	}
	s, err := postgres.New(pool, nil)
	if err != nil {
		pool.Close()
		return nil, err
	}
	return &server{
		store: s,
		now: func(ctx context.Context) (now time.Time, err error) {
			err = pool.QueryRow(ctx, `SELECT clock_timestamp()`).Scan(&now)
			return now, err
		},
		close: func() error {
			err := s.Close()
			pool.Close()
			return err
		},
	}, nil
}
