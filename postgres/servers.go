package postgres

import (
	"context"
	"net"
	"slices"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// KeepServer has each new connection of a pool try the server first that has answered the last one,
// where the connection string names several. Call it on the configuration before the pool is made.
//
// Without it, a server that hangs and stands first costs each new connection the time of
// connect_timeout. Which server may answer remains the matter of target_session_attrs, so after a
// fail-over the first connection goes on to the new primary, and the next ones begin there.
// KeepServer keeps the hooks that config has, and calls them too. Pools of package stores have
// KeepServer.
func KeepServer(config *pgxpool.Config) {
	var mu sync.Mutex
	var last server
	addresses := make(map[string][]string) // of hosts
	lookup, before, after := config.ConnConfig.LookupFunc, config.BeforeConnect, config.AfterConnect
	config.ConnConfig.LookupFunc = func(ctx context.Context, host string) ([]string, error) {
		found, err := lookup(ctx, host)
		mu.Lock()
		defer mu.Unlock()
		addresses[host] = found
		return found, err
	}
	config.BeforeConnect = func(ctx context.Context, c *pgx.ConnConfig) error {
		mu.Lock()
		first(c, last)
		mu.Unlock()
		if before != nil {
			return before(ctx, c)
		}
		return nil
	}
	config.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
		if at, ok := conn.PgConn().Conn().RemoteAddr().(*net.TCPAddr); ok {
			mu.Lock()
			for _, s := range serversOf(conn.Config()) {
				if int(s.port) == at.Port && slices.ContainsFunc(addresses[s.host], func(a string) bool { return net.ParseIP(a).Equal(at.IP) }) {
					last = s
				}
			}
			mu.Unlock()
		}
		if after != nil {
			return after(ctx, conn)
		}
		return nil
	}
}

// first moves the attempts at a server to the front.
func first(c *pgx.ConnConfig, s server) {
	all := append([]*pgconn.FallbackConfig{{Host: c.Host, Port: c.Port, TLSConfig: c.TLSConfig}}, c.Fallbacks...)
	slices.SortStableFunc(all, func(x, y *pgconn.FallbackConfig) int {
		return rank(s, x) - rank(s, y)
	})
	c.Host, c.Port, c.TLSConfig, c.Fallbacks = all[0].Host, all[0].Port, all[0].TLSConfig, all[1:]
}

// rank is 0 for an attempt at the server, and 1 for any other.
func rank(s server, f *pgconn.FallbackConfig) int {
	if s == (server{f.Host, f.Port}) {
		return 0
	}
	return 1
}
