package postgres

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/brimgo/brim/internal/pgname"
	"github.com/brimgo/brim/internal/pgrun"
	"github.com/brimgo/brim/internal/pgtest"
)

// The servers that tests can start are new enough.
func TestCheckOfVersion(t *testing.T) {
	for number, name := range map[int]string{90624: "9.6.24", 130023: "13.23", 140000: "", 180001: ""} {
		k := &checker{}
		k.version(number, name)
		if len(k.Findings) != 0 != (name != "") || name != "" && !strings.Contains(k.Findings[0].Problem, "is 14") {
			t.Errorf("%d: %v", number, k.Findings)
		}
	}
}

// TestCheckOfConnection judges connection strings of one server and of several.
func TestCheckOfConnection(t *testing.T) {
	for _, c := range []struct{ url, want string }{
		{"postgres://db/app?sslmode=verify-full", ""},
		{"postgres://db/app?sslmode=require", ""},
		{"postgres://db/app", "warning sslmode"}, // prefer is the default
		{"postgres://db/app?sslmode=disable", "warning sslmode"},
		{"postgres://localhost,127.0.0.9/app?sslmode=disable&connect_timeout=3&target_session_attrs=read-write", ""},
		{"postgres://localhost,127.0.0.9/app?sslmode=disable&connect_timeout=3", "broken target_session_attrs: it is not set"},
		{"postgres:///app?host=/run/postgresql", ""},
		{"postgres://db1,db2/app?sslmode=require&target_session_attrs=primary", "broken connect_timeout: it is not set"},
		{"postgres://db1,db2/app?sslmode=require&connect_timeout=3&target_session_attrs=read-write", ""},
		{"postgres://db:1,db:2/app?sslmode=require&connect_timeout=10&target_session_attrs=read-write", "broken connect_timeout: it is 10s, more than a third"},
	} {
		config, err := pgx.ParseConfig(c.url)
		if err != nil {
			t.Fatal(err)
		}
		k := &checker{}
		k.connection(config, DefaultStatementTimeout)
		k.failover(config)
		got := ""
		for _, f := range k.Findings {
			got += fmt.Sprintf("%v %s: %s", f.Severity, f.Subject, f.Problem)
			if f.Subject == "connect_timeout" && !strings.Contains(f.Remedy, "`connect_timeout=3`") {
				t.Errorf("%s: remedy %q", c.url, f.Remedy)
			}
		}
		if !strings.HasPrefix(got, c.want) || (got == "") != (c.want == "") {
			t.Errorf("%s: %q; want %q", c.url, got, c.want)
		}
	}
}

// TestCheckOfClock judges clocks that are apart, and an answer that took long.
func TestCheckOfClock(t *testing.T) {
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		server, answer time.Duration // after the question
		want           string
	}{
		{5*time.Minute + time.Millisecond, 0, "broken clock: the server's clock is 5m0.001s ahead of"}, // beyond MaxSkew
		{5 * time.Minute, 0, "warning clock: the server's clock is 5m0s ahead of"},
		{0, 0, ""},
		{time.Second, time.Millisecond, ""},
		{-time.Second, time.Millisecond, ""},
		{time.Minute, 59 * time.Second, ""}, // no evidence
		{2 * time.Second, 0, "2s ahead of"},
		{-time.Hour, time.Second, "1h0m0s behind"},
	} {
		k := &checker{skew: 5 * time.Minute}
		k.clock(at, at.Add(c.server), at.Add(c.answer))
		got := ""
		for _, f := range k.Findings {
			got += fmt.Sprint(f.Severity, " ", f.Subject, ": ", f.Problem)
		}
		if (len(k.Findings) > 0) != (c.want != "") || !strings.Contains(got, c.want) {
			t.Errorf("%+v: %s", c, got)
		}
	}
}

// TestCheckWithoutAnswer asks over a connection that is closed. No step takes that for a finding.
func TestCheckWithoutAnswer(t *testing.T) {
	pool := pgtest.PoolAt(t, pgtest.With(t, "default_query_exec_mode=exec")) // with which no pooler matters
	conn, err := pgx.Connect(t.Context(), pgtest.URL(t))
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
	k := &checker{Check: pgrun.Check{Conn: conn, Names: names}}
	for name, step := range map[string]func(context.Context) error{
		"server": k.server, "table": k.table, "migrations": k.migrations, "rows": k.rows,
		"pooler": func(ctx context.Context) error { return k.pooler(ctx, pool) },
	} {
		if err := step(t.Context()); err == nil || len(k.Findings) > 0 {
			t.Errorf("%s: %v, %v; want an error and no finding", name, k.Findings, err)
		}
	}
}
