package pgledger_test

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/brimgo/brim/internal/pgtest"
	"github.com/brimgo/brim/internal/seed"
	"github.com/brimgo/brim/postgres"
	"github.com/brimgo/brim/spend/internal/spendload"
)

// TestProcessesKilled has three processes with 64 callers each race for one account, and kills each
// of them several times in the middle of its decisions. No approval is lost or made twice, and the
// account has exactly the rest left.
func TestProcessesKilled(t *testing.T) {
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
					told, killed, err := live(fmt.Sprintf("%s %s %d %d tell", pgtest.URL(t), schema, round, n), after)
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
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+args)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, false, err
	}
	if err := cmd.Start(); err != nil {
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
