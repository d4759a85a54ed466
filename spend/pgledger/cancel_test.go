package pgledger_test

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/brimgo/brim/internal/pgtest"
	"github.com/brimgo/brim/internal/seed"
	"github.com/brimgo/brim/postgres"
	"github.com/brimgo/brim/spend"
	"github.com/brimgo/brim/spend/internal/spendload"
	"github.com/brimgo/brim/spend/ledger"
	"github.com/brimgo/brim/spend/pgledger"
)

// cancelEnv, in the environment, makes this test binary a process that authorizes until it is
// killed. Its value is a connection string, a schema, and the number of the round.
const cancelEnv = "BRIM_PGLEDGER_TEST_CANCEL"

func cancelBudgets(l ledger.Ledger) (*spend.Budgets, error) {
	return spend.New(l, spend.Budget{Name: "canceled", Currency: "EUR", Rules: []spend.Rule{
		spend.Lifetime("ever", spend.Money{Minor: 1 << 40, Currency: "EUR"}),
	}}, nil)
}

// authorization is request n of a round.
func authorization(round, n int) spend.Request {
	return spend.Request{
		ID: fmt.Sprintf("%d/%d", round, n), Account: fmt.Sprint("card:", n%4), Amount: spend.Money{Minor: 100, Currency: "EUR"},
		Also: []spend.Account{{Budget: "canceled", Name: fmt.Sprint("team:", n%2)}},
	}
}

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
	b, err := cancelBudgets(l)
	if err != nil {
		return err
	}
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			for n := i; ; n += 16 {
				fmt.Printf("%-1023d\n", n) // a pipe holds few of them, so the process is not far ahead
				if _, err := b.Authorize(context.Background(), authorization(round, n)); err != nil {
					fmt.Println("error:", err)
					os.Exit(1)
				}
			}
		})
	}
	wg.Wait()
	return nil
}

// TestCancelWhileKilled cancels the requests of another process while it sends them, and after it
// was killed. No money stays held, and no request has an effect afterwards.
func TestCancelWhileKilled(t *testing.T) {
	pool := pgtest.Pool(t)
	schema := migrated(t)
	b, err := cancelBudgets(over(t, pool, &postgres.Options{Schema: schema}))
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
			request := authorization(round, n)
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
				cancel(n + 16*r.IntN(2)) // in flight, or the next one
			}
			if left == 0 {
				time.AfterFunc(time.Duration(r.Int64N(int64(2*time.Millisecond))), func() { _ = cmd.Process.Kill() })
			}
		}
		_ = cmd.Wait()
		for n := range sent {
			cancel(n) // the server may still decide the last requests of the dead process
			if d, err := b.Authorize(t.Context(), authorization(round, n)); err != nil || d.Approved || !d.Canceled {
				t.Errorf("a canceled request that is sent again: %+v, %v", d, err)
			}
		}
	}
	t.Logf("%d cancellations came before their request, and %d after it", early, late)
	if early == 0 || late == 0 {
		t.Error("the test has not tested much")
	}
	held := make(map[string]int64)
	for e, err := range b.Export(t.Context(), nil) {
		if err != nil {
			t.Fatal(err)
		}
		if held[e.Name+" "+e.SpendID] += max(0, e.Held.Minor); held[e.Name+" "+e.SpendID] > 100 {
			t.Fatalf("request %s had two effects", e.RequestID)
		}
	}
	for _, account := range []string{"card:0", "card:1", "card:2", "card:3", "team:0", "team:1"} {
		list, err := b.Remaining(t.Context(), account)
		if err != nil || list[0].Held.Minor != 0 || list[0].Used.Minor != 0 {
			t.Errorf("account %s: %+v, %v; want that nothing is held or used", account, list, err)
		}
		if err := b.Verify(t.Context(), account); err != nil {
			t.Error(err)
		}
	}
}
