package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// The binary of the test also does the works of the demo's processes.
func TestMain(m *testing.M) {
	if len(os.Args) == 3 {
		if work := works[strings.TrimPrefix(os.Args[1], "-")]; work != nil {
			exit(work(context.Background(), os.Args[2]))
		}
	}
	os.Exit(m.Run())
}

// TestWorks runs the first two parts of the demo, which judge their own results.
func TestWorks(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "mail.db")
	if err := remembers(t.Context(), self, file); err != nil {
		t.Error(err)
	}
	if err := remembers(t.Context(), self, file); err == nil || !strings.Contains(err.Error(), "want 6") {
		t.Errorf("a process that is refused at once passes for a new one: %v", err)
	}
	file = filepath.Join(t.TempDir(), "cards.db")
	if err := cannotOverspend(t.Context(), self, file); err != nil {
		t.Error(err)
	}
	if err := cannotOverspend(t.Context(), self, file); err == nil {
		t.Error("a budget that was spent before passes for a new one")
	}
}

func TestKillAndCount(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "limits.db")
	var counts [callers]int64
	const kills = 2
	for range kills {
		if err := fillAndKill(t.Context(), self, file, 50*time.Millisecond, &counts); err != nil {
			t.Fatal(err)
		}
	}
	if err := compare(t.Context(), file, kills, counts); err != nil {
		t.Error(err)
	}
	// Missing units and units from nowhere must not pass.
	lost, added := counts, counts
	lost[3] += kills + 1
	if err := compare(t.Context(), file, kills, lost); err == nil || !strings.Contains(err.Error(), "MISSING") {
		t.Errorf("missing units pass: %v", err)
	}
	added[3] -= kills + 1
	if err := compare(t.Context(), file, kills, added); err == nil {
		t.Error("units from nowhere pass")
	}
	if err := compare(t.Context(), file, kills, [callers]int64{}); err == nil {
		t.Error("a run without acknowledged units passes")
	}
	if err := fillAndKill(t.Context(), self, filepath.Join(file, "none.db"), time.Millisecond, &counts); err == nil {
		t.Error("a process that could not open its file passes for killed")
	}
}
