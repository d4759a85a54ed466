package pgledger_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/brimgo/brim/internal/pgtest"
	"github.com/brimgo/brim/migrations"
	"github.com/brimgo/brim/postgres"
	"github.com/brimgo/brim/spend"
	"github.com/brimgo/brim/spend/pgledger"
	"github.com/brimgo/brim/store"
)

// TestAnswersSurviveFailOver: an answer that is told survives a fail-over to the synchronous
// standby, also if it was read. The waits of all commits are cancelled while the standby is away.
// So each charge has an unknown outcome, and its retry finds a decision that only the primary has.
func TestAnswersSurviveFailOver(t *testing.T) {
	t.Parallel()
	const charges, limit, before, callers = 2000, 1000, 100, 256
	primary := pgtest.NewServer(t)
	admin := pgtest.PoolAt(t, primary.URL()+"&synchronous_commit=local")
	if err := migrations.Up(t.Context(), admin, nil); err != nil {
		t.Fatal(err)
	}
	standby := primary.NewStandby(t)
	run(t, admin, "ALTER SYSTEM SET synchronous_standby_names = '*'")
	run(t, admin, "SELECT pg_reload_conf()")
	await(t, admin, "SELECT count(*) = 1 FROM pg_stat_replication WHERE sync_state = 'sync'")
	budgets := func(pool *pgxpool.Pool) *spend.Budgets {
		t.Helper()
		return budgetOf(t, over(t, pool, nil), "cards", spend.Lifetime("ever", eur(limit)))
	}
	request := func(n int) spend.Request {
		return spend.Request{ID: fmt.Sprint("pay-", n), Account: "7", Amount: eur(1)}
	}
	b := budgets(pgtest.PoolAt(t, primary.URL(), postgres.WatchCommits))
	var mu sync.Mutex
	told, unknown := make(map[int]bool), 0
	tell := func(n int, d spend.Decision, err error) {
		mu.Lock()
		defer mu.Unlock()
		switch {
		case errors.Is(err, store.ErrUnknownOutcome), errors.Is(err, store.ErrUnavailable):
			unknown++
		case err != nil:
			t.Errorf("charge %d: %v", n, err)
		case d.Approved:
			told[n] = true
		}
	}
	all := func(from, to int, call func(n int)) {
		var wg sync.WaitGroup
		for i := range callers {
			wg.Go(func() {
				for n := from + i; n < to; n += callers {
					call(n)
				}
			})
		}
		wg.Wait()
	}
	send := func(n int) {
		d, err := b.Charge(t.Context(), request(n))
		tell(n, d, err)
	}
	all(0, before, send)
	if len(told) != before || unknown != 0 {
		t.Fatalf("with the standby, %d charges were approved and %d are unknown; want %d and 0", len(told), unknown, before)
	}

	if err := standby.Stop(true); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	var canceling sync.WaitGroup
	canceling.Go(func() {
		for ctx.Err() == nil {
			_, err := admin.Exec(ctx, "SELECT pg_cancel_backend(pid), pg_sleep(0.001) FROM pg_stat_activity WHERE wait_event = 'SyncRep'")
			if err != nil && ctx.Err() == nil {
				t.Error(err)
				return
			}
		}
	})
	all(before, charges, func(n int) {
		send(n)
		if n%8 == 0 {
			got, err := b.Get(t.Context(), request(n).ID)
			tell(n, got.Decision, err)
		}
	})
	stop()
	canceling.Wait()
	if t.Logf("%d answers are unknown, and %d charges were told as approved", unknown, len(told)); unknown < charges {
		t.Error("the test has not tested much")
	}

	if err := errors.Join(primary.Stop(true), standby.Start()); err != nil {
		t.Fatal(err)
	}
	follower := standby.Pool(t)
	b = budgets(follower)
	run(t, follower, "ALTER SYSTEM SET synchronous_standby_names = '*'")
	run(t, follower, "SELECT pg_reload_conf()")
	await(t, follower, "SELECT current_setting('synchronous_standby_names') = '*'")
	if got, err := b.Get(t.Context(), request(0).ID); err != nil || !got.Decision.Approved {
		t.Errorf("an answer that is read on a standby: %+v, %v", got, err)
	}
	run(t, follower, "ALTER SYSTEM RESET synchronous_standby_names")
	if !query[bool](t, follower, "SELECT pg_reload_conf() AND pg_promote()") {
		t.Fatal("the standby was not promoted")
	}
	lost, approved := 0, 0
	all(0, charges, func(n int) {
		d, err := b.Charge(t.Context(), request(n))
		mu.Lock()
		defer mu.Unlock()
		switch {
		case err != nil:
			t.Errorf("charge %d: %v", n, err)
		case told[n] && !d.Replayed:
			lost++
		case d.Approved:
			approved++
			told[n] = true
		}
	})
	if lost != 0 || len(told) > limit {
		t.Errorf("the fail-over has lost %d approvals that were told, and %d of %d were told as approved", lost, len(told), limit)
	}
}

// TestReadAnswers: an answer that is read waits for the synchronous standby, and where there is
// none, it logs nothing. The standby of this server is away.
func TestReadAnswers(t *testing.T) {
	server := pgtest.NewServer(t)
	admin := pgtest.PoolAt(t, server.URL()+"&synchronous_commit=local")
	if err := migrations.Up(t.Context(), admin, nil); err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	open := func(settings string) (*pgxpool.Pool, *pgledger.Ledger, *spend.Budgets) {
		t.Helper()
		pool := pgtest.PoolAt(t, server.URL()+settings, postgres.WatchCommits)
		l := over(t, pool, nil)
		return pool, l, budgetOf(t, l, "cards", spend.Lifetime("ever", eur(1000)))
	}
	pool, l, b := open("")
	pay, elsewhere := spend.Request{ID: "pay", Account: "7", Amount: eur(1)}, spend.Request{ID: "pay", Account: "new", Amount: eur(1)}
	capture := spend.CaptureRequest{ID: "take", HoldID: "hold", Amount: eur(1)}
	mustCharge(t, b, pay)
	if d, err := b.Authorize(ctx, spend.Request{ID: "hold", Account: "7", Amount: eur(1)}); err != nil || !d.Approved {
		t.Fatal(d, err)
	}
	if d, err := b.Capture(ctx, capture); err != nil || !d.Approved {
		t.Fatal(d, err)
	}
	run(t, admin, "DELETE FROM brim.buckets_requests WHERE id = 'hold'") // as Prune does, which keeps later IDs

	// logged returns the bytes that a call logs. The server logs something now and then, too.
	logged := func(call func() error) int64 {
		t.Helper()
		least := int64(1 << 40)
		for range 5 {
			from := query[string](t, admin, "SELECT pg_current_wal_insert_lsn()::text")
			if err := call(); err != nil {
				t.Fatal(err)
			}
			least = min(least, query[int64](t, admin, "SELECT (pg_current_wal_insert_lsn() - $1::text::pg_lsn)::bigint", from))
		}
		return least
	}
	lock := logged(func() error {
		tx, err := pool.Begin(ctx)
		if err == nil {
			_, err = tx.Exec(ctx, "SELECT FROM brim.buckets_accounts WHERE key = 'cards/7' FOR NO KEY UPDATE")
		}
		return errors.Join(err, tx.Rollback(ctx))
	})
	wants := func(err, want error) error {
		if errors.Is(err, want) {
			return nil
		}
		return fmt.Errorf("%w; want %w", err, want)
	}
	all := []struct {
		name  string
		reads bool  // an answer
		logs  int64 // bytes without a standby
		call  func(*spend.Budgets) error
	}{
		{"a replay", true, lock, func(b *spend.Budgets) error { _, err := b.Charge(ctx, pay); return err }},
		{"a replay that locks nothing", true, 0, func(b *spend.Budgets) error { _, err := b.Capture(ctx, capture); return err }},
		{"two replays", true, lock, func(b *spend.Budgets) error { return b.ChargeAll(ctx, []spend.Request{pay, pay})[1].Err }},
		{"Get", true, 0, func(b *spend.Budgets) error { _, err := b.Get(ctx, "pay"); return err }},
		{"an ID that was used", true, -1, func(b *spend.Budgets) error { // the new account is made, and removed again
			_, err := b.Charge(ctx, elsewhere)
			return wants(err, spend.ErrIDReused)
		}},
		{"Get of an unknown ID", false, 0, func(b *spend.Budgets) error { _, err := b.Get(ctx, "none"); return wants(err, spend.ErrUnknownSpend) }},
		{"a void of an unknown spend", false, 0, func(b *spend.Budgets) error {
			_, err := b.Void(ctx, spend.VoidRequest{ID: "void", HoldID: "none"})
			return wants(err, spend.ErrUnknownSpend)
		}},
		{"AbleToAccept", false, 0, func(b *spend.Budgets) error { _, err := b.AbleToAccept(ctx, pay); return err }},
		{"Remaining", false, 0, func(b *spend.Budgets) error { _, err := b.Remaining(ctx, "7"); return err }},
	}
	for _, c := range all {
		if n := logged(func() error { return c.call(b) }); n != c.logs && c.logs >= 0 {
			t.Errorf("without a standby, %s logs %d bytes; want %d", c.name, n, c.logs)
		}
	}

	run(t, admin, "ALTER SYSTEM SET synchronous_standby_names = '*'")
	run(t, admin, "SELECT pg_reload_conf()")
	await(t, admin, "SELECT current_setting('synchronous_standby_names') = '*'")
	// waits makes a call, and reports whether it waits for the standby. It then cancels the wait.
	waits := func(call func() error) (waited bool, err error) {
		t.Helper()
		done := make(chan error, 1)
		go func() { done <- call() }()
		for {
			select {
			case err := <-done:
				return waited, err
			case <-time.After(time.Millisecond):
				waited = query[bool](t, admin, "SELECT count(*) FILTER (WHERE pg_cancel_backend(pid)) > 0 FROM pg_stat_activity WHERE wait_event = 'SyncRep'") || waited
			}
		}
	}
	_, _, local := open("&synchronous_commit=local")
	for _, c := range all {
		waited, err := waits(func() error { return c.call(b) })
		unsynced := errors.Is(err, store.ErrUnknownOutcome) || errors.Is(err, store.ErrUnavailable)
		if waited != c.reads || unsynced != c.reads || !unsynced && err != nil {
			t.Errorf("%s waits: %v, and ends with: %v; want a wait: %v", c.name, waited, err, c.reads)
		}
		waited, err = waits(func() error {
			return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error { return c.call(b.With(l.With(tx))) })
		})
		if waited != c.reads || err != nil {
			t.Errorf("in a transaction of the caller, %s waits: %v, and ends with: %v; want a wait: %v", c.name, waited, err, c.reads)
		}
		if n := logged(func() error { return c.call(local) }); n != c.logs && c.logs >= 0 {
			t.Errorf("with synchronous_commit=local, %s logs %d bytes; want %d", c.name, n, c.logs)
		}
	}
}

// await waits until a statement returns true.
func await(t *testing.T, pool *pgxpool.Pool, sql string) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !query[bool](t, pool, sql); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited for a minute: %s", sql)
		}
	}
}
