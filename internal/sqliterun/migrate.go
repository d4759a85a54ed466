package sqliterun

import (
	"context"
	"database/sql"
	"embed"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"
)

//go:embed migrations/*.sql
var migrationFiles embed.FS

// tables are the tables of all migrations, without the prefix.
// Those of the ledger follow the buckets.
var tables = []string{"buckets", "accounts", "entries", "requests", "holds", "rules"}

// Status is the state of the tables in a database.
type Status struct {
	Version int // the last applied migration; 0 if there is none
	Latest  int // the last migration that this program knows; below Version for newer tables
	// Missing are the tables that migrations have made and somebody has dropped.
	Missing []string
}

// migrations returns the texts of all migrations in their order.
func migrations(prefix string) (texts []string) {
	paths, _ := fs.Glob(migrationFiles, "migrations/*.sql") // embedded, as the files are
	for _, path := range paths {
		raw, _ := migrationFiles.ReadFile(path)
		texts = append(texts, named(string(raw), prefix))
	}
	return texts
}

// record notes the version that the tables have.
const record = `CREATE TABLE IF NOT EXISTS main."{{prefix}}migrations" (
    version INTEGER NOT NULL PRIMARY KEY, -- of the migration
    at      TEXT    NOT NULL              -- when it was applied, in UTC
) STRICT;
INSERT OR IGNORE INTO main."{{prefix}}migrations" (version, at) VALUES (%d, strftime('%%Y-%%m-%%d %%H:%%M:%%S', 'now'));
`

// Script returns all migrations as one script, which may run again.
func Script(prefix string) string {
	var script strings.Builder
	script.WriteString("BEGIN IMMEDIATE;\n")
	for i, text := range migrations(prefix) {
		script.WriteString(text)
		fmt.Fprintf(&script, named(record, prefix), i+1)
	}
	script.WriteString("COMMIT;\n")
	return script.String()
}

// StatusOf returns the state of the tables.
func StatusOf(ctx context.Context, db *sql.DB, prefix string) (s Status, err error) {
	s.Latest = len(migrations(prefix))
	rows, err := db.QueryContext(ctx, `SELECT name FROM main.sqlite_schema WHERE type = 'table' AND substr(name, 1, length(?1)) = ?1`, prefix)
	if err != nil {
		return s, err
	}
	defer func() { _ = rows.Close() }()
	var found []string
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			return s, err
		}
		found = append(found, strings.TrimPrefix(name, prefix))
	}
	if err := rows.Err(); err != nil {
		return s, err
	}
	if err := rows.Close(); err != nil { // the pool may have one connection
		return s, err
	}
	if !slices.Contains(found, "migrations") {
		return s, nil
	}
	err = db.QueryRowContext(ctx, named(`SELECT coalesce(max(version), 0) FROM main."{{prefix}}migrations"`, prefix)).Scan(&s.Version)
	for _, name := range tables {
		if s.Version > 0 && !slices.Contains(found, name) {
			s.Missing = append(s.Missing, prefix+name)
		}
	}
	return s, err
}

// Migrate brings the tables to the version of this program. It leaves newer tables alone. Several
// processes may migrate at once. A busy timeout of the connection counts beside lockTimeout.
func Migrate(ctx context.Context, db *sql.DB, prefix string, lockTimeout time.Duration) error {
	r := &Runner{database: &database{db: db}}
	bounded, cancel := context.WithTimeout(ctx, lockTimeout)
	defer cancel()
	return r.retry(bounded, func() error {
		s, err := StatusOf(ctx, db, prefix)
		if err != nil || s.Version >= s.Latest && len(s.Missing) == 0 {
			return err
		}
		if err := whole(ctx, db, prefix, s); err != nil {
			return err
		}
		return execute(ctx, db, Script(prefix))
	})
}

// whole returns an error if the ledger has lost one of its tables and has rows in another: empty
// answers beside them would let requests spend twice.
func whole(ctx context.Context, db *sql.DB, prefix string, s Status) error {
	ledger := tables[1:]
	lost := func(name string) bool { return slices.Contains(s.Missing, prefix+name) }
	if !slices.ContainsFunc(ledger, lost) {
		return nil
	}
	for _, name := range ledger {
		if lost(name) {
			continue
		}
		var rows bool
		if err := db.QueryRowContext(ctx, named(`SELECT EXISTS (SELECT 1 FROM main."{{prefix}}`+name+`")`, prefix)).Scan(&rows); err != nil {
			return err
		}
		if rows {
			return Misconfigured(nil, "the table %s is missing beside a ledger that has rows; restore the last backup of the database", s.Missing[0])
		}
	}
	return nil
}

// execute runs a script on one connection. Some drivers run a single statement at a time.
func execute(ctx context.Context, db *sql.DB, script string) error {
	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	ctx = context.WithoutCancel(ctx) // an interrupted statement could leave a part
	for statement := range strings.SplitSeq(script, ";\n") {
		if strings.TrimSpace(statement) == "" {
			continue
		}
		if _, err := conn.ExecContext(ctx, statement); err != nil {
			_, _ = conn.ExecContext(ctx, "ROLLBACK")
			return err
		}
	}
	return nil
}

// current returns an error if the tables are missing or older than this program needs.
func (d *database) current(ctx context.Context) error {
	s, err := StatusOf(ctx, d.db, d.Prefix)
	switch {
	case err != nil:
		return err
	case len(s.Missing) > 0:
		return Misconfigured(nil, "the table %s is missing; run sqlite.Migrate or \"brim migrate up\"", s.Missing[0])
	case s.Version < s.Latest:
		return Misconfigured(nil, "the tables have version %d and this program needs %d; run sqlite.Migrate or \"brim migrate up\"", s.Version, s.Latest)
	}
	return nil
}
