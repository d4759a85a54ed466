package pgledger_test

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/brimgo/brim/internal/pgtest"
	"github.com/brimgo/brim/internal/seed"
	"github.com/brimgo/brim/postgres"
	"github.com/brimgo/brim/spend/internal/spendload"
)

// TestCancelWhileKilled cancels the requests of another process while it sends them, and after it
// was killed. No money stays held, and no request has an effect afterwards.
func TestCancelWhileKilled(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t)
	schema := migrated(t)
	b, err := spendload.Cancels(t.Context(), over(t, pool, &postgres.Options{Schema: schema}))
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(spendload.Seed(t), 4))
	early, late := 0, 0
	for round := range seed.Attempts(2, 60) {
		cmd, out, err := startChild(fmt.Sprint(pgtest.URL(t), " ", schema, " cancel ", round, " 0"))
		if err != nil {
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
