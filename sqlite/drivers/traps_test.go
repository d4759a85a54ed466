package drivers

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/brimgo/brim/spend"
	"github.com/brimgo/brim/spend/sqliteledger"
	"github.com/brimgo/brim/sqlite"
	"github.com/brimgo/brim/store"
)

func fill(key string) store.Op { return store.Op{Bucket: big.For(key), Amount: 1} }

// level returns the level of a bucket, or -1 with an error.
func level(t testing.TB, s store.Store, key string) float64 {
	t.Helper()
	states, err := s.Read(context.Background(), big.For(key))
	must(t, err)
	return states[0].Level
}

// lostLog removes the log and its index of a database that is in use, as the sqlite3 of Debian 12
// does when it closes the database after another process has opened and closed the file by other
// means, which ends POSIX locks. No fill may be acknowledged that is lost.
func lostLog(t *testing.T, d Driver) {
	o := harness{Driver: d, full: true}.store(t, nil)
	l, err := sqliteledger.New(t.Context(), o.Store, nil)
	must(t, err)
	b, err := spend.New(t.Context(), l, budget(), nil)
	must(t, err)
	for range 10 {
		_, err := o.Fill(t.Context(), fill("a"))
		must(t, err)
	}
	if got := d.elsewhere(t, o.path); got != 10 {
		t.Errorf("another process finds %v units, and 10 were acknowledged", got)
	}
	_, err = o.Fill(t.Context(), fill("a"))
	must(t, err)
	d.elsewhere(t, o.path) // it makes a checkpoint
	must(t, errors.Join(os.Remove(o.path+"-wal"), os.Remove(o.path+"-shm")))
	if _, err := o.Fill(t.Context(), fill("a")); !errors.Is(err, store.ErrUnknownOutcome) {
		t.Errorf("the commit into a removed log: %v", err)
	}
	_, filled := o.Fill(t.Context(), fill("a"))
	_, read := o.Read(t.Context(), big.For("a"))
	_, charged := b.Charge(t.Context(), spend.Request{ID: "1", Account: "a", Amount: money(1)})
	for _, err := range []error{filled, read, charged} {
		if !errors.Is(err, store.ErrMisconfigured) {
			t.Errorf("afterwards: %v", err)
		}
	}
	if got := d.elsewhere(t, o.path); got != 11 {
		t.Errorf("another process finds %v units, and 11 were acknowledged", got)
	}
}

// elsewhere returns the level of the bucket "a" that another process finds, which closes the
// database.
func (d Driver) elsewhere(t *testing.T, path string) (level float64) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), looker+"="+path)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	must(t, scan(bytes.TrimSpace(out), &level))
	return level
}

// twoDrivers opens one file with another driver, which is refused, since it would damage the file.
func twoDrivers(t *testing.T, d Driver) {
	if d.Other == "" {
		t.Skip("the binaries of the other drivers have this one as their second")
	}
	o := harness{Driver: d}.store(t, nil)
	db, err := sql.Open(d.Other, "file:"+o.path)
	must(t, err)
	defer func() { must(t, db.Close()) }()
	_, err = sqlite.New(t.Context(), db, nil)
	if !errors.Is(err, store.ErrMisconfigured) || !strings.Contains(err.Error(), "use one driver") {
		t.Errorf("a second driver for the file: %v", err)
	}
	_, err = o.Fill(t.Context(), fill("a"))
	must(t, err)
	again, err := sqlite.New(t.Context(), harness{Driver: d}.database(t, o.path), nil)
	must(t, err)
	must(t, again.Close())
}

// interrupted ends contexts of calls in transactions. A row of the application and the fill that it
// pays for are there both or neither.
func interrupted(t *testing.T, d Driver) {
	o := harness{Driver: d}.store(t, nil)
	_, err := o.db.Exec(`CREATE TABLE rows (n INTEGER)`)
	must(t, err)
	failed := 0
	for i := range 200 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i)*time.Microsecond)
		tx, err := o.db.Begin()
		must(t, err)
		_, err = tx.Exec(`INSERT INTO rows VALUES (1)`)
		must(t, err)
		if _, err = o.With(tx).Fill(ctx, fill("a")); err == nil {
			err = tx.Commit()
		} else {
			failed++
			must(t, tx.Rollback())
		}
		if cancel(); err != nil && !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
	}
	var n float64
	must(t, o.db.QueryRow(`SELECT count(*) FROM rows`).Scan(&n))
	if got := level(t, o, "a"); got != n || failed == 0 || failed == 200 {
		t.Errorf("%v rows and %v units; %d of 200 calls had no time", n, got, failed)
	}
}

// poolOfOne calls the store while the application holds the only connection. The error tells the
// way out.
func poolOfOne(t *testing.T, d Driver) {
	h := harness{Driver: d, one: true}
	db := h.database(t, filepath.Join(t.TempDir(), "app.db"))
	s, err := sqlite.New(t.Context(), db, &sqlite.Options{LockTimeout: 200 * time.Millisecond, PruneEvery: -1})
	must(t, err)
	defer func() { must(t, s.Close()) }()
	tx, err := db.Begin()
	must(t, err)
	for name, call := range map[string]func() error{
		"a fill": func() error { _, err := s.Fill(context.Background(), fill("a")); return err },
		"a read": func() error { _, err := s.Read(context.Background(), big.For("a")); return err },
	} {
		if err := call(); !errors.Is(err, store.ErrUnavailable) || !strings.Contains(err.Error(), "call With") {
			t.Errorf("%s while the application holds the connection: %v", name, err)
		}
	}
	_, err = s.With(tx).Fill(t.Context(), fill("a"))
	must(t, err)
	must(t, tx.Rollback())
	_, err = s.Fill(t.Context(), fill("a"))
	must(t, err)
	if got := level(t, s, "a"); got != 1 {
		t.Errorf("level %v", got)
	}
	var timeout, synchronous int
	must(t, db.QueryRow(`SELECT (SELECT timeout FROM pragma_busy_timeout), (SELECT synchronous FROM pragma_synchronous)`).Scan(&timeout, &synchronous))
	if timeout != 5000 || synchronous != 0 {
		t.Errorf("the connection came back with busy_timeout %d and synchronous %d; it had 5000 and 0", timeout, synchronous)
	}
}

// waits bounds the wait for the lock by the context of the caller and by LockTimeout, whatever the
// busy timeout of the connections.
func waits(t *testing.T, d Driver) {
	path := filepath.Join(t.TempDir(), "app.db")
	db, err := d.open(path, "20000", "OFF")
	must(t, err)
	defer func() { _ = db.Close() }()
	s, err := sqlite.New(t.Context(), db, &sqlite.Options{LockTimeout: 500 * time.Millisecond, PruneEvery: -1})
	must(t, err)
	defer func() { must(t, s.Close()) }()
	holder, err := harness{Driver: d}.database(t, path).Conn(t.Context())
	must(t, err)
	_, err = holder.ExecContext(t.Context(), "BEGIN IMMEDIATE")
	must(t, err)
	for _, c := range []struct {
		wait time.Duration
		want error
	}{{50 * time.Millisecond, context.DeadlineExceeded}, {time.Hour, store.ErrUnavailable}} {
		ctx, cancel := context.WithTimeout(t.Context(), c.wait)
		began := time.Now()
		_, err := s.Fill(ctx, fill("a"))
		if took := time.Since(began); !errors.Is(err, c.want) || took > 10*time.Second {
			t.Errorf("with a context of %v: %v after %v", c.wait, err, took)
		}
		cancel()
	}
	_, err = s.Read(t.Context(), big.For("a")) // readers do not wait
	must(t, err)
	_, err = holder.ExecContext(t.Context(), "ROLLBACK")
	must(t, errors.Join(err, holder.Close()))
	_, err = s.Fill(t.Context(), fill("a"))
	must(t, err)
	if got := level(t, s, "a"); got != 1 {
		t.Errorf("afterwards the level is %v; calls that failed were applied", got)
	}
}

// answered has a connection that waits for no lock write as soon as a refusal is answered, which
// commits nothing.
func answered(t *testing.T, d Driver) {
	path := filepath.Join(t.TempDir(), "app.db")
	other, err := harness{Driver: d}.database(t, path).Conn(t.Context())
	must(t, err)
	_, err = other.ExecContext(t.Context(), "PRAGMA busy_timeout = 0")
	must(t, err)
	locked := errors.New("no flush")
	db, err := d.open(path, "5000", "OFF")
	must(t, err)
	s, err := sqlite.New(t.Context(), db, &sqlite.Options{Relaxed: true, PruneEvery: -1, Trace: store.Trace{
		Flush: func(store.Flush) {
			if _, locked = other.ExecContext(t.Context(), "BEGIN IMMEDIATE"); locked == nil {
				_, locked = other.ExecContext(t.Context(), "ROLLBACK")
			}
		},
	}})
	must(t, err)
	op := fill("a")
	op.Amount = 2 * op.Bucket.Capacity
	if st, err := s.Fill(t.Context(), op); err != nil || st.Accepted {
		t.Errorf("%+v, %v; want a refusal", st, err)
	}
	must(t, errors.Join(s.Close(), db.Close(), other.Close()))
	if locked != nil {
		t.Errorf("a writer after the answer: %v", locked)
	}
}

// reader has a transaction read while a store with a rollback journal commits, which waits for it.
func reader(t *testing.T, d Driver) {
	path := filepath.Join(t.TempDir(), "app.db")
	db, err := d.open(path, "5000", "OFF")
	must(t, err)
	defer func() { _ = db.Close() }()
	_, err = db.Exec("PRAGMA journal_mode = DELETE")
	must(t, err)
	retried := make(chan struct{}, 1000)
	s, err := sqlite.New(t.Context(), db, &sqlite.Options{Relaxed: true, PruneEvery: -1, Trace: store.Trace{
		Retry: func(store.Retry) {
			select {
			case retried <- struct{}{}:
			default:
			}
		},
	}})
	must(t, err)
	defer func() { must(t, s.Close()) }()
	tx, err := db.Begin()
	must(t, err)
	var n int
	must(t, tx.QueryRow("SELECT count(*) FROM brim_buckets").Scan(&n))
	filled := make(chan error)
	go func() {
		_, err := s.Fill(context.WithoutCancel(t.Context()), fill("a"))
		filled <- err
	}()
	select {
	case <-retried:
	case err := <-filled:
		t.Fatalf("beside a reader: %v; want a wait", err)
	}
	must(t, tx.Rollback())
	must(t, <-filled)
	if got := level(t, s, "a"); got != 1 {
		t.Errorf("the level is %v, want 1", got)
	}
}

// snapshot has a transaction read, and another connection write. The transaction cannot write any
// more, and is told so at once. A driver that begins by BEGIN IMMEDIATE makes the other one wait
// instead.
func snapshot(t *testing.T, d Driver) {
	h := harness{Driver: d}
	path := filepath.Join(t.TempDir(), "app.db")
	db := h.database(t, path)
	s, err := sqlite.New(t.Context(), db, &sqlite.Options{LockTimeout: 300 * time.Millisecond, PruneEvery: -1})
	must(t, err)
	defer func() { must(t, s.Close()) }()
	tx, err := db.Begin()
	must(t, err)
	var n int
	must(t, tx.QueryRow(`SELECT count(*) FROM brim_buckets`).Scan(&n))
	_, other := s.Fill(t.Context(), fill("a"))
	began := time.Now()
	_, err = s.With(tx).Fill(t.Context(), fill("a"))
	switch {
	case d.Immediate && (!errors.Is(other, store.ErrUnavailable) || err != nil):
		t.Errorf("beside a transaction with the lock: %v; in it: %v", other, err)
	case !d.Immediate && (other != nil || !errors.Is(err, store.ErrUnavailable) || !strings.Contains(err.Error(), "BEGIN IMMEDIATE")):
		t.Errorf("beside a transaction that has read: %v; in it: %v", other, err)
	case time.Since(began) > 2*time.Second:
		t.Errorf("the answer took %v", time.Since(began))
	}
	must(t, tx.Rollback())
}
