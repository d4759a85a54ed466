package postgres_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/brimgo/brim/internal/pgtest"
	"github.com/brimgo/brim/internal/seed"
	"github.com/brimgo/brim/postgres"
	"github.com/brimgo/brim/store"
)

// childEnv, in the environment, makes this test binary one of several processes that share a
// bucket. Its value is a connection string and a schema.
const childEnv = "BRIM_POSTGRES_TEST_CHILD"

func init() {
	if v := os.Getenv(childEnv); v != "" {
		url, schema, _ := strings.Cut(v, " ")
		if err := child(url, schema); err != nil {
			fmt.Println("error:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
}

const (
	processes  = 4
	goroutines = 64 / processes
	tries      = 400 / processes
)

// child answers lines of stdin, "together KEY" or "apart KEY", with the number of its tries
// that were accepted. Together, its goroutines share a store, which combines their calls.
// Apart, each goroutine has its own store, so that their statements meet in the server.
func child(url, schema string) error {
	pool, err := pgxpool.New(context.Background(), tune(url, fmt.Sprint("pool_max_conns=", goroutines)))
	if err != nil {
		return err
	}
	defer pool.Close()
	var stores []*postgres.Store
	for range goroutines + 1 {
		s, err := postgres.New(pool, &postgres.Options{Schema: schema, StatementTimeout: time.Minute})
		if err != nil {
			return err
		}
		defer s.Close()
		stores = append(stores, s)
	}
	fmt.Println("ready")
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		how, key, _ := strings.Cut(in.Text(), " ")
		var left, accepted atomic.Int64
		left.Store(tries)
		errs := make(chan error, goroutines)
		var wg sync.WaitGroup
		for g := range goroutines {
			s := stores[goroutines]
			if how == "apart" {
				s = stores[g]
			}
			wg.Go(func() {
				for left.Add(-1) >= 0 {
					st, err := s.Fill(context.Background(), op(store.Limit{Capacity: 100}.For(key), 1, store.IfFits))
					switch {
					case err != nil:
						errs <- err
						return
					case st.Accepted:
						accepted.Add(1)
					}
				}
			})
		}
		wg.Wait()
		select {
		case err := <-errs:
			return err
		default:
		}
		fmt.Println(accepted.Load())
	}
	return in.Err()
}

// process is a child and its pipes.
type process struct {
	in  io.WriteCloser
	out *bufio.Reader
}

func (p *process) line(t *testing.T) string {
	t.Helper()
	line, err := p.out.ReadString('\n')
	if err != nil || strings.HasPrefix(line, "error:") {
		t.Fatalf("a process answered %q, %v", line, err)
	}
	return strings.TrimSpace(line)
}

func start(t *testing.T, url, schema string) *process {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), childEnv+"="+url+" "+schema)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = in.Close()
		if err := cmd.Wait(); err != nil {
			t.Errorf("a process ended with %v", err)
		}
	})
	return &process{in: in, out: bufio.NewReader(out)}
}

// TestProcessesShareABucket has 64 goroutines in 4 processes, which try 400 times to put 1 unit
// into a bucket of 100 that does not leak. Exactly 100 are accepted, and the first uses of the
// key at once do not fail.
func TestProcessesShareABucket(t *testing.T) {
	for _, c := range []struct {
		name, settings string
		rounds         int
	}{
		{name: "read committed", rounds: seed.Attempts(2, 20)},
		{name: "repeatable read", settings: "default_transaction_isolation=repeatable%20read&", rounds: seed.Attempts(2, 5)},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			pool := pgtest.Pool(t)
			schema := migrated(t)
			s := over(t, pool, postgres.Options{Schema: schema})
			url := pgtest.With(t, c.settings+quick) // 400 commits on one row wait for each other
			var all []*process
			for range processes {
				all = append(all, start(t, url, schema))
			}
			for _, p := range all {
				p.line(t)
			}
			for _, first := range []string{"present", "absent"} {
				for round := range c.rounds {
					how := []string{"apart", "together"}[round%2]
					key := fmt.Sprint(first, "/", how, "/", round)
					if first == "present" {
						b := store.Limit{Capacity: 100}.For(key)
						fill(t, s, op(b, 1, store.Always))
						fill(t, s, op(b, -1, store.Always))
					}
					for _, p := range all {
						if _, err := fmt.Fprintln(p.in, how, key); err != nil {
							t.Fatal(err)
						}
					}
					accepted := 0
					for _, p := range all {
						n := 0
						if _, err := fmt.Sscan(p.line(t), &n); err != nil {
							t.Fatal(err)
						}
						accepted += n
					}
					if level := stateOf(t, s, key).Level; accepted != 100 || level != 100 {
						t.Errorf("%s: %d of 400 accepted and level %v; want 100 and 100", key, accepted, level)
					}
				}
			}
		})
	}
}
