package postgres

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/brimgo/brim/internal/pgname"
	"github.com/brimgo/brim/internal/pgrun"
	"github.com/brimgo/brim/store"
)

// hostTime is how long a server may take to answer to a new connection.
const hostTime = time.Second

// server is a server that a connection string names.
type server struct {
	host string
	port uint16
}

func (s server) String() string {
	if strings.HasPrefix(s.host, "/") { // a socket
		return s.host
	}
	return net.JoinHostPort(s.host, strconv.Itoa(int(s.port)))
}

// serversOf returns the servers that a connection string names, in its order.
func serversOf(c *pgx.ConnConfig) []server {
	all := []server{{c.Host, c.Port}}
	for _, f := range c.Fallbacks { // a server is there once more without TLS
		if s := (server{f.Host, f.Port}); !slices.Contains(all, s) {
			all = append(all, s)
		}
	}
	return all
}

// hosts looks for servers in the connection string that hang. A server that refuses a connection
// costs nothing, but one that never answers costs connect_timeout for each new connection.
func (k *checker) hosts(ctx context.Context, c *pgx.ConnConfig) {
	servers := serversOf(c)
	if len(servers) < 2 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, hostTime)
	defer cancel()
	hangs := make([]bool, len(servers))
	var tries sync.WaitGroup
	for i, s := range servers {
		tries.Go(func() {
			one := c.Config.Copy()
			one.Host, one.Port = s.host, s.port
			one.Fallbacks, one.ValidateConnect, one.ConnectTimeout = nil, nil, 0
			conn, err := pgconn.ConnectConfig(ctx, one)
			if err == nil {
				_ = conn.Close(ctx) // nothing was asked
			}
			hangs[i] = errors.Is(err, context.DeadlineExceeded)
		})
	}
	tries.Wait()
	for i, s := range servers {
		if !hangs[i] {
			continue
		}
		cost := "it is tried after the others: if those fail, it costs the time of connect_timeout"
		if !slices.Contains(hangs[:i], false) {
			cost = "each new connection first waits for it, for the time of connect_timeout"
		}
		k.Add(store.Warning, "hosts", fmt.Sprintf("the server %v of the connection string has not answered within %v: %s", s, hostTime, cost),
			"start it, or have its address refuse connections; until then name it last in the connection string, or call postgres.KeepServer on the configuration of the pool")
	}
}

// failover judges how the connection string finds the primary after a fail-over.
func (k *checker) failover(c *pgx.ConnConfig) {
	if len(serversOf(c)) > 1 && c.ValidateConnect == nil {
		k.Add(store.Broken, "target_session_attrs", "it is not set, and the connection string names several servers: after a fail-over "+
			"the pool takes the first that answers, and if that is a standby, all fills fail",
			"put `target_session_attrs=read-write` into the connection string")
	}
}

// replicas names the replicas for which no commit waits.
func (k *checker) replicas(ctx context.Context) error {
	var names []string
	var hidden int
	if err := k.Conn.QueryRow(ctx, k.sql("check_replicas"), pgrun.Plain).Scan(&names, &hidden); err != nil {
		return err
	}
	if len(names) > 0 {
		k.Add(store.Warning, "replicas", fmt.Sprintf("the server has asynchronous replicas, %s: a fail-over to one of them loses the last acknowledged fills",
			strings.Join(names, ", ")),
			fmt.Sprintf("`ALTER SYSTEM SET synchronous_standby_names = %s` and `SELECT pg_reload_conf()`, if they take over; a replica that only reads may stay",
				pgname.Literal("ANY 1 ("+strings.Join(names, ", ")+")")))
	}
	if hidden > 0 {
		k.Add(store.Unchecked, "replicas", "the server has replicas, and this user may not see whether commits wait for them",
			fmt.Sprintf("`GRANT pg_read_all_stats TO %s`", k.User))
	}
	return nil
}
