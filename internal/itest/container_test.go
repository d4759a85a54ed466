package itest

import (
	"context"
	"net"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/testcontainers/testcontainers-go"
	"github.com/testcontainers/testcontainers-go/wait"
)

// versions are the major versions of PostgreSQL that brim supports.
var versions = []string{"14", "15", "16", "17", "18"}

// forEachVersion runs test against a fresh server of each version, one after the other.
func forEachVersion(t *testing.T, test func(t *testing.T, s *server)) {
	for _, version := range versions {
		t.Run("PostgreSQL "+version, func(t *testing.T) { test(t, newServer(t, "postgres:"+version+"-alpine")) })
	}
}

// server is a PostgreSQL in a container.
type server struct {
	container testcontainers.Container
	addr      atomic.Pointer[string] // host:port; a restarted container may get another port
}

func newServer(t *testing.T, image string) *server {
	t.Helper()
	c, err := testcontainers.Run(t.Context(), image,
		testcontainers.WithEnv(map[string]string{"POSTGRES_HOST_AUTH_METHOD": "trust"}),
		testcontainers.WithExposedPorts("5432/tcp"),
		// The line comes twice: a server that only the container can reach makes the data directory first.
		testcontainers.WithWaitStrategyAndDeadline(2*time.Minute,
			wait.ForLog("database system is ready to accept connections").WithOccurrence(2),
			wait.ForListeningPort("5432/tcp")),
	)
	testcontainers.CleanupContainer(t, c)
	if err != nil {
		t.Fatalf("these tests need Docker: %v", err)
	}
	s := &server{container: c}
	s.locate(t)
	return s
}

// locate finds out where the container's port is now.
func (s *server) locate(t *testing.T) {
	t.Helper()
	addr, err := s.container.PortEndpoint(t.Context(), "5432/tcp", "")
	if err != nil {
		t.Fatal(err)
	}
	s.addr.Store(&addr)
}

// pool returns a pool that follows the server when it is restarted.
func (s *server) pool(t *testing.T) *pgxpool.Pool {
	t.Helper()
	config, err := pgxpool.ParseConfig("postgres://postgres@" + *s.addr.Load() + "/postgres?sslmode=disable")
	if err != nil {
		t.Fatal(err)
	}
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
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

// crash kills the server and starts it again.
func (s *server) crash(t *testing.T) {
	t.Helper()
	now := time.Duration(0)
	if err := s.container.Stop(t.Context(), &now); err != nil {
		t.Fatal(err)
	}
	if err := s.container.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.locate(t)
}
