package bolt

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/brimgo/brim/store"
)

// broken returns the subjects of the findings that say a promise does not hold, but for the file
// system in memory on which these tests run.
func broken(t *testing.T, findings []store.Finding, err error) string {
	t.Helper()
	must(t, err)
	var list []string
	for _, f := range findings {
		if f.Severity == store.Broken && f.Subject != "file system" {
			list = append(list, f.Subject)
		}
	}
	return strings.Join(slices.Compact(list), ",")
}

// TestCheckOfFullDisk fills the disk of an open store and of a closed one, and makes room again.
func TestCheckOfFullDisk(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=40m"); err != nil {
		t.Skipf("NOT TESTED: only root can mount a small file system: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	path, filler := filepath.Join(dir, "limits.db"), filepath.Join(dir, "filler")
	s := openAt(t, path, nil)
	check := func(when, want string) {
		t.Helper()
		findings, err := s.Check(t.Context())
		if got := broken(t, findings, err); got != want {
			t.Errorf("%s: %s; want %s", when, got, want)
		}
	}
	fill := func() {
		block := make([]byte, 64<<10)
		f, err := os.Create(filler)
		must(t, err)
		for err == nil {
			_, err = f.Write(block)
		}
		_ = f.Close() // the disk is full
	}
	check("with room", "")
	fill()
	check("on a full disk", "free space")
	must(t, os.Remove(filler))
	check("with room again", "")
	closeStore(t, s)
	fill()
	findings, err := Check(t.Context(), path)
	if got := broken(t, findings, err); got != "free space" {
		t.Errorf("a closed file on a full disk: %s", got)
	}
}

// TestCheckOfRights checks a file as a user who may read it and not write it.
func TestCheckOfRights(t *testing.T) {
	path, _ := smallFile(t)
	// A relative path needs no right on the directories above.
	must(t, os.Chmod(filepath.Dir(path), 0o755))
	t.Chdir(filepath.Dir(path))
	must(t, os.Chmod(path, 0o444))
	var findings []store.Finding
	var err error
	var wg sync.WaitGroup
	wg.Go(func() {
		if os.Getuid() == 0 { // root may write everything, so another user checks, on a thread that ends with this goroutine
			runtime.LockOSThread()
			const nobody = 65534
			if err = syscall.Setfsuid(nobody); err != nil {
				return
			}
		}
		findings, err = Check(t.Context(), filepath.Base(path))
	})
	wg.Wait()
	if got := broken(t, findings, err); got != "rights" {
		t.Errorf("a file that may only be read: %s; %s", got, fmt.Sprint(findings))
	}
}
