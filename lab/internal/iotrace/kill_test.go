//go:build linux && amd64

package iotrace

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// TestKill: the child ends at the call, and the files keep all that was done before.
func TestKill(t *testing.T) {
	for _, c := range []struct {
		name    string
		fault   Fault
		content string // of the file afterwards; "none" if there is none
	}{
		{"before the creation", Fault{Class: Any, N: 1, Kill: Before}, "none"},
		{"after the creation", Fault{Class: Any, N: 1, Kill: After}, ""},
		{"before a write", Fault{Class: Any, N: 2, Kill: Before}, ""},
		{"within a write", Fault{Class: Any, N: 2, Kill: Within}, "\x00\x00\x00he"},
		{"after a write", Fault{Class: Any, N: 2, Kill: After}, "\x00\x00\x00hello"},
		{
			"within a call that is no write",
			Fault{Class: Resizes, N: 1, Kill: Within},
			"\x00\x00\x00hello" + strings.Repeat("\x00", 92),
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			_, err := startChild(t).Run(dir, []byte("all "+dir), &c.fault, func(Event) bool { return true })
			if !errors.Is(err, ErrKilled) {
				t.Fatalf("error %v, want ErrKilled", err)
			}
			content, err := os.ReadFile(filepath.Join(dir, "a"))
			if c.content == "none" {
				if !errors.Is(err, os.ErrNotExist) {
					t.Errorf("the file is there: %v", err)
				}
				return
			}
			if string(content) != c.content || err != nil {
				t.Errorf("the file holds %q, want %q; %v", content, c.content, err)
			}
		})
	}
	// A request that the child does not read to its end must not keep Run waiting.
	dir := t.TempDir()
	request := []byte("all " + dir + strings.Repeat(" ", 1000))
	f := &Fault{Class: Any, N: 100, Kill: After}
	if _, err := startChild(t).Run(dir, request, f, func(Event) bool { return true }); err != nil {
		t.Errorf("a kill after the last call: %v, want none", err)
	}
}

// TestListed: the recorder knows files that are in the directory before a run.
func TestListed(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "b"), []byte("before"), 0o600); err != nil {
		t.Fatal(err)
	}
	var events []string
	f := &Fault{Class: Names, N: 1, Errno: syscall.EIO}
	_, err := startChild(t).Run(dir, []byte("all "+dir), f, func(e Event) bool {
		events = append(events, e.String())
		return true
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`create file 1 as "a"`, "link fails", `rename "b" to "c"`} {
		if !slices.Contains(events, want) {
			t.Errorf("recorded %q, want %q among it", events, want)
		}
	}
}

// TestCanceled: the parent can refuse a message, and the child learns it.
func TestCanceled(t *testing.T) {
	dir := t.TempDir()
	refused, told := 0, false
	f := &Fault{Class: Writes, N: 1, Errno: syscall.EIO} // the child sends a message that the write failed
	_, err := startChild(t).Run(dir, []byte("all "+dir), f, func(e Event) bool {
		if e.Kind != Note {
			return true
		}
		if string(e.Data) == "refused" {
			told = true
			return true
		}
		refused++
		return false
	})
	if err != nil || refused != 1 || !told {
		t.Errorf("%d messages were refused, want 1; the child was told: %v; %v", refused, told, err)
	}
}

// TestWithoutFilter: a child that forgets the filter would run unseen.
func TestWithoutFilter(t *testing.T) {
	p, err := Start([]string{"/bin/cat"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = p.Close() }()
	_, err = p.Run(t.TempDir(), []byte("request"), nil, func(Event) bool { return true })
	if err == nil || !strings.Contains(err.Error(), "Filter") {
		t.Errorf("error %v, want one that names Filter", err)
	}
}
