package redistest

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/brimgo/brim/internal/supervisor"
)

//go:embed hold.sh
var script string

// Server is a Redis that this process started. Only one goroutine at a time may call its methods.
type Server struct {
	super *supervisor.Supervisor
	dir   string
	port  int
	conf  []string
	// sentinel makes the program a Sentinel, which knows fewer lines of configuration.
	sentinel bool
}

// NewServer starts a server for t alone and closes it at the end of t. Each element of conf is a
// line of configuration, "appendonly yes" for instance. Without such lines the server persists
// nothing.
func NewServer(t testing.TB, conf ...string) *Server {
	t.Helper()
	skipShort(t)
	s, err := Launch(conf...)
	return supervisor.CloseAfter(t, s, err)
}

// NewReplica starts a replica of primary for t alone, waits until it follows, and closes it at the
// end of t. Each element of conf is a line of configuration.
func NewReplica(t testing.TB, primary *Server, conf ...string) *Server {
	t.Helper()
	s := NewServer(t, append([]string{fmt.Sprintf("replicaof 127.0.0.1 %d", primary.port)}, conf...)...)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := s.Follows(ctx); err != nil {
		t.Fatalf("redistest: %v", err)
	}
	return s
}

// Follows waits until the server, a replica, has all data of its primary.
func (s *Server) Follows(ctx context.Context) error {
	client := redis.NewClient(&redis.Options{Addr: s.Addr()})
	defer func() { _ = client.Close() }()
	return until(ctx, func() error {
		info, err := client.Info(ctx, "replication").Result()
		if err == nil && !strings.Contains(info, "master_link_status:up") {
			err = errors.New("the replica does not follow its primary")
		}
		return err
	})
}

// SentinelName is the name under which [NewSentinel] watches its primary.
const SentinelName = "brim"

// NewSentinel starts a Sentinel that watches primary and its replicas, and fails over on its own
// decision when the primary has not answered for half a second. It is closed at the end of t.
func NewSentinel(t testing.TB, primary *Server) *Server {
	t.Helper()
	skipShort(t)
	s, err := start(true, []string{
		fmt.Sprintf("sentinel monitor %s 127.0.0.1 %d 1", SentinelName, primary.port),
		"sentinel down-after-milliseconds " + SentinelName + " 500",
		"sentinel failover-timeout " + SentinelName + " 2000",
	})
	return supervisor.CloseAfter(t, s, err)
}

// Launch starts a server for callers that have no testing.TB. The server ends with Close, or with
// this process.
func Launch(conf ...string) (*Server, error) { return start(false, conf) }

func start(sentinel bool, conf []string) (*Server, error) {
	program, err := findProgram(os.Stderr)
	if err != nil {
		return nil, err
	}
	// Another process may take the free port before the server binds it.
	for attempt := 1; ; attempt++ {
		s, err := launch(program, sentinel, conf)
		if err == nil {
			return s, nil
		}
		if attempt == 3 || !strings.Contains(err.Error(), "Address already in use") {
			return nil, err
		}
	}
}

func launch(program string, sentinel bool, conf []string) (*Server, error) {
	port, err := supervisor.FreePort(busOffset)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "brim-redis-")
	if err != nil {
		return nil, err
	}
	s := &Server{dir: dir, port: port, conf: conf, sentinel: sentinel}
	option := ""
	if sentinel {
		option = "--sentinel"
	}
	if s.super, err = supervisor.Start(script, nil, dir, program, option); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	if err := s.Start(); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// Addr returns the host and the port of the server. They stay the same when it stops and starts.
func (s *Server) Addr() string { return "127.0.0.1:" + strconv.Itoa(s.port) }

// URL returns the server's URL.
func (s *Server) URL() string { return scheme + s.Addr() }

// Client returns a client with default options, which is closed at the end of t.
func (s *Server) Client(t testing.TB) *redis.Client {
	t.Helper()
	return closing(t, redis.NewClient(&redis.Options{Addr: s.Addr()}))
}

// Start starts a stopped server and waits until it has loaded its data. Each element of more is a
// line of configuration that holds until the next Start.
func (s *Server) Start(more ...string) error {
	lines := []string{"bind 127.0.0.1", "port " + strconv.Itoa(s.port), "dir " + s.dir, "daemonize no"}
	if !s.sentinel {
		lines = append(lines, `save ""`)
	}
	lines = append(lines, s.conf...)
	conf := strings.Join(append(lines, more...), "\n") + "\n"
	if err := os.WriteFile(filepath.Join(s.dir, "conf"), []byte(conf), 0o600); err != nil {
		return err
	}
	if err := s.super.Ask("start", time.Minute); err != nil {
		return s.explain(err)
	}
	client := redis.NewClient(&redis.Options{Addr: s.Addr(), MaxRetries: -1, DialerRetries: 1})
	err := s.await(client)
	return errors.Join(err, client.Close())
}

// await waits until the server answers. A server that asks for a password or is busy answers, too.
func (s *Server) await(client *redis.Client) error {
	deadline := time.Now().Add(time.Minute)
	for {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		err := client.Ping(ctx).Err()
		cancel()
		var answer redis.Error
		if err == nil || errors.As(err, &answer) && !redis.IsLoadingError(err) {
			return nil
		}
		if s.super.Ended(10 * time.Millisecond) {
			return s.explain(errors.New("the server ended"))
		}
		if time.Now().After(deadline) {
			return s.explain(fmt.Errorf("the server does not answer: %w", err))
		}
	}
}

// Stop shuts the server down in good order.
func (s *Server) Stop() error { return s.explain(s.super.Ask("stop TERM", time.Minute)) }

// Kill kills the server with SIGKILL. The system keeps what the server has written to files.
func (s *Server) Kill() error { return s.explain(s.super.Ask("stop KILL", time.Minute)) }

// Pause stops the process of the server by SIGSTOP, so that connections stay open and unanswered.
func (s *Server) Pause() error { return s.explain(s.super.Ask("signal STOP", time.Minute)) }

// Resume ends a Pause.
func (s *Server) Resume() error { return s.explain(s.super.Ask("signal CONT", time.Minute)) }

// Close kills the server and removes its data. A second Close does nothing.
func (s *Server) Close() error {
	if s.super == nil {
		return nil
	}
	err := s.super.Close()
	s.super = nil
	return err
}

// explain adds the end of the server's log to an error.
func (s *Server) explain(err error) error {
	return supervisor.Explain(err, filepath.Join(s.dir, "log"))
}

// busOffset is the distance between the port of a server and that of its cluster bus.
const busOffset = 10_000
