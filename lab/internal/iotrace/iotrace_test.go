//go:build linux && amd64

package iotrace

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

const childEnv = "BRIM_IOTRACE_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(childEnv) != "" {
		child()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// child reads lines of a request and a directory. It sends a note for every step that fails.
func child() {
	notes := os.NewFile(NoteFD, "notes")
	if err := Filter(true); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		request, dir, _ := strings.Cut(in.Text(), " ")
		for _, s := range steps(notes, request, dir) {
			if err := s.do(); err != nil {
				if _, err := fmt.Fprintf(notes, "%s: %v", s.name, err); errors.Is(err, syscall.ECANCELED) {
					_, _ = notes.WriteString("refused")
				}
			}
		}
		_, _ = notes.WriteString(Done)
	}
}

type step struct {
	name string
	do   func() error
}

func steps(notes *os.File, request, dir string) []step {
	a, b, c := filepath.Join(dir, "a"), filepath.Join(dir, "b"), filepath.Join(dir, "c")
	var file *os.File
	open := step{"create", func() (err error) {
		file, err = os.OpenFile(a, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
		return err
	}}
	switch request {
	case "append":
		return []step{open, {"append", func() error { _, err := file.WriteString("hello"); return err }}}
	case "map":
		return []step{open, {"map", func() error {
			_, err := syscall.Mmap(int(file.Fd()), 0, 4096, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
			return err
		}}}
	case "truncate":
		return []step{open, {"truncate by name", func() error { return os.Truncate(a, 10) }}}
	case "move":
		return []step{open, {"move", func() error { return os.Rename(a, dir+".moved") }}}
	case "exit":
		os.Exit(7)
	}
	return []step{
		open,
		{"write", func() error { _, err := file.WriteAt([]byte("hello"), 3); return err }},
		{"resize", func() error { return file.Truncate(100) }},
		{"read", func() error { _, err := file.ReadAt(make([]byte, 5), 3); return err }},
		{"sync", func() error { return file.Sync() }},
		{"fdatasync", func() error { return syscall.Fdatasync(int(file.Fd())) }},
		{"link", func() error { return os.Link(a, b) }},
		{"exchange", func() error {
			return unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_EXCHANGE)
		}},
		{"rename", func() error { return os.Rename(b, c) }},
		{"remove", func() error { return os.Remove(a) }},
		{"write again", func() error { _, err := file.WriteAt([]byte("x"), 0); return err }},
		{"sync the directory", func() error {
			d, err := os.Open(dir)
			if err != nil {
				return err
			}
			defer func() { _ = d.Close() }()
			return d.Sync()
		}},
		{"heal", func() error { _, err := notes.WriteString(Heal); return err }},
		{"sync once more", func() error { return file.Sync() }},
		{"another directory", func() error {
			return os.WriteFile(filepath.Join(filepath.Dir(dir), "elsewhere"), []byte("unseen"), 0o600)
		}},
		{"close", func() error { return file.Close() }},
	}
}

func startChild(t *testing.T) *Process {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p, err := Start([]string{self}, append(os.Environ(), childEnv+"=1"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

// trace runs a request in a new directory, and returns the events as text.
func trace(t *testing.T, p *Process, request string, f *Fault) (failed int, events []string, err error) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "watched")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	failed, err = p.Run(dir, []byte(request+" "+dir), f, func(e Event) bool {
		if e.Kind != Failed {
			events = append(events, e.String())
		}
		return true
	})
	return failed, events, err
}

var everything = []string{
	`create file 0 as "a"`,
	`write 5 bytes at 3 of file 0`,
	`resize file 0 to 100 bytes`,
	`read file 0`,
	`sync file 0`,
	`sync file 0`,
	`link file 0 as "b"`,
	`exchange "a" and "b"`,
	`rename "b" to "c"`,
	`remove "a"`,
	`write 1 bytes at 0 of file 0`,
	`sync the directory`,
	`sync file 0`,
}

func TestRun(t *testing.T) {
	p := startChild(t)
	for run := range 3 {
		failed, events, err := trace(t, p, "all", nil)
		if err != nil || failed != 0 {
			t.Fatalf("run %d: %d calls failed, %v", run, failed, err)
		}
		if !slices.Equal(events, everything) {
			t.Fatalf("run %d recorded %q, want %q", run, events, everything)
		}
	}
	// A request that is longer than a pipe holds.
	if _, _, err := trace(t, p, "append"+strings.Repeat("x", 1<<20), nil); err == nil {
		t.Error("the child is expected to give up on a line of a mebibyte")
	}
}

func TestFaults(t *testing.T) {
	const eio, enospc = "input/output error", "no space left on device"
	for _, c := range []struct {
		name, why string
		fault     Fault
		failed    int
		missing   []string // events that a run without faults has
		notes     []string // the beginning and the end of notes of the child
	}{
		{
			name: "a write", why: "only the first fails",
			fault: Fault{Class: Writes, N: 1, Errno: syscall.EIO}, failed: 1,
			missing: []string{everything[1]}, notes: []string{"write: " + eio},
		},
		{
			name: "a sync", why: "syncs of files and of the directory are counted together",
			fault: Fault{Class: Syncs, N: 3, Errno: syscall.EIO}, failed: 1,
			missing: []string{everything[11]}, notes: []string{"sync the directory: " + eio},
		},
		{
			name: "syncs from the second on", why: "they fail until the disk is healed",
			fault: Fault{Class: Syncs, N: 2, Errno: syscall.ENOSPC, Lasts: true}, failed: 2,
			missing: []string{everything[4], everything[11]},
			notes:   []string{"fdatasync: " + enospc, "sync the directory: " + enospc},
		},
		{
			name: "a rename", why: "links, renames and removals are counted together",
			fault: Fault{Class: Names, N: 3, Errno: syscall.EIO}, failed: 1,
			missing: []string{everything[8]}, notes: []string{"rename: " + eio},
		},
		{
			name: "a resize", why: "the size stays",
			fault: Fault{Class: Resizes, N: 1, Errno: syscall.ENOSPC}, failed: 1,
			missing: []string{everything[2]}, notes: []string{"resize: " + enospc},
		},
		{
			name: "a read", why: "reads can fail, too",
			fault: Fault{Class: Reads, N: 1, Errno: syscall.EIO}, failed: 1,
			missing: []string{everything[3]}, notes: []string{"read: " + eio},
		},
		{
			name: "a call that does not come", why: "nothing fails",
			fault: Fault{Class: Writes, N: 9, Errno: syscall.EIO},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			failed, events, err := trace(t, startChild(t), "all", &c.fault)
			if err != nil || failed != c.failed {
				t.Fatalf("%d calls failed, want %d; %v", failed, c.failed, err)
			}
			var notes []string
			calls := slices.DeleteFunc(events, func(e string) bool {
				text, isNote := strings.CutPrefix(e, "note ")
				if isNote {
					notes = append(notes, text)
				}
				return isNote
			})
			if len(calls) != len(everything)-len(c.missing) {
				t.Errorf("recorded %q, want all but %q: %s", calls, c.missing, c.why)
			}
			sameNotes := slices.EqualFunc(notes, c.notes, func(note, want string) bool {
				step, problem, _ := strings.Cut(want, ": ")
				return strings.HasPrefix(note, step+": ") && strings.HasSuffix(note, problem)
			})
			if !sameNotes {
				t.Errorf("notes %q, want %q: %s", notes, c.notes, c.why)
			}
		})
	}
}

// TestShort: a write that is cut short writes its first half, and the rest fails.
func TestShort(t *testing.T) {
	f := &Fault{Class: Writes, N: 1, Errno: syscall.ENOSPC, Short: true}
	failed, events, err := trace(t, startChild(t), "all", f)
	if err != nil || failed != 2 {
		t.Fatalf("%d calls failed, want 2; %v", failed, err)
	}
	const want = "write 2 bytes at 3 of file 0"
	if !slices.Contains(events, want) || slices.Contains(events, everything[1]) {
		t.Errorf("recorded %q, want %q", events, want)
	}
}

// TestUnrecorded: a call that the recorder cannot describe is an error, and so is a child that
// ends.
func TestUnrecorded(t *testing.T) {
	for request, why := range map[string]string{
		"append":   "write without an offset",
		"map":      "a shared mapping for writing",
		"truncate": `truncates "a" by name`,
		"move":     "has rename lead into the directory or out of it",
		"exit":     "the child ended",
	} {
		t.Run(request, func(t *testing.T) {
			_, _, err := trace(t, startChild(t), request, nil)
			if err == nil || !strings.Contains(err.Error(), why) {
				t.Errorf("error %v, want one with %q", err, why)
			}
		})
	}
}

func TestDigest(t *testing.T) {
	first := []Event{{Kind: Create, Name: "a.new-X"}, {Kind: Link, To: "a"}, {Kind: Write, Data: []byte("x")}}
	same := []Event{{Kind: Create, Name: "a.new-Y"}, {Kind: Link, To: "a"}, {Kind: Write, Data: []byte("x")}}
	other := []Event{{Kind: Create, Name: "a.new-X"}, {Kind: Link, To: "a"}, {Kind: Write, Data: []byte("y")}}
	if Digest(first, true) != Digest(same, true) {
		t.Error("names that are random change the digest")
	}
	if Digest(first, true) == Digest(other, true) {
		t.Error("data does not change the digest")
	}
}
