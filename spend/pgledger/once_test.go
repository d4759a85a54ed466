package pgledger_test

import (
	"bufio"
	"context"
	"errors"
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
	"github.com/brimgo/brim/internal/wire"
	"github.com/brimgo/brim/postgres"
	"github.com/brimgo/brim/spend/internal/spendload"
	"github.com/brimgo/brim/spend/ledger"
	"github.com/brimgo/brim/spend/pgledger"
	"github.com/brimgo/brim/store"
)

// TestExactlyOnceOverCutConnections sends each request three times, over connections that are cut
// at random. A caller without an answer sends again. Each request has one effect.
func TestExactlyOnceOverCutConnections(t *testing.T) {
	direct := pgtest.Pool(t)
	schema := migrated(t)
	var cuts atomic.Int64
	var stop atomic.Bool
	var drawing sync.Mutex
	r := rand.New(rand.NewPCG(spendload.Seed(t), 2))
	proxy, err := wire.New(pgtest.URL(t), func(_ *wire.Link, _ wire.Direction, piece []byte) wire.Fate {
		drawing.Lock()
		defer drawing.Unlock()
		if stop.Load() || r.IntN(15) != 0 {
			return wire.Pass(piece)
		}
		cuts.Add(1)
		return wire.Fate{Pass: r.IntN(len(piece) + 1), End: wire.Close} // within a message, mostly
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := proxy.Close(); err != nil {
			t.Error(err)
		}
	})
	cfg, err := pgxpool.ParseConfig(proxy.URL())
	if err != nil {
		t.Fatal(err)
	}
	cfg.MaxConns = 4
	pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	l := over(t, pool, &postgres.Options{Schema: schema})
	once := spendload.NewOnce()
	b, err := once.Budgets(l)
	if err != nil {
		t.Fatal(err)
	}
	answers := make(map[int]string)
	var mu sync.Mutex
	var next, unknown, unsent atomic.Int64
	var wg sync.WaitGroup
	for range 64 {
		wg.Go(func() {
			for n := int(next.Add(1)) - 1; n < once.Sends(); n = int(next.Add(1)) - 1 {
				for {
					answer, err := once.Send(context.Background(), b, n)
					if err == nil {
						mu.Lock()
						answers[n] = answer
						mu.Unlock()
						break
					}
					switch {
					case errors.Is(err, store.ErrUnknownOutcome):
						unknown.Add(1)
					case errors.Is(err, store.ErrUnavailable):
						unsent.Add(1)
					default:
						t.Errorf("send %d: %v", n, err)
						return
					}
				}
			}
		})
	}
	wg.Wait()
	t.Logf("%d connections were cut; %d calls ended with an unknown outcome, %d with none", cuts.Load(), unknown.Load(), unsent.Load())
	if cuts.Load() < 20 || unknown.Load() == 0 {
		t.Error("too few connections were cut: the test has not tested much")
	}
	stop.Store(true)
	once.Check(t, over(t, direct, &postgres.Options{Schema: schema}), answers)
}

// childEnv, in the environment, makes this test binary a second process. Its value is a connection
// string, a schema, the number of the round, a seed, and "wait" or "tell": to wait for the others,
// or to print each approval of a race.
const childEnv = "BRIM_PGLEDGER_TEST_CHILD"

// TestRaces has 64 goroutines that spend 1.00 each against 100.00, by their own ledgers and by
// shared ones.
func TestRaces(t *testing.T) {
	pool := pgtest.Pool(t)
	schema := migrated(t)
	var ledgers []ledger.Ledger
	for range 3 {
		ledgers = append(ledgers, over(t, pool, &postgres.Options{Schema: schema}))
	}
	spendload.Races(t, ledgers)
}

func TestManyExpired(t *testing.T) {
	h := harness(t, "")
	spendload.Expired(t, func(clock func() time.Time) ledger.Ledger { return h.New(t, clock) })
}

// TestProcesses is TestRaces in four processes with 64 callers each. The account is not over by one
// cent.
func TestProcesses(t *testing.T) {
	pool := pgtest.Pool(t)
	schema := migrated(t)
	l := over(t, pool, &postgres.Options{Schema: schema})
	seed := spendload.Seed(t)
	const processes = 4
	for round := range 2 {
		approved, over := 0, 0
		var outs []*bufio.Reader
		var ins []io.WriteCloser
		var cmds []*exec.Cmd
		for i := range processes {
			cmd := exec.Command(os.Args[0])
			cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%s %s %d %d wait", childEnv, pgtest.URL(t), schema, round, seed+uint64(round*processes+i)))
			cmd.Stderr = os.Stderr
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			in, err := cmd.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			outs, ins, cmds = append(outs, bufio.NewReader(out)), append(ins, in), append(cmds, cmd)
		}
		for _, out := range outs { // all are connected
			if line, err := out.ReadString('\n'); err != nil || line != "ready\n" {
				t.Fatalf("a process said %q, %v", line, err)
			}
		}
		for _, in := range ins {
			in.Close()
		}
		for i, out := range outs {
			var ones, random int
			line, err := out.ReadString('\n')
			if err == nil {
				_, err = fmt.Sscan(line, &ones, &random)
			}
			if err != nil {
				t.Fatalf("a process said %q, %v", line, err)
			}
			approved, over = approved+ones, over+random
			if err := cmds[i].Wait(); err != nil {
				t.Error(err)
			}
		}
		if approved != 100 {
			t.Errorf("%d of %d spends of 1.00 were approved; want exactly 100", approved, processes*tries)
		}
		if over > 100_00 || over < 90_00 {
			t.Errorf("%d were spent of %d", over, 100_00)
		}
		spendload.Remainder(t, l, fmt.Sprint("random:", round), 100_00-int64(over))
	}
}

func init() {
	v := os.Getenv(childEnv)
	if v == "" {
		return
	}
	if err := processChild(v); err != nil {
		fmt.Println("error:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// tries is the number of spends that one process tries.
const tries = 200

func processChild(args string) error {
	var url, schema, mode string
	var round int
	var seed uint64
	if _, err := fmt.Sscan(args, &url, &schema, &round, &seed, &mode); err != nil {
		return err
	}
	pool, err := pgxpool.New(context.Background(), url)
	if err != nil {
		return err
	}
	defer pool.Close()
	s, err := postgres.New(pool, &postgres.Options{Schema: schema, StatementTimeout: time.Minute})
	if err != nil {
		return err
	}
	defer s.Close()
	l, err := pgledger.New(s, nil)
	if err != nil {
		return err
	}
	defer l.Close()
	if err := pool.Ping(context.Background()); err != nil {
		return err
	}
	if mode == "tell" {
		_, err := spendload.Race(l, fmt.Sprint("random:", round), seed, 64, tries, 1, 20, func(id string, amount int64) {
			fmt.Println(id, amount) // one write, so a printed line survives a kill
		})
		return err
	}
	fmt.Println("ready")
	if _, err := io.Copy(io.Discard, os.Stdin); err != nil {
		return err
	}
	ones, err := spendload.Race(l, fmt.Sprint("ones:", round), seed, 64, tries, 1_00, 1_00, nil)
	if err != nil {
		return err
	}
	random, err := spendload.Race(l, fmt.Sprint("random:", round), seed, 64, tries, 1, 90, nil)
	if err != nil {
		return err
	}
	fmt.Println(ones/1_00, random)
	return nil
}
