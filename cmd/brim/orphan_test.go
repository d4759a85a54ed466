package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestJournalWithoutFile: where a journal stands without its file, the file was lost. No command
// takes it for an empty store, and none makes a new file in its place.
func TestJournalWithoutFile(t *testing.T) {
	path, _ := filled(t)
	s, crashed := crash(t, path)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(crashed); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Dir(crashed)
	budget := filepath.Join(t.TempDir(), "budget.yaml")
	text := "budget: cards\ncurrency: EUR\nrules:\n  - {name: month, rolling: 1000.00, window: 30d}\n"
	if err := os.WriteFile(budget, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, command := range []string{
		"list", "state k", "able k 1 --capacity 3 --over 1h", "try k 1 --capacity 3 --over 1h", "drain k 1 --capacity 3 --over 1h",
		"block k 1h", "unblock k", "reset k", "prune", "compact", "backup new.db", "verify", "doctor",
		"spend charge card:7 1 --id a --budget " + budget, "spend remaining card:7 --budget " + budget,
	} {
		cli(t, append(strings.Fields(command), "--store", crashed)...).
			want(t, exitUnavailable, "", "the file is missing, but its journal crashed.db.journal is there; put the file back beside it")
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("the directory holds %v, %v; want the journal alone", entries, err)
	}
}
