package migrations

import (
	"context"
	"errors"
	"net"
	"os"
	osexec "os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/brimgo/brim/internal/pgtest"
	"github.com/brimgo/brim/store"
)

func TestUpInManyProcesses(t *testing.T) {
	url, schema := pgtest.URL(t), pgtest.Schema(t)
	const processes = 6
	errs, outs := make([]error, processes), make([][]byte, processes)
	var wg sync.WaitGroup
	for i := range processes {
		wg.Go(func() {
			cmd := osexec.Command(os.Args[0])
			cmd.Env = append(os.Environ(), envURL+"="+url, envSchema+"="+schema)
			outs[i], errs[i] = cmd.CombinedOutput()
		})
	}
	wg.Wait()
	for i, err := range errs {
		if err != nil {
			t.Errorf("process %d: %v\n%s", i, err, outs[i])
		}
	}
	checkCurrent(t, pgtest.Pool(t), &Options{Schema: schema})
}

// holdLock takes the lock of golang-migrate in another session, and returns the process of that
// session.
func holdLock(t *testing.T, o *Options) (pid uint32) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), pgtest.URL(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := conn.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	p := names(t, o)
	s := &session{conn: conn}
	if _, err := s.lock(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	return conn.PgConn().PID()
}

func TestLockHeldForEver(t *testing.T) {
	noLeaks(t)
	pool := pgtest.Pool(t)
	o := &Options{Schema: pgtest.Schema(t), LockTimeout: 300 * time.Millisecond}
	pid := holdLock(t, o)
	began := time.Now()
	err := Up(ctxFor(t, 20*time.Second), pool, o)
	if !errors.Is(err, ErrLocked) {
		t.Fatalf("up: %v, want ErrLocked", err)
	}
	for _, word := range []string{strconv.Itoa(int(pid)), "pg_terminate_backend", "brim migrate sql"} {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("error does not mention %s: %v", word, err)
		}
	}
	if took := time.Since(began); took < o.LockTimeout {
		t.Errorf("Up gave up after %v, before the timeout", took)
	}
	idle(t, pool)
}

func TestContextEndsWhileWaitingForTheLock(t *testing.T) {
	noLeaks(t)
	pool, o := pgtest.Pool(t), &Options{Schema: pgtest.Schema(t)}
	holdLock(t, o)
	if err := Up(ctxFor(t, 200*time.Millisecond), pool, o); !errors.Is(err, context.DeadlineExceeded) ||
		errors.Is(err, ErrLocked) {
		t.Errorf("up: %v, want the context's error", err)
	}
	idle(t, pool)
}

// While a transaction has the table open, the migration waits inside golang-migrate, which has no
// context.
func TestTableInUse(t *testing.T) {
	noLeaks(t)
	pool, o := pgtest.Pool(t), &Options{Schema: pgtest.Schema(t), LockTimeout: 300 * time.Millisecond}
	up(t, pool, o)
	tx, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), `SELECT FROM `+names(t, o).Qualified()); err != nil {
		t.Fatal(err)
	}
	if err := Down(ctxFor(t, 20*time.Second), pool, o); !errors.Is(err, ErrLocked) {
		t.Errorf("down: %v, want ErrLocked", err)
	}
	o.LockTimeout = time.Minute
	if err := Down(ctxFor(t, 300*time.Millisecond), pool, o); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("down: %v, want the context's error", err)
	}
	// The server was asked to stop, so in a moment no session waits for the table or has the lock.
	waiting := `SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%'||{{'schema'}}||'%'
		AND pid <> pg_backend_pid()`
	for start := time.Now(); scalar[int](t, pool, o, waiting) != 0; time.Sleep(5 * time.Millisecond) {
		if time.Since(start) > 10*time.Second {
			t.Fatal("a session still waits for the table, 10 s after it was asked to stop")
		}
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	idle(t, pool)
	if err := Down(t.Context(), pool, o); err != nil {
		t.Errorf("down after two runs that were cut short: %v", err)
	}
	up(t, pool, o)
}

// If the connection breaks inside golang-migrate, the error is ErrUnavailable, and the next run
// repairs the schema.
func TestConnectionLost(t *testing.T) {
	noLeaks(t)
	pool, o := pgtest.Pool(t), &Options{Schema: pgtest.Schema(t)}
	up(t, pool, o)
	tx, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), `SELECT FROM `+names(t, o).Qualified()); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- Down(ctxFor(t, time.Minute), pool, o) }()
	kill := `SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
		WHERE wait_event_type = 'Lock' AND query LIKE '%'||{{'schema'}}||'%' AND pid <> pg_backend_pid()`
	for scalar[int](t, pool, o, kill) == 0 {
		select {
		case err := <-done:
			t.Fatalf("down ended before its connection was killed: %v", err)
		case <-time.After(5 * time.Millisecond):
		}
	}
	if err := <-done; !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("down on a killed connection: %v, want ErrUnavailable", err)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	idle(t, pool)
	up(t, pool, o)
}

// database/sql silently replaces a broken idle connection by a new one, which would not have the
// lock.
func TestSessionIsNotReplaced(t *testing.T) {
	noLeaks(t)
	pool := pgtest.Pool(t)
	s, err := openSession(t.Context(), pool)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.db.PingContext(t.Context()); err != nil {
		t.Errorf("before the connection broke: %v", err)
	}
	if err := s.conn.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := s.db.PingContext(t.Context()); !errors.Is(err, errConnectionLost) {
		t.Errorf("after the connection broke: %v, want errConnectionLost", err)
	}
	s.close()
	idle(t, pool)
}

// TestServerThatNeverAnswers asks a server that accepts connections and says nothing.
func TestServerThatNeverAnswers(t *testing.T) {
	noLeaks(t)
	l, err := net.Listen("tcp", "127.0.0.1:0") // the system accepts connections, and nobody reads them
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	pool := pgtest.PoolAt(t, "postgres://postgres@"+l.Addr().String()+"/postgres?sslmode=disable")
	o := &Options{LockTimeout: time.Second}
	for name, call := range map[string]func(context.Context) error{
		"up":     func(ctx context.Context) error { return Up(ctx, pool, o) },
		"down":   func(ctx context.Context) error { return Down(ctx, pool, o) },
		"status": func(ctx context.Context) error { _, err := CurrentStatus(ctx, pool, o); return err },
	} {
		began := time.Now()
		err := call(ctxFor(t, 10*time.Second))
		if took := time.Since(began); !errors.Is(err, store.ErrUnavailable) || took > 2*o.LockTimeout {
			t.Errorf("%s ended after %v with: %v", name, took, err)
		}
	}
}
