package redisstore

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/brimgo/brim/internal/redistest"
	"github.com/brimgo/brim/store"
)

// TestFullDisk fills the disk of a server that syncs always. Such a server exits, so room alone
// does not bring it back: somebody must start it. No fill that it has acknowledged is lost.
func TestFullDisk(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=4m,mode=1777"); err != nil {
		t.Skipf("NOT TESTED: only root can mount a small file system: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	t.Setenv("TMPDIR", dir) // of the server's own directory
	server := redistest.NewServer(t, "appendonly yes", "appendfsync always")
	client := closing(t, redis.NewClient(&redis.Options{Addr: server.Addr(), MaxRetries: -1, DialerRetries: 1}))
	s := open(t, client, nil)
	one := store.Op{Bucket: store.Limit{Capacity: 1 << 20}.For("b"), Amount: 1}
	acknowledged, sent := 0.0, 0.0
	fill := func() error {
		sent++
		_, err := s.Fill(t.Context(), one)
		if err == nil {
			acknowledged++
		}
		return err
	}
	must(t, fill())
	filler, err := os.Create(filepath.Join(dir, "filler"))
	must(t, err)
	for block := make([]byte, 4096); err == nil; {
		_, err = filler.Write(block)
	}
	must(t, filler.Close())
	for err = nil; err == nil; { // the file of the server has some room in its last page
		err = fill()
	}
	if !errors.Is(err, store.ErrUnknownOutcome) && !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("on a full disk: %v", err)
	}
	if err := fill(); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("after the end of the server: %v; want ErrUnavailable", err)
	}
	if _, err := Check(t.Context(), client, nil); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("Check after the end of the server: %v; want ErrUnavailable", err)
	}
	must(t, os.Remove(filler.Name()))
	if err := fill(); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("with room, and before the start of the server: %v; want ErrUnavailable", err)
	}
	must(t, server.Kill()) // nothing is left to kill; the helper learns that it has ended
	must(t, server.Start())
	must(t, fill())
	got, err := s.Read(t.Context(), one.Bucket)
	must(t, err)
	if got[0].Level < acknowledged || got[0].Level > sent {
		t.Errorf("level %v; want from %v acknowledged to %v sent fills", got[0].Level, acknowledged, sent)
	}
	if _, names := check(t, client, nil); names != "" {
		t.Errorf("after the remedy: %s", names)
	}
}
