//go:build linux || darwin

package bolt

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/brimgo/brim/store"
)

func init() {
	roles["small"] = childSmallFile
	roles["eio"] = childDiskFailure
}

// TestFileSizeLimit runs a child process whose files may not grow. The system answers EFBIG,
// which the store treats like ENOSPC on a full disk.
func TestFileSizeLimit(t *testing.T) {
	path := filepath.Join(t.TempDir(), "limits.db")
	s := openAt(t, path, nil)
	fillMany(t, s, 0, 200)
	closeStore(t, s)
	out, err := childCommand("small", path).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	s = openAt(t, path, nil)
	levelIs(t, s, "key 000007", 7)
	levelIs(t, s, "after", 1)
	if err := s.Verify(context.Background()); err != nil {
		t.Error(err)
	}
}

func childSmallFile(path string) error {
	signal.Ignore(syscall.SIGXFSZ)
	s, err := Open(path, nil)
	if err != nil {
		return err
	}
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	var old syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &old); err != nil {
		return err
	}
	limit := syscall.Rlimit{Cur: uint64(info.Size()), Max: old.Max}
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		return err
	}
	ctx := context.Background()
	var refused error
	for i := 0; i < 200 && refused == nil; i++ {
		var txns []store.Txn
		for j := range 500 {
			txns = append(txns, store.Txn{op(steady, fmt.Sprintf("new %d %d", i, j), 1, store.Always)})
		}
		_, refused = s.Apply(ctx, txns...)
	}
	if !errors.Is(refused, store.ErrUnavailable) || errors.Is(refused, store.ErrUnknownOutcome) {
		return fmt.Errorf("a file at its size limit: error %w, want ErrUnavailable", refused)
	}
	// The store applied no part of the refused call, and answers reads.
	entries, err := s.Scan(ctx, "new ", "", 1_000_000)
	if err != nil {
		return err
	}
	if len(entries)%500 != 0 {
		return fmt.Errorf("%d buckets: the store applied a call in part", len(entries))
	}
	if err := s.Verify(ctx); err != nil {
		return err
	}
	// The store writes again when it has room.
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &old); err != nil {
		return err
	}
	if _, err := s.Fill(ctx, op(steady, "after", 1, store.Always)); err != nil {
		return fmt.Errorf("after the limit was lifted: %w", err)
	}
	if _, err := s.Apply(ctx, store.Txn{op(steady, "new x", 1, store.Always)}); err != nil {
		return fmt.Errorf("after the limit was lifted: %w", err)
	}
	return s.Close()
}

// childDiskFailure fills until an fdatasync fails, which strace injects. It prints the outcome of
// each fill.
func childDiskFailure(path string) error {
	// strace counts the calls of each thread by itself. A lone caller whose context cannot end
	// commits on its own goroutine, so this thread makes all of them.
	runtime.LockOSThread()
	s, err := Open(path, nil)
	if err != nil {
		return err
	}
	ctx := context.Background()
	for i := range 50 {
		_, err := s.Fill(ctx, op(steady, "k", 1, store.Always))
		switch {
		case err == nil:
			fmt.Println("acknowledged")
		case errors.Is(err, store.ErrUnknownOutcome) && errors.Is(err, syscall.EIO):
			fmt.Println("unknown")
		case errors.Is(err, store.ErrUnavailable) && errors.Is(err, syscall.EIO):
			fmt.Println("not applied")
		default:
			return fmt.Errorf("fill %d: %w", i, err)
		}
		if err == nil {
			continue
		}
		// The store refuses all calls from now on.
		_, fillErr := s.Fill(ctx, op(steady, "k", 1, store.Always))
		_, readErr := s.Read(ctx, store.Bucket{Key: "k"})
		_, _, compactErr := s.Compact(ctx)
		updateErr := s.Update(ctx, func(store.Store) error { return nil })
		for _, err := range []error{fillErr, readErr, compactErr, updateErr, s.Verify(ctx)} {
			if !errors.Is(err, store.ErrUnavailable) || errors.Is(err, store.ErrUnknownOutcome) ||
				!strings.Contains(err.Error(), "open it again") {
				return fmt.Errorf("after the disk failed: error %w, want ErrUnavailable until it is opened again", err)
			}
		}
		return s.Close()
	}
	return errors.New("the disk never failed")
}

// TestDiskFailure injects EIO into an fdatasync of a child process. After a failure of the first
// fdatasync of a commit nothing was applied. After a failure of the second nobody knows.
func TestDiskFailure(t *testing.T) {
	strace, err := exec.LookPath("strace")
	if err != nil {
		t.Log("NOT TESTED: strace injects errors of the disk, and is not installed; install it to test them")
		return
	}
	for when, want := range map[int]string{7: "not applied", 8: "unknown", 9: "not applied", 10: "unknown"} {
		t.Run(fmt.Sprintf("fdatasync %d", when), func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "limits.db")
			s := openAt(t, path, nil)
			fillup(t, s, "k", 100)
			closeStore(t, s)
			child := childCommand("eio", path)
			cmd := exec.Command(strace, append([]string{
				"-f", "-qq", "-o", filepath.Join(t.TempDir(), "trace"), "-e", "trace=fdatasync",
				"-e", fmt.Sprintf("inject=fdatasync:error=EIO:when=%d", when),
			}, child.Args...)...)
			cmd.Env = child.Env
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			acknowledged := bytes.Count(out, []byte("acknowledged\n"))
			lines := strings.Fields(strings.ReplaceAll(string(out), "not applied", "not-applied"))
			if last := lines[len(lines)-1]; strings.ReplaceAll(last, "-", " ") != want {
				t.Errorf("%s; want %s", out, want)
			}
			s = openAt(t, path, nil)
			st, err := s.Read(context.Background(), store.Bucket{Key: "k"})
			if err != nil {
				t.Fatal(err)
			}
			stored := int(st[0].Level) - 100
			if stored < acknowledged || stored > acknowledged+1 || want == "not applied" && stored != acknowledged {
				t.Errorf("%d fills are stored; %d were acknowledged, then one was %s", stored, acknowledged, want)
			}
		})
	}
}
