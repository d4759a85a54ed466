package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/brimgo/brim/internal/pgtest"
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
// append-only file, because that would take time from some trials.
var redisConf = map[string][]string{
	redisAlways:   {"appendonly yes", "appendfsync always", "auto-aof-rewrite-percentage 0"},
	redisEverysec: {"appendonly yes", "appendfsync everysec", "auto-aof-rewrite-percentage 0"},
	redisCluster:  {"appendonly no"},
}

// env is the environment that the subjects share.
type env struct {
	log        io.Writer
	began      time.Time
	dir        string   // for files
	keys, full []string // names of buckets with room, and of full ones
	chosen     []*subject
	pg         *pgtest.Server
	pool       *pgxpool.Pool
	redis      map[string]*redisServers
}

func newEnv(log io.Writer) (*env, error) {
	dir, err := os.MkdirTemp("", "brim-bench-")
	if err != nil {
		return nil, err
	}
	e := &env{log: log, dir: dir, began: time.Now(), redis: map[string]*redisServers{}}
	e.rename()
	return e, nil
}

// rename makes new strings for the names of the buckets.
func (e *env) rename() { e.keys, e.full = names("tenant:%d", keyCount), names("full:%d", fullCount) }

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

// start starts one of the servers, unless it has been started.
func (e *env) start(ctx context.Context, server string) (err error) {
	if server == postgresServer && e.pg != nil || e.redis[server] != nil {
		return nil
	}
	e.say("starting %s", server)
	if server == postgresServer {
		err = e.startPostgres(ctx)
	} else {
		e.redis[server], err = startRedis(ctx, server == redisCluster, redisConf[server]...)
	}
	if err != nil {
		err = fmt.Errorf("%s: %w; -only measures without it", server, err)
	}
	return err
}

func (e *env) startPostgres(ctx context.Context) (err error) {
	if e.pg, err = pgtest.Launch(postgresConf...); err != nil {
		return err
	}
	if e.pool, err = e.connect(ctx, connections, "on"); err != nil {
		return err
	}
	return migrations.Up(ctx, e.pool, nil)
}

// connect makes a new pool. commit is the synchronous_commit of its connections.
func (e *env) connect(ctx context.Context, conns int32, commit string) (*pgxpool.Pool, error) {
	cfg, err := pgxpool.ParseConfig(e.pg.URL())
	if err != nil {
		return nil, err
	}
	cfg.MaxConns = conns
	cfg.ConnConfig.RuntimeParams["synchronous_commit"] = commit
	return pgxpool.NewWithConfig(ctx, cfg)
}

// execute runs statements one after the other.
func execute(ctx context.Context, pool *pgxpool.Pool, statements ...string) error {
	for _, sql := range statements {
		if _, err := pool.Exec(ctx, sql); err != nil {
			return fmt.Errorf("%w, for %s", err, sql)
		}
	}
	return nil
}

// logged returns the number of bytes that the server has written to its write-ahead log.
func (e *env) logged(ctx context.Context) (n float64, err error) {
	err = e.pool.QueryRow(ctx, `SELECT (pg_current_wal_insert_lsn() - '0/0'::pg_lsn)::float8`).Scan(&n)
	return n, err
}

// describe notes the machine and the versions in the results.
func (e *env) describe(ctx context.Context, r *results) {
	cpu := "unknown"
	if text, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		_, after, _ := strings.Cut(string(text), "\nmodel name\t: ")
		cpu, _, _ = strings.Cut(after, "\n")
	}
	r.Machine = []string{
		fmt.Sprintf("%d x %s, %s/%s", runtime.NumCPU(), cpu, runtime.GOOS, runtime.GOARCH), runtime.Version(),
	}
	if e.pool != nil {
		version := ""
		if err := e.pool.QueryRow(ctx, `SHOW server_version`).Scan(&version); err == nil {
			r.Machine = append(r.Machine, postgresServer+" "+version)
		}
	}
	for _, s := range e.redis {
		if s == nil {
			continue
		}
		if version, err := s.text(ctx, redisVersion); err == nil {
			r.Machine = append(r.Machine, "Redis "+version)
			break
		}
	}
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
