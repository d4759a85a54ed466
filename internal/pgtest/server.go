package pgtest

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

var (
	//go:embed local.sh
	localScript string
	//go:embed docker.sh
	dockerScript string
)

// image is what Docker runs where there are no programs.
const image = "postgres:17-alpine"

// Server is a PostgreSQL that this process started. Its methods are for one goroutine at a time.
type Server struct {
	super *supervisor
	dir   string // of a local server: configuration, log, data and socket
	log   string
	conf  []string
	port  int
}

// NewServer starts a server for t alone, which ends with t. conf is lines of configuration, "max_connections=20" for
// instance.
func NewServer(t testing.TB, conf ...string) *Server {
	t.Helper()
	s, err := Launch(conf...)
	if err != nil {
		t.Fatalf("pgtest: %v", err)
	}
	count(t)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("pgtest: %v", err)
		}
	})
	return s
}

// Launch starts a server for whoever has no testing.TB. It ends with Close, or with this process.
func Launch(conf ...string) (*Server, error) {
	bin := findBinaries(exec.LookPath, places)
	docker := bin == "" && findDocker()
	if bin == "" && !docker {
		var err error
		if bin, err = install(os.Stderr); err != nil {
			return nil, err
		}
		if bin == "" {
			return nil, missing()
		}
	}
	// A port that is free now may be taken when the server comes to it.
	for attempt := 1; ; attempt++ {
		port, err := freePort()
		if err != nil {
			return nil, err
		}
		s := &Server{conf: conf, port: port}
		if docker {
			err = s.initDocker()
		} else {
			err = s.initLocal(bin)
		}
		if err == nil {
			if err = s.Start(); err == nil {
				return s, nil
			}
		}
		retry := attempt < 3 && strings.Contains(err.Error(), "address already in use")
		err = errors.Join(err, s.Close())
		if !retry {
			return nil, err
		}
	}
}

func (s *Server) initLocal(bin string) error {
	dir, err := os.MkdirTemp(tempDir(), "brim-pg-")
	if err != nil {
		return err
	}
	s.dir, s.log = dir, filepath.Join(dir, "log")
	prepare := func(cmd *exec.Cmd) error { return unprivileged(cmd, dir) }
	if s.super, err = supervise(localScript, prepare, dir, bin); err != nil {
		return errors.Join(err, os.RemoveAll(dir))
	}
	return s.explain(s.super.ask("init", 2*time.Minute))
}

// tempDir returns where a server's directory goes. A private directory of root's keeps the server's user out.
func tempDir() string {
	if info, err := os.Stat(os.TempDir()); err != nil || os.Geteuid() == 0 && info.Mode()&0o001 == 0 {
		return "/tmp"
	}
	return os.TempDir()
}

func (s *Server) initDocker() error {
	f, err := os.CreateTemp("", "brim-pg-*.log")
	if err != nil {
		return err
	}
	s.log = f.Name()
	if err := f.Close(); err != nil {
		return err
	}
	name := fmt.Sprintf("brim-pgtest-%d-%d", os.Getpid(), s.port)
	args := []string{
		name, s.log, "--label", "brim.pgtest=" + strconv.Itoa(os.Getpid()), "--env", "POSTGRES_HOST_AUTH_METHOD=trust",
		"--publish", fmt.Sprintf("127.0.0.1:%d:5432", s.port), image,
	}
	for _, line := range s.conf {
		args = append(args, "-c", line)
	}
	if s.super, err = supervise(dockerScript, func(*exec.Cmd) error { return nil }, args...); err != nil {
		return errors.Join(err, os.Remove(s.log))
	}
	return s.explain(s.super.ask("init", 10*time.Minute)) // the image may have to be fetched
}

// URL returns where the server is: a superuser on 127.0.0.1. It stays the same when the server is stopped and started.
func (s *Server) URL() string {
	return fmt.Sprintf("postgres://postgres@127.0.0.1:%d/postgres?sslmode=disable", s.port)
}

// Pool returns a pool that is closed at the end of t.
func (s *Server) Pool(t testing.TB) *pgxpool.Pool {
	t.Helper()
	return newPool(t, s.URL())
}

// Start starts a server that was stopped and waits until it answers. more is lines of configuration that hold until the next
// Start; a server in Docker keeps those it was created with.
func (s *Server) Start(more ...string) error {
	if s.dir != "" {
		lines := append([]string{
			"listen_addresses='127.0.0.1'", "port=" + strconv.Itoa(s.port), "unix_socket_directories='" + s.dir + "'",
			"max_connections=200",
		}, s.conf...)
		conf := strings.Join(append(lines, more...), "\n") + "\n"
		if err := os.WriteFile(filepath.Join(s.dir, "conf"), []byte(conf), 0o644); err != nil {
			return err
		}
	} else if len(more) > 0 {
		return errors.New("a server in Docker cannot be configured anew")
	}
	if err := s.super.ask("start", time.Minute); err != nil {
		return s.explain(err)
	}
	deadline := time.Now().Add(time.Minute)
	for {
		err := ping(s.URL())
		if err == nil {
			return nil
		}
		if s.super.ended(20 * time.Millisecond) {
			return s.explain(errors.New("the server ended"))
		}
		if time.Now().After(deadline) {
			return s.explain(fmt.Errorf("the server does not answer: %w", err))
		}
	}
}

// Stop stops the server, with its connections: immediately, as a crash does it, so that it recovers at the next Start, or else
// in good order.
func (s *Server) Stop(immediate bool) error {
	signal := "INT"
	if immediate {
		signal = "QUIT"
	}
	return s.explain(s.super.ask("stop "+signal, time.Minute))
}

// Close stops the server and removes its data. Closing twice is allowed.
func (s *Server) Close() error {
	if s.super == nil {
		return nil
	}
	err := s.super.close()
	s.super = nil
	return err
}

// explain adds the end of the server's log to an error.
func (s *Server) explain(err error) error {
	if err == nil {
		return nil
	}
	log, readErr := os.ReadFile(s.log)
	if readErr != nil {
		return errors.Join(err, readErr)
	}
	return fmt.Errorf("%w; the log ends with\n%s", err, tail(log))
}

func tail(b []byte) []byte { return b[max(0, len(b)-2000):] }

func ping(url string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	return conn.Close(ctx)
}

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	addr, ok := l.Addr().(*net.TCPAddr)
	if !ok {
		return 0, errors.Join(fmt.Errorf("listening on %v, which has no port", l.Addr()), l.Close())
	}
	return addr.Port, l.Close()
}
