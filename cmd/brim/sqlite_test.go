package main

import (
	"database/sql"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestSQLite runs each command that knows the kind of its store. TestServers and
// TestSpendInDatabases run those that decide.
func TestSQLite(t *testing.T) {
	path := storeIn(t)
	on := func(call string) result {
		t.Helper()
		return cli(t, append(strings.Fields(call), "--store", "sqlite:"+path)...)
	}
	for _, call := range []string{"list", "state k", "prune", "doctor", "migrate status", "backup new.db"} {
		on(call).want(t, exitAbsent, "", path+": no such file")
	}
	if _, err := os.Stat(path); err == nil {
		t.Fatal("a command that reads has made the file")
	}
	on("migrate up").want(t, exitOK, "version 2 of 2: up to date", "")
	on("migrate up").want(t, exitOK, "version 2 of 2: up to date", "")
	on("migrate status --json").want(t, exitOK, `{"version":2,"latest":2,"dirty":false}`, "")
	on("try k 3 --capacity 5 --leak-rate 0").want(t, exitOK, "accepted", "")
	if r := on("doctor"); r.code != exitOK && !strings.Contains(r.stdout, "file system") {
		t.Errorf("a sound database: %+v", r) // a temporary directory may be a tmpfs
	}
	on("verify").want(t, exitUsage, "", "verify reads a bbolt file")
	on("bench --reference").want(t, exitUsage, "", "no bare reference")
	on("bench --callers 4 --keys 20 --duration 100ms --json").want(t, exitOK, `"admitted_beyond_limit":0`, "")

	copied := filepath.Join(t.TempDir(), "copy.db")
	on("backup "+copied).want(t, exitOK, "backed up to "+copied, "")
	on("backup "+copied).want(t, exitUsage, "", copied)
	cli(t, "state", "k", "--store", "sqlite:"+copied).want(t, exitOK, "level      3", "")

	// Somebody drops a table.
	db, err := sql.Open("sqlite", path)
	if err == nil {
		_, err = db.Exec(`DROP TABLE brim_holds`)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	on("migrate status").want(t, exitBroken, `brim_holds; run "brim migrate up"`, "")
	on("list").want(t, exitUnavailable, "", `run sqlite.Migrate or "brim migrate up"`)
	on("migrate up").want(t, exitOK, "up to date", "")

	// The script that migrate sql prints has the effect of migrate up.
	script := on("migrate sql")
	other := storeIn(t)
	empty, err := sql.Open("sqlite", other)
	if err == nil {
		_, err = empty.Exec(script.stdout)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer empty.Close()
	cli(t, "migrate", "status", "--store", "sqlite:"+other).want(t, exitOK, "up to date", "")
}

// TestSQLitePage serves the page of a database with buckets and a ledger.
func TestSQLitePage(t *testing.T) {
	store := "sqlite:" + storeIn(t)
	cli(t, "try", "tenant:42", "7", "--capacity", "10", "--leak-rate", "0", "--store", store).want(t, exitOK, "accepted", "")
	spendOn(t, cardsBudget, store)("charge", "a", "100", "--id", "a1").want(t, exitOK, "charged", "")
	s := serveUI(t, "--store", store, "--budget", "cards")
	_, body, inside := fetch(t, s.link)
	if !strings.Contains(body, "tenant:42") {
		t.Errorf("no bucket: %s", body)
	}
	if status, body, _ := fetch(t, inside+"account?budget=cards&account=a"); status != http.StatusOK || !strings.Contains(body, `>100.00<`) {
		t.Errorf("the account: status %d: %s", status, body)
	}
	if code := s.end(); code != exitSignal+2 {
		t.Errorf("exit status %d; want that of an interrupt; %s", code, s.stderr)
	}
}
