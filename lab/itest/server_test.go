package itest

import (
	"context"
	"errors"
	"net"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/moby/moby/api/types/container"
	"github.com/testcontainers/testcontainers-go"
	"github.com/testcontainers/testcontainers-go/wait"

	"github.com/brimgo/brim/internal/pgtest"
)

// forEachVersion runs test with each version of a server, one after the other. It skips
// a version that has no image and names the reason.
func forEachVersion(t *testing.T, k kind, test func(t *testing.T, v version)) {
	t.Helper()
	for _, v := range versions {
		if v.kind != k {
			continue
		}
		t.Run(v.String(), func(t *testing.T) {
			if v.missing != "" {
				t.Skip(v.missing)
			}
			test(t, v)
		})
	}
}

// server is a PostgreSQL server in a container.
type server struct {
	container testcontainers.Container
	addr      atomic.Pointer[string] // host:port; a restarted container may get another port
}

// newServer starts a server that ends with t.
func newServer(t *testing.T, image string) *server {
	t.Helper()
	c, err := testcontainers.Run(t.Context(), image,
		testcontainers.WithEnv(map[string]string{"POSTGRES_HOST_AUTH_METHOD": "trust"}),
		testcontainers.WithExposedPorts("5432/tcp"),
		// Stopping the container kills the server, as a crash does.
		testcontainers.WithConfigModifier(func(c *container.Config) { c.StopSignal = "SIGKILL" }),
		// The probe uses TCP. While the official image makes the data directory, a server runs that
		// listens on the socket only. A log line would not do: after a restart, the log still holds
		// the lines of the first start.
		testcontainers.WithWaitStrategyAndDeadline(2*time.Minute,
			wait.ForExec([]string{"pg_isready", "--host=127.0.0.1", "--username=postgres"})),
	)
	testcontainers.CleanupContainer(t, c)
	if err != nil {
		t.Fatal(err)
	}
	s := &server{container: c}
	s.locate(t)
	return s
}

// locate updates the address of the server.
func (s *server) locate(t *testing.T) {
	t.Helper()
	addr := address(t, s.container, "5432/tcp")
	s.addr.Store(&addr)
}

// address returns the host and port at which a port of a container can be reached. It tries the
// host that testcontainers names, then the loopback. On a machine with a file /.dockerenv,
// testcontainers believes itself in a container and names the default gateway; if the daemon runs
// on that machine too, only the loopback answers.
func address(t *testing.T, c testcontainers.Container, inside string) string {
	t.Helper()
	port, err := c.MappedPort(t.Context(), inside)
	if err != nil {
		t.Fatal(err)
	}
	host, err := c.Host(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var refused error
	for _, host := range []string{host, "127.0.0.1"} {
		addr := net.JoinHostPort(host, port.Port())
		conn, err := net.DialTimeout("tcp", addr, 5*time.Second)
		if err == nil {
			conn.Close()
			return addr
		}
		refused = errors.Join(refused, err)
	}
	t.Fatalf("no address reaches the container: %v", refused)
	return ""
}

// pool returns a pool that ends with t. Its new connections go to the server's current address.
func (s *server) pool(t *testing.T) *pgxpool.Pool {
	t.Helper()
	return pgtest.PoolAt(t, "postgres://postgres@"+*s.addr.Load()+"/postgres?sslmode=disable", func(config *pgxpool.Config) {
		config.MaxConns = 16
		config.BeforeConnect = func(_ context.Context, c *pgx.ConnConfig) error {
			host, port, err := net.SplitHostPort(*s.addr.Load())
			if err != nil {
				return err
			}
			n, err := strconv.ParseUint(port, 10, 16)
			c.Host, c.Port = host, uint16(n)
			return err
		}
	})
}

// crash kills the server and starts it again. It returns when the server answers.
func (s *server) crash(t *testing.T) {
	t.Helper()
	if err := s.container.Stop(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	if err := s.container.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.locate(t)
}
