package pgledger_test

import (
	"context"
	"errors"
	"iter"
	"reflect"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/brimgo/brim/internal/pgname"
	"github.com/brimgo/brim/internal/pgtest"
	"github.com/brimgo/brim/migrations"
	"github.com/brimgo/brim/postgres"
	"github.com/brimgo/brim/spend"
	"github.com/brimgo/brim/spend/ledger"
	"github.com/brimgo/brim/spend/pgledger"
	"github.com/brimgo/brim/store"
)

// silence is the bound of the calls to a server that does not answer.
const silence = 2 * time.Second

// everyCall returns the calls of a ledger, and the questions of budgets over it.
func everyCall(t *testing.T, l ledger.Ledger) map[string]func(context.Context) error {
	all := calls(l)
	all["decideall"] = func(ctx context.Context) error { return l.DecideAll(ctx, []*ledger.Job{idle("account")})[0] }
	all["decide writes"] = func(ctx context.Context) error { return l.Decide(ctx, answer("new", "account")) }
	b := cardsAndTeams(t, l)
	all["spend: Charge"] = func(ctx context.Context) error {
		_, err := b.Charge(ctx, spend.Request{ID: "silent", Account: "card", Amount: euros(1)})
		return err
	}
	all["spend: AbleToAccept"] = func(ctx context.Context) error {
		_, err := b.AbleToAccept(ctx, spend.Request{ID: "silent", Account: "card", Amount: euros(1)})
		return err
	}
	all["spend: Remaining"] = func(ctx context.Context) error { _, err := b.Remaining(ctx, "card"); return err }
	all["spend: Get"] = func(ctx context.Context) error { _, err := b.Get(ctx, "id"); return err }
	all["spend: Holds"] = func(ctx context.Context) error { _, err := b.Holds(ctx, "card"); return err }
	all["spend: Limits"] = func(ctx context.Context) error { _, err := b.Limits(ctx, "card"); return err }
	all["spend: Export"] = func(ctx context.Context) error { return first(b.Export(ctx, nil)) }
	all["spend: History"] = func(ctx context.Context) error { return first(b.History(ctx, "card", nil)) }
	all["spend: Verify"] = func(ctx context.Context) error { return b.Verify(ctx, "card") }
	all["spend: Prune"] = func(ctx context.Context) error { _, err := b.Prune(ctx); return err }
	return all
}

// first returns the first error of a listing.
func first(list iter.Seq2[spend.Entry, error]) error {
	for _, err := range list {
		if err != nil {
			return err
		}
	}
	return nil
}

// TestEveryCallIsNamed finds a method of a ledger that everyCall lacks.
func TestEveryCallIsNamed(t *testing.T) {
	named := everyCall(t, (*pgledger.Ledger)(nil))
	for i := range reflect.TypeFor[*pgledger.Ledger]().NumMethod() {
		m := reflect.TypeFor[*pgledger.Ledger]().Method(i)
		name := strings.ToLower(m.Name)
		if m.Type.NumIn() > 1 && m.Type.In(1) == reflect.TypeFor[context.Context]() &&
			named[name] == nil && named[strings.TrimSuffix(name, "requests")] == nil {
			t.Errorf("everyCall has no call of %s, so nothing tests its bound", m.Name)
		}
	}
}

// apart returns every call, each over a pool of its own with connections that were just used, and
// some calls within transactions that have begun.
func apart(t *testing.T, url, schema string) map[string]func(context.Context) error {
	t.Helper()
	all := make(map[string]func(context.Context) error)
	for name := range everyCall(t, (*pgledger.Ledger)(nil)) {
		pool, err := pgxpool.New(t.Context(), url+"&pool_max_conns=2")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(pool.Close)
		l := over(t, pool, &postgres.Options{Schema: schema, StatementTimeout: silence})
		mustCharge(t, cardsAndTeams(t, l), spend.Request{ID: "id", Account: "card", Amount: euros(1)})
		all[name] = everyCall(t, l)[name]
		if !strings.HasPrefix(name, "spend: ") {
			tx, err := pool.Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = tx.Rollback(context.Background()) })
			all["With: "+name] = everyCall(t, l.With(tx))[name]
		}
	}
	return all
}

// timed makes the calls at the same time. Each must fail within twice the bound.
func timed(t *testing.T, all map[string]func(context.Context) error) {
	t.Helper()
	var wg sync.WaitGroup
	for name, call := range all {
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), 4*silence)
			defer cancel()
			began := time.Now()
			err := call(ctx)
			took := time.Since(began)
			t.Logf("%-20s %5.2f s  %v", name, took.Seconds(), err)
			if took > 2*silence {
				t.Errorf("%s took %v, more than twice the bound of %v", name, took, silence)
			}
			if !errors.Is(err, store.ErrUnavailable) && (!errors.Is(err, store.ErrUnknownOutcome) || strings.HasPrefix(name, "With: ")) {
				t.Errorf("%s: error is %v", name, err)
			}
		})
	}
	wg.Wait()
}

// TestServerThatStops makes every call over connections to a server whose processes stand still.
func TestServerThatStops(t *testing.T) {
	server := pgtest.NewServer(t)
	if err := migrations.Up(t.Context(), server.Pool(t), nil); err != nil {
		t.Fatal(err)
	}
	all := apart(t, server.URL(), pgname.DefaultSchema)
	t.Cleanup(func() { _ = server.Signal(syscall.SIGCONT) }) // before the pools close
	if err := server.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	timed(t, all)
}

// TestTablesLockedByAStranger makes every call while a stranger has the tables to himself.
func TestTablesLockedByAStranger(t *testing.T) {
	admin := pgtest.Pool(t)
	schema := migrated(t)
	all := apart(t, pgtest.URL(t), schema)
	names, err := pgname.New(schema, "")
	if err != nil {
		t.Fatal(err)
	}
	tx, err := admin.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tx.Rollback(context.Background()) }) // before the pools close
	for _, table := range names.Ledger() {
		if _, err := tx.Exec(t.Context(), "LOCK TABLE "+pgname.Quote(schema)+"."+pgname.Quote(table)+" IN ACCESS EXCLUSIVE MODE"); err != nil {
			t.Fatal(err)
		}
	}
	timed(t, all)
}

// TestCancelledWaitForStandby cancels the wait of a charge for a synchronous standby. The server
// reports success with a warning, and a fail-over loses the charge.
func TestCancelledWaitForStandby(t *testing.T) {
	server := pgtest.NewServer(t)
	config, err := pgxpool.ParseConfig(server.URL() + "&synchronous_commit=local")
	if err != nil {
		t.Fatal(err)
	}
	admin, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(admin.Close)
	if err := migrations.Up(t.Context(), admin, nil); err != nil {
		t.Fatal(err)
	}
	for _, sql := range []string{"ALTER SYSTEM SET synchronous_standby_names = '*'", "SELECT pg_reload_conf()"} {
		if _, err := admin.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	config = config.Copy()
	delete(config.ConnConfig.RuntimeParams, "synchronous_commit")
	postgres.WatchCommits(config)
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	l := over(t, pool, &postgres.Options{StatementTimeout: time.Minute})
	b := cardsAndTeams(t, l)
	requests := []spend.Request{
		{ID: "1", Account: "card", Amount: euros(1)}, // locks the account first
		{ID: "2", Account: "card", Amount: euros(1)}, // may go by the remembered account
		{ID: "3", Account: "card", Amount: euros(1)},
	}
	for _, r := range requests {
		done := make(chan error, 1)
		go func() { _, err := b.Charge(context.Background(), r); done <- err }()
		for pending := true; pending; {
			select {
			case err := <-done:
				wantError(t, err, store.ErrUnknownOutcome)
				pending = false
			case <-time.After(time.Millisecond):
				if _, err := admin.Exec(t.Context(), "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'"); err != nil {
					t.Fatal(err)
				}
			}
		}
		// The same request finds its answer: nothing is charged twice.
		if d, err := b.Charge(t.Context(), r); err != nil || !d.Approved {
			t.Errorf("again: %+v, %v", d, err)
		}
	}
}
