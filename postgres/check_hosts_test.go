package postgres_test

import (
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/brimgo/brim/internal/pgtest"
	"github.com/brimgo/brim/postgres"
)

// TestCheckOfHosts checks a server behind connection strings that also name one that hangs: its
// machine completes connections, and nobody answers.
func TestCheckOfHosts(t *testing.T) {
	schema := migrated(t)
	hung, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer hung.Close()
	answers := pgtest.Pool(t).Config().ConnConfig
	port := hung.Addr().(*net.TCPAddr).Port
	for _, c := range []struct {
		name  string
		hosts []*pgconn.FallbackConfig // the first is that of the configuration
		want  string
	}{
		{"the first hangs", []*pgconn.FallbackConfig{{Host: "127.0.0.1", Port: uint16(port)}, {Host: answers.Host, Port: answers.Port}}, "each new connection first waits"},
		{"the second hangs", []*pgconn.FallbackConfig{{Host: answers.Host, Port: answers.Port}, {Host: "127.0.0.1", Port: uint16(port)}}, "it is tried after the others"},
		{"the first refuses", []*pgconn.FallbackConfig{{Host: "127.0.0.1", Port: 1}, {Host: answers.Host, Port: answers.Port}}, ""},
	} {
		pool := pgtest.PoolAt(t, tune(pgtest.URL(t), "target_session_attrs=read-write"), func(config *pgxpool.Config) {
			config.ConnConfig.Host, config.ConnConfig.Port = c.hosts[0].Host, c.hosts[0].Port
			config.ConnConfig.Fallbacks, config.ConnConfig.ConnectTimeout = c.hosts[1:], 2*time.Second
		})
		got := ""
		for _, f := range findings(t, pool, schema) {
			if f.Subject == "hosts" {
				got = f.Problem
				if server := fmt.Sprint("127.0.0.1:", port); !strings.Contains(got, server) {
					t.Errorf("%s: %q does not name %s", c.name, got, server)
				}
			}
		}
		if !strings.Contains(got, c.want) || (got == "") != (c.want == "") {
			t.Errorf("%s: %q; want %q", c.name, got, c.want)
		}
	}
}

// TestKeepServer makes connections while the first server of the connection string hangs. Only the
// first connection may try it.
func TestKeepServer(t *testing.T) {
	hung, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var tries atomic.Int32
	var accepting sync.WaitGroup
	accepting.Go(func() {
		for {
			conn, err := hung.Accept()
			if err != nil {
				return
			}
			tries.Add(1)
			defer conn.Close()
		}
	})
	defer accepting.Wait()
	defer hung.Close()
	for _, c := range []struct {
		name string
		keep func(*pgxpool.Config)
		want int32
	}{{"without", func(*pgxpool.Config) {}, 3}, {"with KeepServer", postgres.KeepServer, 1}} {
		began := tries.Load()
		schema := migrated(t)
		pool := pgtest.PoolAt(t, tune(pgtest.URL(t), "target_session_attrs=read-write"), func(config *pgxpool.Config) {
			one := config.ConnConfig
			one.Fallbacks = []*pgconn.FallbackConfig{{Host: "localhost", Port: one.Port, TLSConfig: one.TLSConfig}}
			one.Host, one.Port = "127.0.0.1", uint16(hung.Addr().(*net.TCPAddr).Port)
			one.ConnectTimeout = time.Second
			c.keep(config)
		})
		for range 3 {
			conn, err := pool.Acquire(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Release()
		}
		if got := tries.Load() - began; got != c.want {
			t.Errorf("%s: 3 connections have tried the server that hangs %d times, want %d", c.name, got, c.want)
		}
		waits := ""
		for _, f := range findings(t, pool, schema) {
			if f.Subject == "hosts" {
				waits = f.Problem
			}
		}
		if first := strings.Contains(waits, "each new connection first waits"); waits == "" || first != (c.want > 1) {
			t.Errorf("%s: Check finds %q", c.name, waits)
		}
	}
}

// TestCheckNamesReplicas checks a primary with a replica that no commit waits for, by a user who
// may see that and by one who may not, and runs the remedies.
func TestCheckNamesReplicas(t *testing.T) {
	t.Parallel()
	primary := pgtest.NewServer(t)
	pool := primary.Pool(t)
	schema := migrateOn(t, pool)
	execute(t, pool, "CREATE ROLE app LOGIN; GRANT USAGE ON SCHEMA brim TO app; GRANT ALL ON ALL TABLES IN SCHEMA brim TO app")
	primary.NewStandby(t)
	app := func() *pgxpool.Pool {
		return pgtest.PoolAt(t, strings.Replace(primary.URL(), "postgres@", "app@", 1), func(c *pgxpool.Config) { postgres.WatchCommits(c) })
	}
	until(t, "the replica", func() bool { return found(t, app(), schema) == "unchecked replicas" })
	for _, f := range findings(t, app(), schema) {
		pgtest.Mend(t, pool, f.Remedy, nil)
	}
	list := findings(t, app(), schema)
	if len(list) != 1 || list[0].Subject != "replicas" || !strings.Contains(list[0].Problem, "asynchronous replicas, ") {
		t.Fatalf("%+v", list)
	}
	pgtest.Mend(t, pool, list[0].Remedy, nil)
	until(t, "the replica to be synchronous", func() bool { return found(t, app(), schema) == "" })
}
