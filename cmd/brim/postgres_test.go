package main

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/brimgo/brim/internal/pgname"
	"github.com/brimgo/brim/internal/pgtest"
	"github.com/brimgo/brim/internal/redistest"
)

// server returns the value of --store for a schema that does not exist yet.
func server(t *testing.T) string {
	t.Helper()
	u, err := url.Parse(pgtest.URL(t))
	if err != nil {
		t.Fatal(err)
	}
	q := u.Query()
	q.Set("brim_schema", pgtest.Schema(t))
	u.RawQuery = q.Encode()
	return u.String()
}

// migratedServer returns the value of --store for a new schema with its tables.
func migratedServer(t *testing.T) string {
	t.Helper()
	s := server(t)
	cli(t, "migrate", "up", "--store", s).want(t, exitOK, "up to date", "schema migrated")
	return s
}

func TestMigrate(t *testing.T) {
	upToDate := fmt.Sprintf("version %d of %[1]d: up to date", pgname.Latest)
	s := server(t)
	limit := []string{"--capacity", "5", "--leak-rate", "0", "--store", s}
	cli(t, append([]string{"try", "k", "3"}, limit...)...).want(t, exitUnavailable, "", `run "brim migrate up"`)
	cli(t, "migrate", "status", "--store", s).want(t, exitBroken, fmt.Sprintf(`version 0 of %d: run "brim migrate up"`, pgname.Latest), "")
	cli(t, "migrate", "up", "--store", s).want(t, exitOK, upToDate, "schema migrated")
	cli(t, "migrate", "up", "--store", s).want(t, exitOK, upToDate, "")
	cli(t, "migrate", "status", "--store", s, "--json").want(t, exitOK, fmt.Sprintf(`{"version":%d,"latest":%[1]d,"dirty":false}`, pgname.Latest), "")
	cli(t, append([]string{"try", "k", "3"}, limit...)...).want(t, exitOK, "accepted", "")

	// migrate up creates a dropped table again.
	u, err := url.Parse(s)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := pgtest.Pool(t).Exec(t.Context(), "DROP TABLE "+u.Query().Get("brim_schema")+".buckets"); err != nil {
		t.Fatal(err)
	}
	cli(t, "migrate", "status", "--store", s).want(t, exitBroken, `somebody has dropped the tables buckets; run "brim migrate up"`, "")
	cli(t, "migrate", "status", "--store", s, "--json").want(t, exitBroken, `"missing":["buckets"]`, "")
	cli(t, "migrate", "up", "--store", s).want(t, exitOK, upToDate, "created again")
	cli(t, append([]string{"try", "k", "3"}, limit...)...).want(t, exitOK, "accepted", "")

	// The entries of a ledger are partitioned by time.
	cli(t, "migrate", "partitions", "--store", s).want(t, exitUsage, "", "not partitioned by RANGE (at)")
	entries := u.Query().Get("brim_schema") + ".buckets_entries"
	if _, err := pgtest.Pool(t).Exec(t.Context(), fmt.Sprintf("ALTER TABLE %[1]s RENAME TO plain; CREATE TABLE %[1]s "+
		"(LIKE %[2]s.plain INCLUDING ALL) PARTITION BY RANGE (at)", entries, u.Query().Get("brim_schema"))); err != nil {
		t.Fatal(err)
	}
	cli(t, "migrate", "partitions", "--every", "day", "--ahead", "0", "--store", s, "--json").want(t, exitOK, `{"created":["buckets_e_default","buckets_e`, "")
	cli(t, "migrate", "partitions", "--every", "day", "--ahead", "0", "--store", s).want(t, exitOK, "created: []; dropped: []; 0 entries", "")

	// The script that migrate sql prints has the effect of migrate up.
	other := server(t)
	script := cli(t, "migrate", "sql", "--store", other)
	if _, err := pgtest.Pool(t).Exec(t.Context(), script.stdout); err != nil {
		t.Fatal(err)
	}
	cli(t, "migrate", "status", "--store", other).want(t, exitOK, upToDate, "")
}

// Every command that decides or maintains works over each server, and over a SQLite database.
func TestServers(t *testing.T) {
	for name, store := range map[string]string{
		"PostgreSQL": migratedServer(t), "Redis": "redis://" + redistest.NewServer(t).Addr() + "/0?brim_prefix=limits:",
		"SQLite": "sqlite:" + storeIn(t),
	} {
		for _, step := range []struct {
			call           string
			code           int
			stdout, stderr string
		}{
			{"try k 3 --capacity 5 --leak-rate 0", exitOK, "accepted", ""},
			{"try k 3 --capacity 5 --leak-rate 0.0001", exitRefused, "refused", ""},
			{"try k 3 --capacity 5 --leak-rate 0", exitNever, "will not fit by waiting", ""},
			{"able k 2 --capacity 5 --leak-rate 0", exitOK, "yes", ""},
			{"fillup k 9 --capacity 5 --leak-rate 0", exitOK, "filled: level 5 of 5", ""},
			{"state k", exitOK, "level      5", ""},
			{"drain k 1 --capacity 5 --leak-rate 0", exitOK, "level 4 of 5", ""},
			{"block k 1h", exitOK, "blocked until", ""},
			{"unblock k", exitOK, "not blocked", ""},
			{"list --json", exitOK, `"key":"k","level":4,`, ""},
			{"prune", exitOK, "pruned: 0", ""},
			{"compact", exitUsage, "", "a bbolt file; give its path"},
			{"reset k", exitOK, "reset: 1", ""},
			{"list --json", exitOK, "", ""},
		} {
			t.Run(name+"/"+step.call, func(t *testing.T) {
				cli(t, append(strings.Fields(step.call), "--store", store)...).want(t, step.code, step.stdout, step.stderr)
			})
		}
	}
}

// The rules of a budget are in the database, beside its ledger.
func TestSpendInDatabases(t *testing.T) {
	for name, s := range map[string]string{"PostgreSQL": migratedServer(t), "SQLite": "sqlite:" + storeIn(t)} {
		t.Run(name, func(t *testing.T) {
			spend := spendOn(t, cardsBudget, s)
			spend("charge", "card", "30", "--also", "team/ops").want(t, exitOK, "charged", "")
			spend("charge", "card", "991").want(t, exitNever, "single", "")
			spend("rules", "history").want(t, exitOK, "held  brim", "")
			spend("verify").want(t, exitOK, "sound: 1 account", "")
			tight := budgetIn(t, strings.Replace(cardsBudget, "990", "20", 1))
			cli(t, "spend", "rules", "diff", tight, "--store", s).want(t, exitBroken, "+   - ", "")
			cli(t, "spend", "backtest", "--rules", tight, "--store", s).want(t, exitOK, "cards: of 2 decisions on 1 accounts", "")
			cli(t, "spend", "rules", "set", tight, "--store", s).want(t, exitOK, "set: cards revision 2, held\nunchanged: team revision 1", "")
			spend("charge", "card", "30").want(t, exitNever, "single", "")
			cli(t, "spend", "charge", "card", "30", "--budget", "no", "--store", s).want(t, exitUsage, "", `"brim spend rules set FILE" stores a budget`)
		})
	}
}

// TestPostgresReplay replays a real access log. PostgreSQL decides it as memory does, and no bucket
// remains.
func TestPostgresReplay(t *testing.T) {
	s, log := migratedServer(t), partOf(t, 10)
	var want, got replayJSON
	cli(t, "replay", log, "--capacity", "2", "--leak-rate", "0.01", "--json").decode(t, &want)
	cli(t, "replay", log, "--capacity", "2", "--leak-rate", "0.01", "--json", "--store", s).decode(t, &got)
	if got.Accepted != want.Accepted || got.Refused != want.Refused || got.Refused < 100 || !slices.Equal(got.TopRefused, want.TopRefused) {
		t.Errorf("%+v; want %+v", got, want)
	}
	cli(t, "list", "--json", "--store", s).want(t, exitOK, "", "")
}

func TestPostgresBench(t *testing.T) {
	s := migratedServer(t)
	r := cli(t, "bench", "--callers", "8", "--keys", "100", "--duration", "500ms", "--reference", "--json",
		"--store", s)
	r.want(t, exitOK, `"admitted_beyond_limit":0`, "")
	if strings.Contains(r.stdout, `"ratio":null`) {
		t.Errorf("the report has no ratio to the reference: %s", r.stdout)
	}
	var tables int
	err := pgtest.Pool(t).QueryRow(t.Context(),
		"SELECT count(*) FROM pg_class WHERE relname LIKE 'bench\\_reference%'").Scan(&tables)
	if err != nil || tables != 0 {
		t.Errorf("%d tables of the reference remain, %v", tables, err)
	}
	cli(t, "list", "--json", "--store", s).want(t, exitOK, "", "")
}
