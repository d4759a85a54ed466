package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/brimgo/brim/internal/pgtest"
	"github.com/brimgo/brim/migrations"
)

// The servers that subjects can need.
const (
	postgresServer = "PostgreSQL"
	redisAlways    = "Redis, AOF always"
	redisEverysec  = "Redis, AOF everysec"
)

// connections is how many each pool has, for brim, for the references and for the clients of Redis.
const connections = 64

// postgresConf keeps checkpoints, which write whole pages to the log, out of the measurement: a run is shorter than the time
// between two on a server with room for its log. All else is as initdb leaves it.
var postgresConf = []string{"max_wal_size=16GB", "checkpoint_timeout=1h"}

// env is what the subjects share.
type env struct {
	log        io.Writer
	dir        string   // for files
	keys, full []string // names of buckets with room, and of full ones
	pg         *pgtest.Server
	pool       *pgxpool.Pool
	redis      map[string]*redisServer
	began      time.Time
}

func newEnv(dir string, log io.Writer) (*env, error) {
	dir, err := os.MkdirTemp(dir, "brim-bench-")
	if err != nil {
		return nil, err
	}
	e := &env{log: log, dir: dir, began: time.Now(), redis: make(map[string]*redisServer)}
	e.name()
	return e, nil
}

// name makes the names of buckets anew.
func (e *env) name() { e.keys, e.full = names("tenant:%d", keyCount), names("full:%d", fullCount) }

func names(format string, n int) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprintf(format, i)
	}
	return all
}

func (e *env) say(format string, args ...any) {
	fmt.Fprintf(e.log, "%5.0f s  %s\n", time.Since(e.began).Seconds(), fmt.Sprintf(format, args...))
}

// start starts a server.
func (e *env) start(ctx context.Context, server string) (err error) {
	switch server {
	case postgresServer:
		if e.pg, err = pgtest.Launch(postgresConf...); err != nil {
			return err
		}
		if e.pool, err = e.connect(ctx, connections, ""); err != nil {
			return err
		}
		return migrations.Up(ctx, e.pool, nil)
	case redisAlways, redisEverysec:
		fsync := "always"
		if server == redisEverysec {
			fsync = "everysec"
		}
		e.redis[server], err = startRedis(ctx, e.dir, fsync)
		return err
	default:
		return fmt.Errorf("no server is called %q", server)
	}
}

// connect makes a pool of its own; name, if any, is what the server calls its connections.
func (e *env) connect(ctx context.Context, conns int32, name string) (*pgxpool.Pool, error) {
	cfg, err := pgxpool.ParseConfig(e.pg.URL())
	if err != nil {
		return nil, err
	}
	cfg.MaxConns = conns
	if name != "" {
		cfg.ConnConfig.RuntimeParams["application_name"] = name
	}
	return pgxpool.NewWithConfig(ctx, cfg)
}

// logged reports the bytes of WAL that the server has written.
func (e *env) logged(ctx context.Context) (n int64, err error) {
	err = e.pool.QueryRow(ctx, `SELECT (pg_current_wal_insert_lsn() - '0/0'::pg_lsn)::int8`).Scan(&n)
	return n, err
}

// close stops the servers and removes the files.
func (e *env) close() error {
	var errs []error
	if e.pool != nil {
		e.pool.Close()
	}
	if e.pg != nil {
		errs = append(errs, e.pg.Close())
	}
	for _, r := range e.redis {
		if r != nil {
			errs = append(errs, r.close())
		}
	}
	return errors.Join(append(errs, os.RemoveAll(e.dir))...)
}
