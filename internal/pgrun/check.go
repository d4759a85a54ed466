package pgrun

import (
	"context"
	_ "embed" // for the statement
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/brimgo/brim/internal/pgname"
	"github.com/brimgo/brim/internal/trial"
	"github.com/brimgo/brim/store"
)

// Check collects the findings of a check of a store or a ledger on one connection.
//
// A command stands between backquotes in a remedy. The tests run it.
type Check struct {
	Conn     *pgx.Conn
	Names    pgname.Names
	User     string // quoted; Table sets it
	Findings []store.Finding

	secured   []string // tables with row security for this user, quoted
	triggered []string // tables with triggers, quoted
}

// Add adds a finding.
func (k *Check) Add(severity store.Severity, subject, problem, remedy string) {
	k.Findings = append(k.Findings, store.Finding{Severity: severity, Subject: subject, Problem: problem, Remedy: remedy})
}

// Unfit adds the finding of a connection or a server on which decisions would be wrong, and reports
// whether err tells of one.
func (k *Check) Unfit(err error) bool {
	var unfit *Unfit
	if errors.As(err, &unfit) {
		k.Add(store.Broken, unfit.Subject, unfit.Problem, unfit.Remedy)
	}
	return unfit != nil
}

// Plain keeps the questions of a check from being prepared, so that they work through any pooler.
const Plain = pgx.QueryExecModeExec

// Migrate is the remedy for tables that are missing.
const Migrate = "run `brim migrate up`, or migrations.Up"

//go:embed check_table.sql
var checkTableFile string

// Table is the state of a table.
type Table struct {
	Name              string // quoted, with its schema
	Missing           bool
	Denied            bool // the user has no right on it
	Unvacuumed        bool
	Live, Dead, Bytes int64
	Due               int64 // dead rows at which autovacuum comes
}

// Table judges whether a table exists, survives a crash of the server, has its keys, and lets the
// user do all that rights names; see check_table.sql. keys are lists of columns, the first of which
// is the primary key. Table returns false if no decision can work on the table.
func (k *Check) Table(ctx context.Context, name string, rights []string, keys ...string) (t Table, usable bool, err error) {
	t.Name = pgname.Quote(k.Names.Schema()) + "." + pgname.Quote(name)
	var unlogged *string
	var usage, secured, distributed, triggered bool
	var allowed []bool
	var keyless []string
	err = k.Conn.QueryRow(ctx, k.Names.Statement("check_table", checkTableFile, nil), Plain, rights, name, keys).
		Scan(&k.User, &unlogged, &usage, &allowed, &secured, &distributed, &t.Unvacuumed, &t.Live, &t.Dead, &t.Bytes, &t.Due,
			&keyless, &triggered)
	if errors.Is(err, pgx.ErrNoRows) {
		t.Missing = true
		k.Add(store.Broken, "table", fmt.Sprintf("there is no table %s", t.Name), Migrate)
		return t, false, nil
	}
	if err != nil {
		return t, false, err
	}
	if unlogged != nil {
		k.Add(store.Broken, "table", *unlogged+" is UNLOGGED: a crash of the server empties it", "`ALTER TABLE "+*unlogged+" SET LOGGED`")
	}
	if distributed {
		k.Add(store.Broken, "Citus", t.Name+" is distributed: Citus loses updates when it moves a shard", "undistribute_table, of Citus")
	}
	for _, columns := range keyless {
		kind := "UNIQUE"
		if columns == keys[0] {
			kind = "PRIMARY KEY"
		}
		k.Add(store.Broken, "key", fmt.Sprintf("%s has no unique index on %s, without which no decision works", t.Name, columns),
			fmt.Sprintf("`ALTER TABLE %s ADD %s (%s)`", t.Name, kind, columns))
	}
	if triggered {
		k.triggered = append(k.triggered, t.Name)
	}
	if secured {
		k.secured = append(k.secured, t.Name)
	}
	t.Denied = !slices.Contains(allowed, true)
	var lacking, remedies []string
	for i, ok := range allowed {
		if !ok {
			right, column, _ := strings.Cut(rights[i], " ")
			if column != "" {
				right += " (" + column + ")"
			}
			lacking = append(lacking, right)
		}
	}
	if len(lacking) > 0 {
		remedies = append(remedies, fmt.Sprintf("`GRANT %s ON %s TO %s`", strings.Join(lacking, ", "), t.Name, k.User))
	}
	if !usage {
		lacking = append(lacking, "USAGE on its schema")
		remedies = append(remedies, fmt.Sprintf("`GRANT USAGE ON SCHEMA %s TO %s`", pgname.Quote(k.Names.Schema()), k.User))
	}
	if len(lacking) > 0 {
		k.Add(store.Broken, "rights", fmt.Sprintf("the user %s lacks on %s: %s", k.User, t.Name, strings.Join(lacking, ", ")),
			strings.Join(remedies, " and "))
	}
	return t, len(lacking) == 0 && !distributed && len(keyless) == 0, nil
}

// Identity is the remedy for a sequence that is behind the ids of accounts, as logical replication
// leaves it.
func (k *Check) Identity() string {
	accounts := pgname.Quote(k.Names.Schema()) + "." + pgname.Quote(k.Names.Table()+accounts)
	return fmt.Sprintf("`SELECT setval(pg_get_serial_sequence(%s, 'id'), max(id)) FROM %s`", pgname.Literal(accounts), accounts)
}

// Try calls f, which makes decisions in a transaction that is then rolled back, and adds a
// finding if they fail.
func (k *Check) Try(ctx context.Context, f func(pgx.Tx) error) error {
	return k.Tried(Try(ctx, k.Conn, f))
}

// Try calls f, which makes decisions in a transaction that is then rolled back.
func Try(ctx context.Context, conn *pgx.Conn, f func(pgx.Tx) error) error {
	tx, err := conn.BeginTx(ctx, pgx.TxOptions{BeginQuery: begin})
	if err == nil {
		err = f(tx)
		_ = tx.Rollback(ctx) // the server rolls back what it gets no answer for
	}
	return err
}

// TrySecured is Try for a user to whom row security applies. Policies that hide rows make decisions
// wrong.
func TrySecured(ctx context.Context, conn *pgx.Conn, f func(pgx.Tx) error) error {
	err := Try(ctx, conn, f)
	var failure *trial.Failure
	if errors.As(err, &failure) && failure.Err == nil {
		return fmt.Errorf("%w: %w; the policies of row security hide rows from this user: disable row security, or give the role BYPASSRLS",
			store.ErrMisconfigured, err)
	}
	return err
}

// Tried adds a finding for the error of a decision that a check has tried. It returns the error of
// a server that gave no answer.
func (k *Check) Tried(err error) error {
	var pg *pgconn.PgError
	var failure *trial.Failure
	tried := errors.As(err, &failure)
	answered := errors.As(err, &pg)
	switch {
	case err == nil:
		return nil
	case !answered && (!tried || failure.Err != nil && !errors.Is(failure.Err, store.ErrCorrupt) && !errors.Is(failure.Err, store.ErrMisconfigured)):
		return err // other answers make no sense, whether the store has noticed that or the trial
	}
	var problem, code string
	if answered {
		code = pg.Code
	}
	switch {
	case tried && !answered:
		problem = failure.Error()
	case tried:
		problem = fmt.Sprintf("%s failed: %s (SQLSTATE %s)", failure.Step, pg.Message, pg.Code)
	default:
		problem = fmt.Sprintf("a transaction failed: %s (SQLSTATE %s)", pg.Message, pg.Code)
	}
	subject, remedy := "decision", ""
	if answered {
		remedy = reading(pg).advice
	}
	switch {
	case len(k.secured) > 0 && (!answered || code == "42501"):
		subject, problem = "row security", problem+"; the policies of the table decide which buckets this user may see"
		remedy = "`ALTER TABLE " + strings.Join(k.secured, " DISABLE ROW LEVEL SECURITY`, `ALTER TABLE ") + " DISABLE ROW LEVEL SECURITY`, " +
			"or give the role BYPASSRLS"
	case len(k.triggered) > 0 && (!answered || strings.HasPrefix(code, "P0")):
		subject, problem = "triggers", problem+"; triggers that somebody has made change what decisions write"
		remedy = "`ALTER TABLE " + strings.Join(k.triggered, " DISABLE TRIGGER USER`, `ALTER TABLE ") + " DISABLE TRIGGER USER`"
	case answered && isIdentity(pg):
		subject, remedy = "identity", k.Identity()
	case code == "26000" || code == "42P05" || code == "08P01":
		subject = "pooler"
	case code == "25006":
		subject = "read-only"
	case code == "42P01" || code == "3F000":
		subject, remedy = "table", Migrate
	case code == "42703":
		subject, remedy = "table", "it is not that of this brim: bring it back from the last pg_dump, or choose another name with "+
			"Options.Schema and Options.Table"
	case code == "42501":
		subject = "rights"
	}
	if remedy == "" {
		remedy = "see the log of the server"
	}
	k.Add(store.Broken, subject, problem, remedy)
	return nil
}
