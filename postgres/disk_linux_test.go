package postgres_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/brimgo/brim/internal/pgtest"
	"github.com/brimgo/brim/postgres"
	"github.com/brimgo/brim/store"
)

// TestFullDisk fills the disk of a server. As long as its log has room, calls for new buckets fail
// when the table has to grow, and room is enough to mend that. A log without room ends the server,
// so somebody must start it, too. No fill that it has acknowledged is lost.
func TestFullDisk(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=128m,mode=1777"); err != nil {
		t.Skipf("NOT TESTED: only root can mount a small file system: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	if err := os.Chmod(filepath.Dir(dir), 0o755); err != nil { // another user runs the server
		t.Fatal(err)
	}
	t.Setenv("TMPDIR", dir) // of the server's own directory
	server := pgtest.NewServer(t)
	pool := server.Pool(t)
	s := over(t, pool, postgres.Options{Schema: migrateOn(t, pool), PruneEvery: -1})
	acknowledged, sent := 0.0, 0.0
	fill := func() error {
		sent++
		_, err := s.Fill(t.Context(), op(steady.For("old"), 1, store.Always))
		if err == nil {
			acknowledged++
		}
		return err
	}
	created := 0
	create := func() error {
		_, err := s.Fill(t.Context(), op(steady.For(fmt.Sprint("new/", created)), 1, store.IfFits))
		if err == nil {
			created++
		}
		return err
	}
	works := func(when string) {
		t.Helper()
		for name, call := range map[string]func() error{"an old bucket": fill, "a new bucket": create} {
			if err := call(); err != nil {
				t.Errorf("%s, %s: %v", when, name, err)
			}
		}
		if findings, err := postgres.Check(t.Context(), pool, nil); err != nil || len(findings) > 0 {
			t.Errorf("%s: %v, %v", when, findings, err)
		}
	}
	filler := filepath.Join(dir, "filler")
	exhaust := func() {
		t.Helper()
		f, err := os.Create(filler)
		for block := make([]byte, 4096); err == nil; {
			_, err = f.Write(block)
		}
		if !errors.Is(err, syscall.ENOSPC) {
			t.Fatal(err)
		}
		_ = f.Close() // the disk is full
	}
	room := func() {
		t.Helper()
		if err := os.Remove(filler); err != nil {
			t.Fatal(err)
		}
	}

	works("with room")
	exhaust()
	var err error
	for range 10_000 {
		if err = create(); err != nil {
			break
		}
	}
	wantError(t, err, store.ErrUnavailable, "53100", "make room")
	if err := fill(); err != nil {
		t.Errorf("an old bucket on a full disk: %v", err)
	}
	findings, err := postgres.Check(t.Context(), pool, nil)
	// Before PostgreSQL 15, a reader of statistics may wait for a file that a process cannot write.
	waits := scalar[int](t, pool, "SELECT current_setting('server_version_num')::int") < 150_000
	if waits && err != nil {
		wantError(t, err, store.ErrUnavailable, "nothing was applied within")
	} else if err != nil || len(findings) != 1 || findings[0].Severity != store.Broken || !strings.Contains(findings[0].Remedy, "make room") {
		t.Errorf("Check on a full disk: %v, %v", findings, err)
	}
	room()
	works("with room again")

	exhaust()
	execute(t, pool, "SELECT pg_switch_wal()") // the next write needs another file of the log
	for err = nil; err == nil; {
		err = fill()
	}
	if !errors.Is(err, store.ErrUnknownOutcome) && !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("without room for the log: %v", err)
	}
	// The server is ending. A call over a connection that it closes just then has an unknown
	// outcome.
	refused := 0
	for calls := 0; refused < 100; calls++ {
		if err = fill(); errors.Is(err, store.ErrUnavailable) {
			refused++
		} else if refused = 0; calls > 1000 || !errors.Is(err, store.ErrUnknownOutcome) {
			t.Fatalf("call %d after the end of the server: %v", calls, err)
		}
	}
	if _, err := postgres.Check(t.Context(), pool, nil); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("Check after the end of the server: %v", err)
	}
	room()
	if err := server.Stop(true); err != nil { // nothing is left to stop; the helper learns that it has ended
		t.Fatal(err)
	}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	works("after the remedy")
	if st := stateOf(t, s, "old"); st.Level < acknowledged || st.Level > sent {
		t.Errorf("level %v; want from %v acknowledged to %v sent fills", st.Level, acknowledged, sent)
	}
	if n := len(list(t, s, "new/")); n < created {
		t.Errorf("%d buckets; want %d", n, created)
	}
}
