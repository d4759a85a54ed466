package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

// held runs a server for as long as its standard input is open. The server therefore ends with
// this process, even if this process is killed.
const held = `"$@" & pid=$!; read -r _; kill $pid; wait $pid`

// redisServer is a redis-server that this program has started.
type redisServer struct {
	client *redis.Client
	hold   io.Closer
	cmd    *exec.Cmd
	fsync  string
}

// startRedis starts a server on a free port of the loopback interface. The server keeps an
// append-only file in dir, and fsync is its setting appendfsync. The server never rewrites the
// file, because that would take time from some turns.
func startRedis(ctx context.Context, dir, fsync string) (_ *redisServer, err error) {
	program, err := exec.LookPath("redis-server")
	if err != nil {
		return nil, fmt.Errorf("%w; install redis-server", err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err := errors.Join(err, l.Close()); err != nil {
		return nil, err
	}
	dir = filepath.Join(dir, "redis-"+fsync)
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, err
	}
	r := &redisServer{fsync: fsync}
	r.cmd = exec.Command("sh", "-c", held, "sh", program, "--port", port, "--bind", "127.0.0.1", "--dir", dir,
		"--save", "", "--appendonly", "yes", "--appendfsync", fsync, "--auto-aof-rewrite-percentage", "0",
		"--logfile", filepath.Join(dir, "log"))
	if r.hold, err = r.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if err := r.cmd.Start(); err != nil {
		return nil, err
	}
	r.client = redis.NewClient(&redis.Options{
		Addr:        net.JoinHostPort("127.0.0.1", port),
		PoolSize:    connections,
		PoolTimeout: time.Minute,
		ReadTimeout: time.Minute,
	})
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		if err = r.client.Ping(ctx).Err(); err == nil {
			return r, nil
		}
		if time.Now().After(deadline) || ctx.Err() != nil {
			return nil, errors.Join(fmt.Errorf("redis-server gives no answer: %w", err), r.close())
		}
	}
}

var (
	aofSize      = regexp.MustCompile(`(?m)^aof_current_size:(\d+)`)
	redisVersion = regexp.MustCompile(`(?m)^redis_version:(\S+)`)
)

// written returns the size of the append-only file in bytes.
func (r *redisServer) written(ctx context.Context) (int64, error) {
	info, err := r.client.Info(ctx, "persistence").Result()
	if err != nil {
		return 0, err
	}
	return parseSize(info)
}

func parseSize(info string) (int64, error) {
	m := aofSize.FindStringSubmatch(info)
	if m == nil {
		return 0, errors.New("redis reports no size of its append-only file; is appendonly on?")
	}
	return strconv.ParseInt(m[1], 10, 64)
}

func (r *redisServer) version(ctx context.Context) (string, error) {
	info, err := r.client.Info(ctx, "server").Result()
	if err != nil {
		return "", err
	}
	m := redisVersion.FindStringSubmatch(info)
	if m == nil {
		return "", errors.New("redis reports no version")
	}
	return m[1], nil
}

// close ends the server, and waits until it has ended.
func (r *redisServer) close() error {
	err := errors.Join(r.client.Close(), r.hold.Close())
	var exit *exec.ExitError
	if wait := r.cmd.Wait(); !errors.As(wait, &exit) { // after the signal, any exit status is fine
		err = errors.Join(err, wait)
	}
	return err
}
