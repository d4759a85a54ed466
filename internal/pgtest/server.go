package pgtest

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/brimgo/brim/internal/supervisor"
)

var (
	//go:embed local.sh
	localScript string
	//go:embed docker.sh
	dockerScript string
)

// image is the Docker image for systems without the programs.
const image = "postgres:17-alpine"

// Server is a PostgreSQL that this process started. Only one goroutine at a time may call its
// methods.
type Server struct {
	super *supervisor.Supervisor
	dir   string // holds the configuration, log, data and socket of a local server
	log   string
	conf  []string
	port  int
}

// NewServer starts a server for t alone and closes it at the end of t. Each element of conf is a
// line of configuration, "max_connections=20" for instance.
func NewServer(t testing.TB, conf ...string) *Server {
	t.Helper()
	skipShort(t)
	s, err := Launch(conf...)
	return supervisor.CloseAfter(t, s, err)
}

// NewStandby starts a standby of s for t alone and closes it at the end of t. It follows s by
// streaming replication. A server in Docker has no standby.
func (s *Server) NewStandby(t testing.TB, conf ...string) *Server {
	t.Helper()
	standby, err := launch(fmt.Sprint("follow ", s.port), conf)
	return supervisor.CloseAfter(t, standby, err)
}

// Launch starts a server for callers that have no testing.TB. The server ends with Close, or with
// this process.
func Launch(conf ...string) (*Server, error) {
	if data := os.Getenv(envData); data != "" {
		return launch("copy "+data, conf)
	}
	return launch("init", conf)
}

// LaunchFor starts a server for the tests of other processes, and returns the variables of their
// environment. Servers that those tests start for themselves begin with a copy of its first data.
func LaunchFor(conf ...string) (s *Server, env []string, err error) {
	if s, err = launch("init first", append(slices.Clone(telling), conf...)); err != nil {
		return nil, nil, err
	}
	env = []string{envURL + "=" + s.URL()}
	if s.dir != "" {
		env = append(env, envData+"="+filepath.Join(s.dir, "first"))
	}
	return s, env, nil
}

// launch starts a server whose data the command of local.sh makes.
func launch(command string, conf []string) (*Server, error) {
	bin := findBinaries(exec.LookPath, places)
	docker := bin == "" && findDocker()
	if bin == "" && !docker {
		err := supervisor.Install(os.Stderr, "postgresql")
		if bin = findBinaries(exec.LookPath, places); errors.Is(err, exec.ErrNotFound) || err == nil && bin == "" {
			err = missing()
		}
		if err != nil {
			return nil, err
		}
	}
	// Another process may take the free port before the server binds it.
	for attempt := 1; ; attempt++ {
		port, err := supervisor.FreePort(0)
		if err != nil {
			return nil, err
		}
		s := &Server{conf: conf, port: port}
		if docker {
			err = s.initDocker()
		} else {
			err = s.initLocal(bin, command)
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

func (s *Server) initLocal(bin, command string) error {
	dir, err := os.MkdirTemp(serverDir(os.TempDir(), os.Geteuid() == 0), "brim-pg-")
	if err != nil {
		return err
	}
	s.dir, s.log = dir, filepath.Join(dir, "log")
	prepare := func(cmd *exec.Cmd) error { return Unprivileged(cmd, dir) }
	if s.super, err = supervisor.Start(localScript, prepare, dir, bin); err != nil {
		return errors.Join(err, os.RemoveAll(dir))
	}
	return s.explain(s.super.Ask(command, 2*time.Minute))
}

// serverDir returns the directory in which a server's own directory is made: tmp, or /tmp if tmp
// does not allow it. Root runs the server as another user. That user must be able to reach its
// directory, and to write to the parent: otherwise it cannot remove its directory at the end, and
// the directory stays for ever.
func serverDir(tmp string, root bool) string {
	if !root {
		return tmp
	}
	need := fs.FileMode(0o003) // others may write and search
	for dir := filepath.Clean(tmp); ; dir = filepath.Dir(dir) {
		info, err := os.Stat(dir)
		if err != nil || !filepath.IsAbs(dir) || info.Mode()&need != need {
			return "/tmp"
		}
		if dir == filepath.Dir(dir) {
			return tmp
		}
		need = 0o001
	}
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
	if s.super, err = supervisor.Start(dockerScript, nil, args...); err != nil {
		return errors.Join(err, os.Remove(s.log))
	}
	return s.explain(s.super.Ask("init", 10*time.Minute)) // Docker may have to fetch the image
}

// URL returns the URL of a superuser on 127.0.0.1. It stays the same when the server stops and
// starts.
func (s *Server) URL() string {
	return fmt.Sprintf("postgres://postgres@127.0.0.1:%d/postgres?sslmode=disable", s.port)
}

// Pool returns a pool that is closed at the end of t.
func (s *Server) Pool(t testing.TB) *pgxpool.Pool {
	t.Helper()
	return PoolAt(t, s.URL())
}

// Start starts a stopped server and waits until it answers. Each element of more is a line of
// configuration that holds until the next Start. A server in Docker refuses more lines: it keeps
// those that it was created with.
func (s *Server) Start(more ...string) error {
	if s.dir != "" {
		lines := append([]string{
			"listen_addresses='127.0.0.1'", "port=" + strconv.Itoa(s.port), "unix_socket_directories='" + s.dir + "'",
			"max_connections=400",
		}, s.conf...)
		conf := strings.Join(append(lines, more...), "\n") + "\n"
		if err := os.WriteFile(filepath.Join(s.dir, "conf"), []byte(conf), 0o644); err != nil {
			return err
		}
	} else if len(more) > 0 {
		return errors.New("a server in Docker cannot be configured anew")
	}
	if err := s.super.Ask("start", time.Minute); err != nil {
		return s.explain(err)
	}
	deadline := time.Now().Add(time.Minute)
	for {
		err := ping(s.URL())
		if err == nil {
			return nil
		}
		if s.super.Ended(20 * time.Millisecond) {
			return s.explain(errors.New("the server ended"))
		}
		if time.Now().After(deadline) {
			return s.explain(fmt.Errorf("the server does not answer: %w", err))
		}
	}
}

// Stop ends the server's connections and stops it. If immediate is set, the server stops as in a
// crash and recovers at the next Start; otherwise it shuts down in good order.
func (s *Server) Stop(immediate bool) error {
	signal := "INT"
	if immediate {
		signal = "QUIT"
	}
	return s.explain(s.super.Ask("stop "+signal, time.Minute))
}

// Close stops the server and removes its data. A second Close does nothing.
func (s *Server) Close() error {
	if s.super == nil {
		return nil
	}
	err := s.super.Close()
	s.super = nil
	return err
}

// explain adds the end of the server's log to an error.
func (s *Server) explain(err error) error { return supervisor.Explain(err, s.log) }

func ping(url string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	return conn.Close(ctx)
}
