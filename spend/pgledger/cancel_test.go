package pgledger_test

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/brimgo/brim/internal/pgtest"
	"github.com/brimgo/brim/internal/seed"
	"github.com/brimgo/brim/postgres"
	"github.com/brimgo/brim/spend/internal/spendload"
	"github.com/brimgo/brim/spend/pgledger"
)

// cancelEnv, in the environment, makes this test binary a process that authorizes until it is
// killed. Its value is a connection string, a schema, and the number of the round.
const cancelEnv = "BRIM_PGLEDGER_TEST_CANCEL"

func init() {
	v := os.Getenv(cancelEnv)
	if v == "" {
		return
	}
	if err := authorizeUntilKilled(v); err != nil {
		fmt.Println("error:", err)
		os.Exit(1)
	}
}

func authorizeUntilKilled(args string) error {
	var url, schema string
	var round int
	if _, err := fmt.Sscan(args, &url, &schema, &round); err != nil {
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
	b, err := spendload.Cancels(l)
	if err != nil {
		return err
	}
	spendload.AuthorizeUntilKilled(b, round, false)
	return nil
}

// TestCancelWhileKilled cancels the requests of another process while it sends them, and after it
// was killed. No money stays held, and no request has an effect afterwards.
func TestCancelWhileKilled(t *testing.T) {
	pool := pgtest.Pool(t)
	schema := migrated(t)
	b, err := spendload.Cancels(over(t, pool, &postgres.Options{Schema: schema}))
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(spendload.Seed(t), 4))
	early, late := 0, 0
	for round := range seed.Attempts(2, 60) {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%s %s %d", cancelEnv, pgtest.URL(t), schema, round))
		cmd.Stderr = os.Stderr
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		// cancel cancels a request. Its account has all of its money back.
		cancel := func(n int) {
			request := spendload.Authorization(round, n)
			d, err := b.Cancel(t.Context(), request.ID, request.Account)
			switch {
			case err != nil || !d.Approved || !d.Canceled:
				t.Errorf("cancel of %s: %+v, %v", request.ID, d, err)
			case d.Replayed:
			case d.Amount.Minor == 0:
				early++
			default:
				late++
			}
		}
		sent := make(map[int]bool)
		lines := bufio.NewScanner(out)
		for left := 50 + r.IntN(200); lines.Scan(); left-- {
			var n int
			if _, err := fmt.Sscan(lines.Text(), &n); err != nil {
				t.Fatalf("the process printed %q", lines.Text())
			}
			if sent[n] = true; r.IntN(4) == 0 {
				cancel(n + spendload.Authorizers*r.IntN(2)) // in flight, or the next one
			}
			if left == 0 {
				time.AfterFunc(time.Duration(r.Int64N(int64(2*time.Millisecond))), func() { _ = cmd.Process.Kill() })
			}
		}
		_ = cmd.Wait()
		for n := range sent {
			cancel(n) // the server may still decide the last requests of the dead process
			if d, err := b.Authorize(t.Context(), spendload.Authorization(round, n)); err != nil || d.Approved || !d.Canceled {
				t.Errorf("a canceled request that is sent again: %+v, %v", d, err)
			}
		}
	}
	t.Logf("%d cancellations came before their request, and %d after it", early, late)
	if early == 0 || late == 0 {
		t.Error("the test has not tested much")
	}
	spendload.Undone(t, b)
}
