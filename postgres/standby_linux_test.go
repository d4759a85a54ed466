package postgres_test

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/brimgo/brim/internal/pgtest"
	"github.com/brimgo/brim/postgres"
	"github.com/brimgo/brim/store"
	"github.com/brimgo/brim/stores"
)

// TestFailOver stops all processes of the primary and promotes its standby. Every store must write
// again within 15 s, with the connection string of docs/operations.md and default options.
func TestFailOver(t *testing.T) {
	t.Parallel() // most of it waits
	primary := pgtest.NewServer(t)
	schema := migrateOn(t, primary.Pool(t))
	standby := primary.NewStandby(t)
	url := documented(t, primary, standby)
	usual := postgres.Options{Schema: schema, StatementTimeout: postgres.DefaultStatementTimeout}
	busy := over(t, pgtest.PoolAt(t, url), usual)
	idle := over(t, pgtest.PoolAt(t, url), usual)
	updating := over(t, pgtest.PoolAt(t, url), usual)
	opened, err := stores.Open(t.Context(), strings.Replace(url, "&connect_timeout=3", "", 1), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = opened.Close() })
	writers := map[string]func() error{}
	for name, s := range map[string]store.Store{"busy": busy, "idle": idle, "package stores": opened} {
		writers[name] = func() error {
			_, err := s.Fill(t.Context(), op(steady.For(name), 1, store.IfFits))
			return err
		}
	}
	writers["Update"] = func() error {
		return updating.Update(t.Context(), func(in store.Store) error {
			_, err := in.Fill(t.Context(), op(steady.For("Update"), 1, store.IfFits))
			return err
		})
	}
	for name, write := range writers {
		if err := write(); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	follower := standby.Pool(t)
	until(t, "the standby to have the fills", func() bool {
		return scalar[int](t, follower, "SELECT count(*) FROM "+table(t, schema)) == len(writers)
	})
	stopped, promoted := make(chan struct{}), make(chan struct{})
	var at time.Time // of the promotion
	var wg sync.WaitGroup
	for name, write := range writers {
		wg.Go(func() {
			for alive := name != "idle"; alive; {
				_ = write()
				select {
				case <-stopped:
					alive = false
				default:
				}
			}
			<-promoted
			for {
				err := write()
				took := time.Since(at)
				if err == nil {
					t.Logf("%s: the first write was done %.1f s after the promotion", name, took.Seconds())
				}
				if took > 15*time.Second {
					t.Errorf("%s: %v after the promotion, the write ended with: %v", name, took, err)
				}
				if err == nil || took > time.Minute {
					return
				}
			}
		})
	}
	t.Cleanup(func() { _ = primary.Signal(syscall.SIGCONT) })
	if err := primary.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	close(stopped)
	if !scalar[bool](t, follower, "SELECT pg_promote()") {
		t.Error("the standby was not promoted")
	}
	at = time.Now()
	close(promoted)
	wg.Wait()
}

// documented returns the connection string of docs/operations.md for two servers.
func documented(t *testing.T, a, b *pgtest.Server) string {
	t.Helper()
	page, err := os.ReadFile("../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`postgres://app@db1,db2/app(\S*connect_timeout=\d+)`).FindSubmatch(page)
	if found == nil {
		t.Fatal("docs/operations.md has no connection string of two servers")
	}
	host := regexp.MustCompile(`127\.0\.0\.1:\d+`)
	return "postgres://postgres@" + host.FindString(a.URL()) + "," + host.FindString(b.URL()) + "/postgres" +
		string(found[1]) + "&sslmode=disable"
}

// cancelWait cancels the commit that waits for a standby.
func cancelWait(t *testing.T, admin *pgxpool.Pool) {
	t.Helper()
	until(t, "a commit to wait for the standby", func() bool {
		return scalar[int](t, admin, `SELECT count(*) FILTER (WHERE pg_cancel_backend(pid)) FROM pg_stat_activity
			WHERE wait_event = 'SyncRep'`) > 0
	})
}

// missingStandby returns a server with the tables, whose commits wait for a standby that is not
// there, and a pool whose commits do not wait.
func missingStandby(t *testing.T) (server *pgtest.Server, admin *pgxpool.Pool, schema string) {
	t.Helper()
	server = pgtest.NewServer(t)
	admin = pgtest.PoolAt(t, tune(server.URL(), "synchronous_commit=local"))
	schema = migrateOn(t, admin)
	execute(t, admin, "ALTER SYSTEM SET synchronous_standby_names = '*'")
	execute(t, admin, "SELECT pg_reload_conf()")
	until(t, "the setting", func() bool { return scalar[string](t, admin, "SHOW synchronous_standby_names") == "*" })
	return server, admin, schema
}

// TestCancelledWaitForStandby cancels the wait of each kind of commit for a synchronous standby.
// The server then reports success with a warning. A fail-over loses the commit, so its outcome is
// unknown.
func TestCancelledWaitForStandby(t *testing.T) {
	server, admin, schema := missingStandby(t)
	pool := pgtest.PoolAt(t, server.URL(), postgres.WatchCommits)
	s := over(t, pool, postgres.Options{Schema: schema, StatementTimeout: time.Minute})
	all := calls(s, steady.For("k"))
	for _, c := range []struct {
		name string
		call func(context.Context) error
	}{
		{"one statement that makes the row", all["try"]},
		{"one statement that updates the row", all["try"]},
		{"a Fillup", all["fillup"]},
		{"a drain", all["drain"]},
		{"a transaction of two round trips", all["hold"]},
		{"a block", all["block"]},
		{"several buckets", all["apply"]},
		{"a Delete", all["delete"]},
		{"Update", func(ctx context.Context) error {
			return s.Update(ctx, func(in store.Store) error {
				_, err := in.Fill(ctx, op(steady.For("k"), 1, store.Clamp))
				return err
			})
		}},
	} {
		done := make(chan error, 1)
		go func() { done <- c.call(t.Context()) }()
		cancelWait(t, admin)
		err := promptly(t, func() error { return <-done })
		wantError(t, err, store.ErrUnknownOutcome, "standby was cancelled")
		if t.Failed() {
			t.Fatalf("%s", c.name)
		}
	}
	// Calls that queue behind a commit that waits share a statement. None of them may be
	// acknowledged.
	const callers = 16
	done := make(chan error, callers)
	for i := range callers {
		go func() {
			_, err := s.Fill(context.Background(), op(steady.For(fmt.Sprint("shared ", i/2)), 1, store.IfFits))
			done <- err
		}()
	}
	for answered := 0; answered < callers; {
		select {
		case err := <-done:
			wantError(t, err, store.ErrUnknownOutcome, "standby was cancelled")
			answered++
		case <-time.After(time.Millisecond):
			execute(t, admin, "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'")
		}
	}
	// A call that changes nothing does not wait, and is not unknown.
	for _, name := range looks {
		if err := all[name](t.Context()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	// A commit of the application on the same connection is not that of the store.
	execute(t, admin, "DELETE FROM "+table(t, schema))
	conn, err := pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		_, err := conn.Exec(context.Background(), "CREATE TABLE of_the_application ()")
		done <- err
	}()
	cancelWait(t, admin)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	conn.Release()
	if err := all["read"](t.Context()); err != nil {
		t.Error(err)
	}
}

// TestCheckOfCommits checks pools over a server whose synchronous standby is present, absent, and
// given up.
func TestCheckOfCommits(t *testing.T) {
	server, admin, schema := missingStandby(t)
	open := func(setting string, watched bool) *pgxpool.Pool {
		return pgtest.PoolAt(t, tune(server.URL(), setting), func(c *pgxpool.Config) {
			if watched {
				postgres.WatchCommits(c)
			}
		})
	}
	standby := server.NewStandby(t)
	until(t, "the standby to be synchronous", func() bool {
		return scalar[int](t, admin, "SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'") == 1
	})
	for _, c := range []struct {
		setting string
		watched bool
		want    string
	}{
		{"", true, ""},
		{"", false, "broken WatchCommits"},
		{"client_min_messages=error", true, "broken WatchCommits"},
		{"synchronous_commit=local", false, "warning synchronous_commit"},
	} {
		if got := found(t, open(c.setting, c.watched), schema); got != c.want {
			t.Errorf("%q, watched %v: %s; want %s", c.setting, c.watched, got, c.want)
		}
	}
	if err := standby.Stop(false); err != nil {
		t.Fatal(err)
	}
	if got := found(t, open("", true), schema); got != "broken synchronous_standby_names" {
		t.Errorf("a standby that was stopped: %s", got)
	}
	mend(t, admin, func() *pgxpool.Pool { return open("", true) }, schema)
}
