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
	var err error
	for n := 0; err == nil && n < 100_000; n++ { // the journal has some room of its own
		_, err = s.Fill(t.Context(), op(steady, fmt.Sprint(n), 1, store.Always))
	}
	failsWith(t, err, store.ErrUnavailable, "no space left on device; make room")
	check("after a call that failed", "free space")
	must(t, os.Remove(filler))
	check("with room again", "")
	fillup(t, s, "k", 1)
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

// mount mounts something for the time of a test.
func mount(t *testing.T, source, target, kind string, flags uintptr) {
	t.Helper()
	if err := syscall.Mount(source, target, kind, flags, ""); err != nil {
		t.Skipf("NOT TESTED: only root can mount: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(target, 0); err != nil {
			t.Error(err)
		}
	})
}

// TestMountedFile: a bind mount of one file is refused, and a check tells the way out. That holds
// for a link to it, too. A bind mount of its directory is fine.
func TestMountedFile(t *testing.T) {
	source, target := t.TempDir(), t.TempDir()
	closeStore(t, openAt(t, filepath.Join(source, "limits.db"), nil))
	path := filepath.Join(target, "limits.db")
	must(t, os.WriteFile(path, nil, 0o600))
	mount(t, filepath.Join(source, "limits.db"), path, "", syscall.MS_BIND)
	link := filepath.Join(t.TempDir(), "limits.db")
	must(t, os.Symlink(path, link))
	for _, path := range []string{path, link} {
		for _, o := range []*Options{nil, {NoJournal: true}} {
			_, err := Open(path, o)
			failsWith(t, err, store.ErrMisconfigured, "mount its directory instead")
		}
		findings, err := Check(t.Context(), path)
		if got := broken(t, findings, err); got != "place" {
			t.Errorf("Check of %s: %v", path, findings)
		}
	}
	dir := t.TempDir()
	mount(t, source, dir, "", syscall.MS_BIND)
	s := openAt(t, filepath.Join(dir, "limits.db"), nil)
	for range 3 {
		fillup(t, s, "k", 1)
	}
	_, _, err := s.Compact(t.Context())
	must(t, err)
	findings, err := s.Check(t.Context())
	if got := broken(t, findings, err); got != "" {
		t.Errorf("Check: %v", findings)
	}
	closeStore(t, s)
}

// TestReadOnlyMount: rights are not the cause, so the remedy is no chmod.
func TestReadOnlyMount(t *testing.T) {
	source, dir := t.TempDir(), t.TempDir()
	closeStore(t, openAt(t, filepath.Join(source, "limits.db"), nil))
	mount(t, source, dir, "", syscall.MS_BIND)
	if err := syscall.Mount("", dir, "", syscall.MS_BIND|syscall.MS_REMOUNT|syscall.MS_RDONLY, ""); err != nil {
		t.Skipf("NOT TESTED: no mount for reading only: %v", err)
	}
	findings, err := Check(t.Context(), filepath.Join(dir, "limits.db"))
	must(t, err)
	if !slices.ContainsFunc(findings, func(f store.Finding) bool {
		return f.Severity == store.Broken && f.Subject == "file system" && f.Remedy == "mount it for writing"
	}) || strings.Contains(fmt.Sprint(findings), "chmod") {
		t.Errorf("Check: %v; want that the mount is read-only", findings)
	}
	_, err = Open(filepath.Join(dir, "limits.db"), nil)
	failsWith(t, err, store.ErrMisconfigured, "read-only file system")
	must(t, syscall.Mount("", dir, "", syscall.MS_BIND|syscall.MS_REMOUNT, "")) // the remedy
	findings, err = Check(t.Context(), filepath.Join(dir, "limits.db"))
	if got := broken(t, findings, err); got != "" {
		t.Errorf("after the remedy: %v", findings)
	}
	closeStore(t, openAt(t, filepath.Join(dir, "limits.db"), nil))
}
