package drivers

import (
	"context"
	"database/sql"
	"net/url"
	"path/filepath"
	"testing"
	"time"

	"github.com/brimgo/brim/sqlite"
)

// Driver opens databases with one driver.
type Driver struct {
	// Name is that of database/sql.
	Name string
	// Import is the path of its package.
	Import string
	// Pragmas returns the parameters of a data source that set pragmas on each connection.
	Pragmas func(busy, synchronous string) string
	// Immediate tells that it begins transactions by BEGIN IMMEDIATE.
	Immediate bool
	// Other is the name of a second driver in the binary, or "".
	Other string
}

// open opens a database in WAL mode.
func (d Driver) open(path, busy, synchronous string) (*sql.DB, error) {
	name := (&url.URL{Scheme: "file", OmitHost: true, Path: path, RawQuery: d.Pragmas(busy, synchronous)}).String()
	db, err := sql.Open(d.Name, name)
	if err == nil {
		_, err = db.Exec("PRAGMA journal_mode = WAL")
	}
	return db, err
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// opened is a store with its database.
type opened struct {
	*sqlite.Store
	db   *sql.DB
	path string
}

// harness opens stores that do not wait for the disk, unless full is set.
type harness struct {
	Driver
	full bool // synchronous is FULL
	one  bool // the pool has one connection
}

func (h harness) database(t testing.TB, path string) *sql.DB {
	t.Helper()
	synchronous := "OFF"
	if h.full {
		synchronous = "FULL"
	}
	db, err := h.open(path, "5000", synchronous)
	must(t, err)
	t.Cleanup(func() { _ = db.Close() })
	if h.one {
		db.SetMaxOpenConns(1)
	}
	return db
}

func (h harness) over(t testing.TB, db *sql.DB, path string, clock func() time.Time) opened {
	t.Helper()
	s, err := sqlite.New(context.Background(), db, &sqlite.Options{Clock: clock, Relaxed: !h.full, PruneEvery: -1})
	must(t, err)
	return opened{s, db, path}
}

// store opens a store in a new database.
func (h harness) store(t testing.TB, clock func() time.Time) opened {
	t.Helper()
	path := filepath.Join(t.TempDir(), "app.db")
	return h.over(t, h.database(t, path), path, clock)
}

func TestMain(m *testing.M) { Main(m, driver) }

func BenchmarkDriver(b *testing.B) { Bench(b, driver) }

// TestDriver runs all tests over the driver of this binary.
func TestDriver(t *testing.T) {
	for _, test := range []struct {
		name string
		run  func(*testing.T, Driver)
	}{
		{"conformance", conformance},
		{"conformance with a pool of one", conformanceOfOne},
		{"conformance in transactions", conformanceWith},
		{"ledger", ledgerConformance},
		{"random requests", ledgerRandom},
		{"earlier versions", earlierVersions},
		{"every column", everyColumn},
		{"kills", kills},
		{"a log that vanishes", lostLog},
		{"two drivers", twoDrivers},
		{"an interrupted statement", interrupted},
		{"a pool of one", poolOfOne},
		{"waits", waits},
		{"answered", answered},
		{"a reader", reader},
		{"a snapshot", snapshot},
		{"check", checks},
		{"a first open", firstOpen},
		{"memory", inMemory},
		{"damage", damage},
		{"backup", backup},
		{"migrations", migrations},
		{"examples/ingest", ingest},
		{"examples/cardauth", cardauth},
	} {
		t.Run(test.name, func(t *testing.T) { test.run(t, driver) })
	}
}
