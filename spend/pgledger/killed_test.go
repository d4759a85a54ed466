package pgledger_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/brimgo/brim/internal/pgtest"
	"github.com/brimgo/brim/internal/seed"
	"github.com/brimgo/brim/postgres"
	"github.com/brimgo/brim/spend/internal/spendload"
	"github.com/brimgo/brim/spend/pgledger"
)

// TestProcessesKilled has three processes with 64 callers each race for one account, and kills each
// of them several times in the middle of its decisions. No approval is lost or made twice, and the
// account has exactly the rest left.
func TestProcessesKilled(t *testing.T) {
	t.Parallel()
	const processes, lives = 3, 4
	pool := pgtest.Pool(t)
	schema := migrated(t)
	from := spendload.Seed(t)
	var kills atomic.Int64
	for round := range seed.Attempts(2, 50) {
		approved := make(map[string]int64)
		var mu sync.Mutex
		var wg sync.WaitGroup
		for i := range processes {
			wg.Go(func() {
				for life := range lives {
					n := from + uint64((round*processes+i)*lives+life)
					after := rand.New(rand.NewPCG(n, 4)).IntN(30)
					if life == lives-1 {
						after = -1
					}
					told, killed, err := live(fmt.Sprint(pgtest.URL(t), " ", schema, " race ", round, " ", n), after)
					if err != nil {
						t.Errorf("process %d, life %d: %v", i, life, err)
					}
					if killed {
						kills.Add(1)
					}
					mu.Lock()
					for id, amount := range told {
						approved[id] = amount
					}
					mu.Unlock()
				}
			})
		}
		wg.Wait()
		spendload.Told(t, over(t, pool, &postgres.Options{Schema: schema}), fmt.Sprint("random:", round), approved)
	}
	t.Logf("%d kills", kills.Load())
	if kills.Load() < processes {
		t.Error("too few processes were killed: the test has not tested much")
	}
}

// live runs a process that races, and returns the approvals that its callers were told. It kills
// the process after so many of them, unless the number is negative.
func live(args string, after int) (told map[string]int64, killed bool, err error) {
	cmd, out, err := startChild(args)
	if err != nil {
		return nil, false, err
	}
	told = make(map[string]int64)
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		var id string
		var amount int64
		if _, err := fmt.Sscan(lines.Text(), &id, &amount); err != nil {
			_, _ = io.Copy(io.Discard, out)
			_ = cmd.Wait()
			return told, killed, fmt.Errorf("the process said %q", lines.Text())
		}
		if told[id] = amount; len(told) == after+1 && after >= 0 {
			killed = cmd.Process.Kill() == nil
		}
	}
	if err := cmd.Wait(); err != nil && !killed {
		return told, killed, err
	}
	return told, killed, nil
}

// childEnv, in the environment, makes this test binary another process, which puts a load on a
// ledger. Its value is a connection string, a schema, the load, the number of the round, and a
// seed.
const childEnv = "BRIM_PGLEDGER_TEST_CHILD"

// startChild starts another process, and returns its output.
func startChild(args string) (*exec.Cmd, io.Reader, error) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+args,
		"GORACE=atexit_sleep_ms=0") // the race detector would have each child sleep for a second
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, nil, err
	}
	return cmd, out, cmd.Start()
}

func init() {
	args := os.Getenv(childEnv)
	if args == "" {
		return
	}
	if err := child(args); err != nil {
		fmt.Println("error:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

func child(args string) error {
	var url, schema, load string
	var round int
	var seed uint64
	if _, err := fmt.Sscan(args, &url, &schema, &load, &round, &seed); err != nil {
		return err
	}
	pool, err := pgxpool.New(context.Background(), url)
	if err != nil {
		return err
	}
	s, err := postgres.New(pool, &postgres.Options{Schema: schema, StatementTimeout: time.Minute})
	if err != nil {
		return err
	}
	l, err := pgledger.New(s, nil)
	if err != nil {
		return err
	}
	if load == "race" {
		_, err := spendload.Race(l, fmt.Sprint("random:", round), seed, 64, 200, 1, 20, func(id string, amount int64) {
			fmt.Println(id, amount) // one write, so a printed line survives a kill
		})
		return err
	}
	b, err := spendload.Cancels(context.Background(), l)
	if err == nil {
		spendload.AuthorizeUntilKilled(b, round, false)
	}
	return err
}
