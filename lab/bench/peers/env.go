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
	"github.com/brimgo/brim/lab/bench/internal/redises"
	"github.com/brimgo/brim/migrations"
)

// The servers that a subject can need.
const (
	postgresServer = "PostgreSQL"
	redisAlways    = "Redis, AOF always"
	redisEverysec  = "Redis, AOF everysec"
	redisCluster   = "Redis Cluster of 3 primaries, AOF off"
)

// connections is the size of each pool of connections: brim's, the references' and those of the
// clients of Redis.
const connections = 64

// postgresConf keeps checkpoints out of the measurement, because the pages that change after a
// checkpoint are written to the log as a whole. A run is shorter than the time between two
// checkpoints. All other settings are those of initdb.
var postgresConf = []string{"max_wal_size=16GB", "checkpoint_timeout=1h"}

// redisConf is the configuration of the servers of each kind. A server never rewrites its
// append-only file, because that would take time from some turns.
var redisConf = map[string][]string{
	redisAlways:   {"appendonly yes", "appendfsync always", "auto-aof-rewrite-percentage 0", `save ""`},
	redisEverysec: {"appendonly yes", "appendfsync everysec", "auto-aof-rewrite-percentage 0", `save ""`},
	redisCluster:  {"appendonly no", `save ""`},
}

// env is the environment that the subjects share.
type env struct {
	log        io.Writer
	dir        string   // for files
	keys, full []string // names of buckets with room, and of full ones
	pg         *pgtest.Server
	pool       *pgxpool.Pool
	redis      map[string]*redises.Servers
	began      time.Time
	available  func() (bytes uint64, known bool) // the memory that is available
}

func newEnv(dir string, log io.Writer) (*env, error) {
	dir, err := os.MkdirTemp(dir, "brim-bench-")
	if err != nil {
		return nil, err
	}
	e := &env{log: log, dir: dir, began: time.Now(), redis: make(map[string]*redises.Servers), available: availableMemory}
	e.name()
	return e, nil
}

// name makes new strings for the names of the buckets.
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

// start starts one of the servers.
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
	case redisAlways, redisEverysec, redisCluster:
		e.redis[server], err = redises.Start(ctx, server == redisCluster, connections, redisConf[server]...)
		return err
	default:
		return fmt.Errorf("unknown server %q", server)
	}
}

// connect makes a new pool. name, unless it is "", becomes the application_name of its connections.
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

// logged returns the number of bytes that the server has written to its write-ahead log.
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
			errs = append(errs, r.Close())
		}
	}
	return errors.Join(append(errs, os.RemoveAll(e.dir))...)
}
