package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/brimgo/brim/internal/pgname"
	"github.com/brimgo/brim/internal/pgtest"
)

// The servers that tests can start are new enough.
func TestCheckOfVersion(t *testing.T) {
	for number, name := range map[int]string{90624: "9.6.24", 130023: "13.23", 140000: "", 180001: ""} {
		k := &checker{}
		k.version(number, name)
		if len(k.findings) != 0 != (name != "") || name != "" && !strings.Contains(k.findings[0].Problem, "is 14") {
			t.Errorf("%d: %v", number, k.findings)
		}
	}
}

// TestCheckOfHosts judges connection strings of one server and of several.
func TestCheckOfHosts(t *testing.T) {
	for _, c := range []struct{ url, want string }{
		{"postgres://db/app", ""},
		{"postgres://db/app?sslmode=prefer", ""}, // tries one server twice
		{"postgres://db1,db2/app", "it is not set"},
		{"postgres://db1,db2/app?connect_timeout=3", ""},
		{"postgres://db:1,db:2/app?connect_timeout=10", "it is 10s, more than a third"},
	} {
		config, err := pgx.ParseConfig(c.url)
		if err != nil {
			t.Fatal(err)
		}
		k := &checker{}
		k.hosts(config, DefaultStatementTimeout)
		switch {
		case c.want == "" && len(k.findings) == 0:
		case len(k.findings) != 1 || !strings.Contains(k.findings[0].Problem, c.want) ||
			!strings.Contains(k.findings[0].Remedy, "connect_timeout=3 "):
			t.Errorf("%s: %+v; want %q", c.url, k.findings, c.want)
		}
	}
}

// TestCheckOfEachSetting judges settings that a test cannot change without a server of its own, and
// those of a session.
func TestCheckOfEachSetting(t *testing.T) {
	sound := settings{synchronousCommit: "on", fsync: "on", fullPageWrites: "on", readOnly: "off", autovacuum: "on"}
	for _, c := range []struct {
		why    string
		change func(*settings)
		want   string // severity and subject
	}{
		{"all is well", func(*settings) {}, ""},
		{"a crash loses fills", func(s *settings) { s.synchronousCommit = "off" }, "broken synchronous_commit"},
		{"nobody replicates", func(s *settings) { s.synchronousCommit = "local" }, ""},
		{"somebody replicates", func(s *settings) { s.standbyNames = "other" }, ""},
		{
			"a fail-over loses fills", func(s *settings) { s.synchronousCommit, s.standbyNames = "local", "other" },
			"warning synchronous_commit",
		},
		{"a crash of the machine damages files", func(s *settings) { s.fsync = "off" }, "broken fsync"},
		{"a crash of the machine damages pages", func(s *settings) { s.fullPageWrites = "off" }, "broken full_page_writes"},
		{"no fill can work", func(s *settings) { s.readOnly = "on" }, "broken default_transaction_read_only"},
		{"dead rows stay", func(s *settings) { s.autovacuum = "off" }, "warning autovacuum"},
		{"a replica is read-only anyway", func(s *settings) { s.replica, s.readOnly = true, "on" }, "broken role"},
	} {
		s, k := sound, &checker{}
		c.change(&s)
		k.settings(s)
		got := ""
		if len(k.findings) > 0 {
			got = fmt.Sprint(k.findings[0].Severity, " ", k.findings[0].Subject)
		}
		if got != c.want || len(k.findings) > 1 {
			t.Errorf("%s: %+v; want %q", c.why, k.findings, c.want)
		}
	}
}

// TestCheckWithoutAnswer asks over a connection that is closed. No step takes that for a finding.
func TestCheckWithoutAnswer(t *testing.T) {
	config := pgtest.Pool(t).Config()
	config.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeExec // with which no pooler matters
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	conn, err := pgx.ConnectConfig(t.Context(), config.ConnConfig)
	if err != nil {
		t.Fatal(err)
	}
	if err := conn.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	names, err := pgname.New("", "")
	if err != nil {
		t.Fatal(err)
	}
	k := &checker{conn: conn, names: names}
	for name, step := range map[string]func(context.Context) error{
		"server": k.server, "table": k.table, "migrations": k.migrations,
		"pooler": func(ctx context.Context) error { return k.pooler(ctx, pool) },
	} {
		if err := step(t.Context()); err == nil || len(k.findings) > 0 {
			t.Errorf("%s: %v, %v; want an error and no finding", name, k.findings, err)
		}
	}
}

// TestForgets: an error about a prepared statement is the pooler's, and another is the check's.
func TestForgets(t *testing.T) {
	other := errors.New("the connection is gone")
	for _, c := range []struct {
		why   string
		err   error
		found bool
		fails bool
	}{
		{"the statement was prepared in another session", &pgconn.PgError{Code: "26000"}, true, false},
		{"another client has prepared one of this name", &pgconn.PgError{Code: "42P05"}, true, false},
		{"the server refuses the question for another reason", &pgconn.PgError{Code: "42501"}, false, true},
		{"the server gave no answer", other, false, true},
		{"the session kept the statement", nil, false, false},
	} {
		k := &checker{}
		if err := k.forgets(c.err); (err != nil) != c.fails || len(k.findings) == 1 != c.found {
			t.Errorf("%s: %v, %v; want a finding: %v, an error: %v", c.why, k.findings, err, c.found, c.fails)
		}
	}
}
