package migrations

import (
	"context"
	"fmt"
	"os"
	"reflect"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"go.uber.org/goleak"

	"github.com/brimgo/brim/internal/pgtest"
)

// The environment of the processes of TestUpInManyProcesses.
const (
	envURL    = "BRIM_MIGRATIONS_URL"
	envSchema = "BRIM_MIGRATIONS_SCHEMA"
)

func TestMain(m *testing.M) {
	if url := os.Getenv(envURL); url != "" {
		if err := upOnce(url, os.Getenv(envSchema)); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	pgtest.Main(m)
}

func upOnce(url, schema string) error {
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, url)
	if err != nil {
		return err
	}
	defer pool.Close()
	return Up(ctx, pool, &Options{Schema: schema})
}

// noLeaks fails the test if it leaves a goroutine behind. Call it first, so that its check runs
// last.
func noLeaks(t *testing.T) {
	t.Helper()
	before := goleak.IgnoreCurrent()
	t.Cleanup(func() {
		pgtest.Disconnect()
		goleak.VerifyNone(t, before)
	})
}

// idle fails the test if the pool has lent a connection or was closed.
func idle(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	// The pool destroys closed connections in the background.
	for deadline := time.Now().Add(10 * time.Second); pool.Stat().AcquiredConns() != 0; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d connections of the pool were not given back", pool.Stat().AcquiredConns())
		}
	}
	if err := pool.Ping(t.Context()); err != nil {
		t.Errorf("the pool of the caller is closed: %v", err)
	}
}

func exec(t *testing.T, pool *pgxpool.Pool, o *Options, sql string) {
	t.Helper()
	if _, err := pool.Exec(t.Context(), names(t, o).Render(sql)); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

func scalar[T any](t *testing.T, pool *pgxpool.Pool, o *Options, sql string) (v T) {
	t.Helper()
	if err := pool.QueryRow(t.Context(), names(t, o).Render(sql)).Scan(&v); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return v
}

func names(t *testing.T, o *Options) plan {
	t.Helper()
	p, err := newPlan(o)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func latest(t *testing.T) uint {
	t.Helper()
	versions, err := known()
	if err != nil {
		t.Fatal(err)
	}
	return uint(versions[len(versions)-1])
}

func up(t *testing.T, pool *pgxpool.Pool, o *Options) {
	t.Helper()
	if err := Up(t.Context(), pool, o); err != nil {
		t.Fatal(err)
	}
	checkCurrent(t, pool, o)
}

// checkCurrent fails the test unless the schema is current and a bucket can be kept in it.
func checkCurrent(t *testing.T, pool *pgxpool.Pool, o *Options) {
	t.Helper()
	got, err := CurrentStatus(t.Context(), pool, o)
	if err != nil {
		t.Fatal(err)
	}
	if want := (Status{Version: latest(t), Latest: latest(t)}); !reflect.DeepEqual(got, want) {
		t.Errorf("status is %+v, want %+v", got, want)
	}
	exec(t, pool, o, `INSERT INTO {{schema}}.{{table}} (level, held, atime, capacity, leak_rate, key)
		VALUES (1, 0, now(), 10, 1, 'k') ON CONFLICT (key) DO UPDATE SET level = EXCLUDED.level`)
	idle(t, pool)
}

func ctxFor(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}
