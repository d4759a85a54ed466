package postgres_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"go.uber.org/goleak"

	"github.com/brimgo/brim/internal/pgname"
	"github.com/brimgo/brim/internal/pgtest"
	"github.com/brimgo/brim/migrations"
	"github.com/brimgo/brim/store"
)

// secret is a key that no error and no log line may contain.
const secret = "card 4111-1111-1111-1111"

// steady does not leak and is never full. A hold of one unit is not too small for it.
var steady = store.Limit{Capacity: 1 << 36}

func op(b store.Bucket, n float64, m store.Mode) store.Op {
	return store.Op{Bucket: b, Amount: n, Mode: m}
}

// fill decides an operation that must not fail.
func fill(t testing.TB, s store.Store, op store.Op) store.State {
	t.Helper()
	st, err := s.Fill(t.Context(), op)
	if err != nil {
		t.Fatal(err)
	}
	return st
}

// stateOf reads one bucket by the limit last written.
func stateOf(t testing.TB, s store.Store, key string) store.State {
	t.Helper()
	states, err := s.Read(t.Context(), store.Bucket{Key: key})
	if err != nil {
		t.Fatal(err)
	}
	return states[0]
}

func levelIs(t testing.TB, s store.Store, key string, want float64) {
	t.Helper()
	if got := stateOf(t, s, key).Level; got != want {
		t.Errorf("level is %v, want %v", got, want)
	}
}

// list returns the buckets whose keys start with prefix.
func list(t testing.TB, s store.Store, prefix string) (entries []store.Entry) {
	t.Helper()
	err := s.Visit(t.Context(), prefix, func(e store.Entry) bool { entries = append(entries, e); return true })
	if err != nil {
		t.Fatal(err)
	}
	return entries
}

// tune puts settings into a connection string.
func tune(url string, settings ...string) string {
	for _, s := range settings {
		sep := "?"
		if strings.Contains(url, "?") {
			sep = "&"
		}
		url += sep + s
	}
	return url
}

// migrateOn makes the tables in the default schema of a server of the test's own.
func migrateOn(t testing.TB, pool *pgxpool.Pool) (schema string) {
	t.Helper()
	if err := migrations.Up(context.Background(), pool, nil); err != nil {
		t.Fatal(err)
	}
	return pgname.DefaultSchema
}

// migrateTo makes the tables in a schema on the shared server.
func migrateTo(t testing.TB, pool *pgxpool.Pool, schema string) {
	t.Helper()
	if err := migrations.Up(context.Background(), pool, &migrations.Options{Schema: schema}); err != nil {
		t.Fatal(err)
	}
}

// table returns the quoted table of buckets in a schema.
func table(t testing.TB, schema string) string {
	t.Helper()
	names, err := pgname.New(schema, "")
	if err != nil {
		t.Fatal(err)
	}
	return names.Qualified()
}

// until waits for an event in another goroutine or on the server.
func until(t testing.TB, event string, happened func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !happened(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain for %s", event)
		}
	}
}

// scalar returns the one value of a query.
func scalar[T any](t testing.TB, pool *pgxpool.Pool, sql string, args ...any) (v T) {
	t.Helper()
	if err := pool.QueryRow(context.Background(), sql, args...).Scan(&v); err != nil {
		t.Fatal(err)
	}
	return v
}

func execute(t testing.TB, pool *pgxpool.Pool, sql string, args ...any) {
	t.Helper()
	if _, err := pool.Exec(context.Background(), sql, args...); err != nil {
		t.Fatal(err)
	}
}

// lockRow holds the row of a key locked, like the transaction of a stranger, until release is
// called.
func lockRow(t testing.TB, pool *pgxpool.Pool, schema, key string) (release func()) {
	t.Helper()
	tx, err := pool.Begin(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	end := func() { _ = tx.Rollback(context.Background()) }
	t.Cleanup(end)
	tag, err := tx.Exec(context.Background(), "SELECT FROM "+table(t, schema)+" WHERE key = $1 FOR UPDATE", key)
	if err != nil || tag.RowsAffected() != 1 {
		t.Fatalf("locking a row: %v, %v", tag, err)
	}
	return end
}

// lockTable holds the whole table locked until release is called. A statement that waits for it is
// in flight for as long: lock_timeout is set within the statement, after the server has locked the
// table. lockTable returns when it has the lock, or waits for it behind others.
func lockTable(t testing.TB, pool *pgxpool.Pool, schema string) (release func()) {
	t.Helper()
	tx, err := pool.Begin(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	before := waiting(t, pool, schema)
	locked := make(chan error, 1)
	go func() {
		_, err := tx.Exec(context.Background(), "LOCK TABLE "+table(t, schema)+" IN ACCESS EXCLUSIVE MODE")
		locked <- err
	}()
	until(t, "a lock of the table", func() bool { return len(locked) == 1 || waiting(t, pool, schema) > before })
	release = sync.OnceFunc(func() {
		if err := <-locked; err != nil {
			t.Error(err)
		}
		_ = tx.Rollback(context.Background())
	})
	t.Cleanup(release)
	return release
}

// somebodyWaits waits until a session over the schema's table waits for a lock, or looks whether a
// row that somebody holds is free again.
func somebodyWaits(t testing.TB, pool *pgxpool.Pool, schema string) {
	t.Helper()
	until(t, "a session to wait for a row", func() bool {
		return scalar[bool](t, pool, `SELECT EXISTS (
			SELECT FROM pg_locks AS w JOIN pg_locks AS r USING (pid)
			WHERE NOT w.granted AND r.relation = $1::text::regclass
		) OR EXISTS (
			SELECT FROM pg_stat_activity
			WHERE state <> 'idle' AND query ~ 'brim:buckets.(lock|read|insert)' AND strpos(query, $2) > 0)`, table(t, schema), schema)
	})
}

// waiting returns how many statements over the schema's table wait for a lock.
func waiting(t testing.TB, pool *pgxpool.Pool, schema string) int {
	t.Helper()
	return scalar[int](t, pool, `SELECT count(DISTINCT w.pid) FROM pg_locks AS w JOIN pg_locks AS r USING (pid)
		WHERE NOT w.granted AND r.relation = $1::text::regclass`, table(t, schema))
}

// leakFree fails t if goroutines that start from here on are left when everything that t opened
// is closed.
func leakFree(t *testing.T) {
	t.Helper()
	pgtest.URL(t) // the goroutines of the shared server are not t's
	before := goleak.IgnoreCurrent()
	t.Cleanup(func() {
		pgtest.Disconnect()
		goleak.VerifyNone(t, before)
	})
}

// clean fails t if the store has left a connection of the pool acquired, in a transaction, or
// with settings that a new connection does not have.
func clean(t testing.TB, pool *pgxpool.Pool) {
	t.Helper()
	until(t, "all connections given back", func() bool { return pool.Stat().AcquiredConns() == 0 })
	fresh, err := pgx.ConnectConfig(t.Context(), pool.Config().ConnConfig)
	if err != nil {
		t.Fatal(err)
	}
	want := settings(t, fresh)
	if err := fresh.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, c := range pool.AcquireAllIdle(t.Context()) {
		if s := c.Conn().PgConn().TxStatus(); s != 'I' {
			t.Errorf("a connection was left in transaction status %c", s)
		}
		if got := settings(t, c.Conn()); !maps.Equal(got, want) {
			for name := range want {
				if got[name] != want[name] {
					t.Errorf("a connection was left with %s = %s, a new one has %s", name, got[name], want[name])
				}
			}
		}
		c.Release()
	}
}

func settings(t testing.TB, c *pgx.Conn) map[string]string {
	t.Helper()
	rows, err := c.Query(t.Context(), "SELECT name, setting FROM pg_settings")
	if err != nil {
		t.Fatal(err)
	}
	all := make(map[string]string)
	var name, value string
	if _, err := pgx.ForEachRow(rows, []any{&name, &value}, func() error { all[name] = value; return nil }); err != nil {
		t.Fatal(err)
	}
	return all
}

// wantError fails t unless err is the sentinel, contains the words, and does not contain the
// key.
func wantError(t testing.TB, err, sentinel error, words ...string) {
	t.Helper()
	if !errors.Is(err, sentinel) {
		t.Errorf("error is %v; want %v", err, sentinel)
		return
	}
	outcomes := 0
	for _, e := range []error{store.ErrUnavailable, store.ErrUnknownOutcome, store.ErrMisconfigured, store.ErrInvalidKey} {
		if errors.Is(err, e) {
			outcomes++
		}
	}
	if outcomes > 1 {
		t.Errorf("error has %d classes: %v", outcomes, err)
	}
	if e := (*store.Error)(nil); !errors.As(err, &e) || e.Backend != "postgres" {
		t.Errorf("error does not say that it is of this backend: %v", err)
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("error does not say %q: %v", w, err)
		}
	}
	if strings.Contains(fmt.Sprintf("%v %+v %#v", err, err, err), secret) || strings.Contains(err.Error(), secret) {
		t.Errorf("error shows the key: %v", err)
	}
}

// plainContext fails t unless err is the context's error and says nothing about an outcome.
func plainContext(t testing.TB, err, want error) {
	t.Helper()
	if !errors.Is(err, want) || errors.Is(err, store.ErrUnknownOutcome) || errors.Is(err, store.ErrUnavailable) || errors.Is(err, store.ErrMisconfigured) {
		t.Errorf("error is %v; want %v and nothing else, since nothing was sent", err, want)
	}
}

// records keeps the log lines of a store. Any number of goroutines may use it at once.
type records struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (r *records) Write(b []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.buf.Write(b)
}

func (r *records) logger() *slog.Logger { return slog.New(slog.NewTextHandler(r, nil)) }

// count returns how many lines contain word.
func (r *records) count(word string) (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for line := range strings.Lines(r.buf.String()) {
		if strings.Contains(line, word) {
			n++
		}
	}
	return n
}

// partition replaces the table of buckets by one with parts partitions, by the statements of
// docs/postgres.md, which show two.
func partition(t testing.TB, pool *pgxpool.Pool, schema string, parts int) {
	t.Helper()
	page, err := os.ReadFile("../docs/postgres.md")
	if err != nil {
		t.Fatal(err)
	}
	_, sql, _ := strings.Cut(string(page), "```sql\nBEGIN;\nALTER TABLE brim.buckets RENAME")
	sql, _, found := strings.Cut(sql, "```")
	begin, sql, first := strings.Cut(sql, "CREATE TABLE brim.buckets_0 ")
	one, sql, last := strings.Cut(sql, "CREATE TABLE brim.buckets_1 ")
	_, end, rest := strings.Cut(sql, ";")
	if !found || !first || !last || !rest {
		t.Fatal("docs/postgres.md does not show how to partition the table into two")
	}
	whole := "BEGIN;\nALTER TABLE brim.buckets RENAME" + begin
	for i := range parts {
		whole += "CREATE TABLE brim.buckets_" + strconv.Itoa(i) + " " + strings.NewReplacer(
			"MODULUS 2", fmt.Sprint("MODULUS ", parts), "REMAINDER 0", fmt.Sprint("REMAINDER ", i)).Replace(one)
	}
	execute(t, pool, strings.ReplaceAll(whole+end, "brim.buckets", schema+".buckets"))
}
