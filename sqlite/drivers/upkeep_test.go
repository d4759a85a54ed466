package drivers

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/brimgo/brim/sqlite"
	"github.com/brimgo/brim/store"
	"github.com/brimgo/brim/stores"
)

// scan reads a number from the output of a process.
func scan(text []byte, to *float64) error {
	_, err := fmt.Sscan(string(text), to)
	return err
}

// subjects returns the findings of a check.
func subjects(t testing.TB, s *sqlite.Store) (list []string) {
	t.Helper()
	found, err := s.Check(context.Background())
	must(t, err)
	for _, f := range found {
		if !strings.HasPrefix(f.Subject, "SQLite") && f.Subject != "file system" && f.Subject != "free space" {
			list = append(list, f.Severity.String()+" "+f.Subject)
		}
	}
	return list
}

// checks breaks the promises of a store, each in its way, and has Check find it.
func checks(t *testing.T, d Driver) {
	sound := harness{Driver: d, full: true}.store(t, nil)
	if got := subjects(t, sound.Store); len(got) > 0 {
		t.Errorf("a sound store: %v", got)
	}
	o := harness{Driver: d}.store(t, nil)
	if got := subjects(t, o.Store); !slices.Equal(got, []string{"broken synchronous"}) {
		t.Errorf("with synchronous OFF: %v", got)
	}

	// A reader that stays keeps checkpoints from resetting the log.
	_, err := sound.db.Exec(`CREATE TABLE rows (n BLOB)`)
	must(t, err)
	_, err = sound.Fill(t.Context(), fill("a"))
	must(t, err)
	rows, err := sound.db.Query(`SELECT key FROM brim_buckets`)
	must(t, err)
	defer func() { _ = rows.Close() }()
	rows.Next()
	for range 10 {
		_, err := sound.db.Exec(`INSERT INTO rows VALUES (zeroblob(8000000))`)
		must(t, err)
	}
	if got := subjects(t, sound.Store); !slices.Equal(got, []string{"warning log"}) {
		t.Errorf("with a large log: %v", got)
	}
	must(t, errors.Join(rows.Err(), rows.Close()))

	_, err = o.db.Exec(`DROP TABLE brim_buckets`)
	must(t, err)
	if _, err := o.Check(t.Context()); !errors.Is(err, store.ErrMisconfigured) {
		if got := subjects(t, o.Store); !slices.Contains(got, "broken decision") {
			t.Errorf("without the table: %v, %v", got, err)
		}
	}
}

// firstOpen opens a new database while another connection has its write lock. SQLite does not wait
// where a connection that reads wants to write.
func firstOpen(t *testing.T, d Driver) {
	path := filepath.Join(t.TempDir(), "app.db")
	db, err := sql.Open(d.Name, "file:"+filepath.ToSlash(path))
	must(t, err)
	defer func() { _ = db.Close() }()
	conn, err := db.Conn(t.Context())
	must(t, err)
	_, err = conn.ExecContext(t.Context(), "BEGIN IMMEDIATE")
	must(t, err)
	ended := make(chan error)
	time.AfterFunc(50*time.Millisecond, func() {
		_, err := conn.ExecContext(context.Background(), "ROLLBACK")
		ended <- errors.Join(err, conn.Close())
	})
	s, err := stores.Open(t.Context(), "sqlite:"+path, nil)
	must(t, errors.Join(err, <-ended))
	_, err = s.Fill(t.Context(), fill("a"))
	must(t, errors.Join(err, s.Close()))
}

// inMemory refuses a database in memory of which each connection has its own.
func inMemory(t *testing.T, d Driver) {
	db, err := d.open(":memory:", "0", "OFF")
	if err != nil {
		t.Skip("the driver opens no database in memory by this name") // file::memory: is that of SQLite
	}
	defer func() { _ = db.Close() }()
	if _, err := sqlite.New(t.Context(), db, nil); !errors.Is(err, store.ErrMisconfigured) || !strings.Contains(err.Error(), "memory") {
		t.Errorf("with a pool of many: %v", err)
	}
	db.SetMaxOpenConns(1)
	s, err := sqlite.New(t.Context(), db, &sqlite.Options{PruneEvery: -1})
	must(t, err)
	_, err = s.Fill(t.Context(), fill("a"))
	must(t, errors.Join(err, s.Close()))
}

// damage damages the row of a bucket. Only calls for this bucket fail, also in one flush with
// others.
func damage(t *testing.T, d Driver) {
	o := harness{Driver: d}.store(t, nil)
	for _, key := range []string{"a", "b", "c"} {
		_, err := o.Fill(t.Context(), fill(key))
		must(t, err)
	}
	for _, set := range []string{"level = -1", "capacity = 1e300", "level = 9e999", "time_us = -9223372036854775808", "blocked_us = 9223372036854775807"} {
		_, err := o.db.Exec(`UPDATE brim_buckets SET ` + set + ` WHERE key = 'b'`)
		must(t, err)
		var wg sync.WaitGroup
		for i := range 30 {
			key := string(rune('a' + i%3))
			wg.Go(func() {
				if _, err := o.Fill(context.Background(), fill(key)); errors.Is(err, store.ErrCorrupt) != (key == "b") {
					t.Errorf("%s: bucket %s: %v", set, key, err)
				}
			})
		}
		wg.Wait()
		var visited []string
		err = o.Visit(t.Context(), "", func(e store.Entry) bool { visited = append(visited, e.Key); return true })
		if !errors.Is(err, store.ErrCorrupt) || !slices.Equal(visited, []string{"a", "c"}) {
			t.Errorf("%s: visited %v, %v", set, visited, err)
		}
		if n, err := o.Prune(t.Context()); n != 0 || err != nil {
			t.Errorf("%s: pruned %d, %v", set, n, err)
		}
		must(t, o.Delete(t.Context(), "b"))
		_, err = o.Fill(t.Context(), fill("b"))
		must(t, err)
	}
}

// backup copies a database, and finds its buckets in the copy.
func backup(t *testing.T, d Driver) {
	h := harness{Driver: d}
	o := h.store(t, nil)
	_, err := o.Fill(t.Context(), fill("a"))
	must(t, err)
	path := filepath.Join(t.TempDir(), "copy ' of.db")
	must(t, o.Backup(t.Context(), path))
	if err := o.Backup(t.Context(), path); !errors.Is(err, fs.ErrExist) {
		t.Errorf("over the copy: %v", err)
	}
	left, err := filepath.Glob(filepath.Join(filepath.Dir(path), "*"))
	must(t, err)
	if len(left) != 1 {
		t.Errorf("beside the copy are %v", left)
	}
	c := h.over(t, h.database(t, path), path, nil)
	defer func() { must(t, c.Close()) }()
	if got := level(t, c, "a"); got != 1 {
		t.Errorf("the copy has %v units", got)
	}
}

// migrations brings tables of each state to the newest version.
func migrations(t *testing.T, d Driver) {
	db := harness{Driver: d}.database(t, filepath.Join(t.TempDir(), "app.db"))
	o := &sqlite.Options{Prefix: `odd " $_`, NoMigrate: true, PruneEvery: -1}
	status := func() sqlite.Status {
		st, err := sqlite.CurrentStatus(t.Context(), db, o)
		must(t, err)
		return st
	}
	if st := status(); st.Version != 0 || st.Latest != 2 {
		t.Errorf("an empty database: %+v", st)
	}
	refused := func(state string) {
		if _, err := sqlite.New(t.Context(), db, o); !errors.Is(err, store.ErrMisconfigured) || !strings.Contains(err.Error(), "brim migrate up") {
			t.Errorf("%s: New without migrations: %v", state, err)
		}
	}
	refused("an empty database")
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			if err := sqlite.Migrate(context.Background(), db, o); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	s, err := sqlite.New(t.Context(), db, o)
	must(t, err)
	_, err = s.Fill(t.Context(), fill("a"))
	must(t, errors.Join(err, s.Close()))
	_, err = db.Exec(`DROP TABLE "odd "" $_holds"`)
	must(t, err)
	if st := status(); st.Version != 2 || len(st.Missing) != 1 {
		t.Errorf("without a table: %+v", st)
	}
	refused("without a table")
	_, err = db.Exec(`INSERT INTO "odd "" $_rules" VALUES ('b', 1, 0, 0, 0, '', '', x'', '')`)
	must(t, err)
	if err := sqlite.Migrate(t.Context(), db, o); !errors.Is(err, store.ErrMisconfigured) || !strings.Contains(err.Error(), "backup") {
		t.Errorf("a ledger with rows has lost a table: %v", err)
	}
	_, err = db.Exec(`DELETE FROM "odd "" $_rules"`)
	must(t, err)
	_, err = db.Exec(`INSERT INTO "odd "" $_migrations" VALUES (3, '')`)
	must(t, err)
	must(t, sqlite.Migrate(t.Context(), db, o))
	if st := status(); st.Version != 3 || st.Latest != 2 || len(st.Missing) > 0 {
		t.Errorf("newer tables: %+v", st)
	}
	s, err = sqlite.New(t.Context(), db, o)
	must(t, err)
	must(t, s.Close())
}
