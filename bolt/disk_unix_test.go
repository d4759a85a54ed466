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

	"go.etcd.io/bbolt"

	"github.com/brimgo/brim/internal/paging"
	"github.com/brimgo/brim/store"
)

func init() {
	roles["small"] = childSmallFile
	roles["eio"] = func(path string) error { return childDiskFailure(path, nil) }
	roles["eio without a journal"] = func(path string) error {
		return childDiskFailure(path, &Options{NoJournal: true})
	}
	roles["new"] = childNewThatCannotWrite
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
	lift, err := limitFiles(info.Size())
	if err != nil {
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
	entries, err := paging.All(ctx, s, "new ")
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
	if err := lift(); err != nil {
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

// limitFiles keeps this process from writing to files at an offset of size or more, until lift is
// called.
func limitFiles(size int64) (lift func() error, err error) {
	var old syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &old); err != nil {
		return nil, err
	}
	limit := old
	limit.Cur = uint64(size)
	return func() error { return syscall.Setrlimit(syscall.RLIMIT_FSIZE, &old) },
		syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit)
}

// TestNewThatCannotWrite: New answers an error if it cannot make the last commit of the application
// durable, because a power failure could still undo that commit and all answers that rest on it.
func TestNewThatCannotWrite(t *testing.T) {
	db := openApp(t)
	fillup(t, newOver(t, db, nil), "k", 1)
	path := db.Path()
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if out, err := childCommand("new", path).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

func childNewThatCannotWrite(path string) error {
	signal.Ignore(syscall.SIGXFSZ)
	db, err := bbolt.Open(path, 0o600, nil)
	if err != nil {
		return err
	}
	lift, err := limitFiles(0)
	if err != nil {
		return err
	}
	if _, err := New(db, nil); !errors.Is(err, store.ErrUnavailable) || !errors.Is(err, syscall.EFBIG) {
		return fmt.Errorf("New: error %w, want ErrUnavailable and EFBIG", err)
	}
	if err := lift(); err != nil {
		return err
	}
	s, err := New(db, nil)
	if err != nil {
		return err
	}
	states, err := s.Read(context.Background(), steady.For("k"))
	if err == nil && states[0].Level != 1 {
		err = fmt.Errorf("%+v, want level 1", states)
	}
	return errors.Join(err, s.Close(), db.Close())
}

// childDiskFailure fills until an fdatasync fails, which strace injects. It prints the outcome of
// each fill.
func childDiskFailure(path string, o *Options) error {
	// strace counts the calls of each thread by itself. A lone caller whose context cannot end
	// commits on its own goroutine, so this thread makes all of them.
	runtime.LockOSThread()
	s, err := Open(path, o)
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

// TestDiskFailure injects EIO into an fdatasync of a child process. Without a journal a commit has
// two. After a failure of the first nothing was applied; after a failure of the second nobody
// knows. With a journal the first two changes are such commits, and each later one has one
// fdatasync.
func TestDiskFailure(t *testing.T) {
	strace, err := exec.LookPath("strace")
	if err != nil {
		t.Log("NOT TESTED: strace injects errors of the disk, and is not installed; install it to test them")
		return
	}
	const none, unknown = "not applied", "unknown"
	for _, c := range []struct {
		role string
		when int
		want string
	}{
		{"eio", 1, none},
		{"eio", 2, unknown},
		{"eio", 3, none},
		{"eio", 4, unknown},
		{"eio", 5, unknown},
		{"eio", 9, unknown},
		{"eio without a journal", 7, none},
		{"eio without a journal", 8, unknown},
		{"eio without a journal", 9, none},
		{"eio without a journal", 10, unknown},
	} {
		t.Run(fmt.Sprintf("%s, fdatasync %d", c.role, c.when), func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "limits.db")
			s := openAt(t, path, nil)
			fillup(t, s, "k", 100)
			closeStore(t, s)
			child := childCommand(c.role, path)
			cmd := exec.Command(strace, append([]string{
				"-f", "-qq", "-o", filepath.Join(t.TempDir(), "trace"), "-e", "trace=fdatasync",
				"-e", fmt.Sprintf("inject=fdatasync:error=EIO:when=%d", c.when),
			}, child.Args...)...)
			cmd.Env = child.Env
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			acknowledged := bytes.Count(out, []byte("acknowledged\n"))
			lines := strings.Fields(strings.ReplaceAll(string(out), "not applied", "not-applied"))
			if last := lines[len(lines)-1]; strings.ReplaceAll(last, "-", " ") != c.want {
				t.Errorf("%s; want %s", out, c.want)
			}
			s = openAt(t, path, nil)
			st, err := s.Read(context.Background(), store.Bucket{Key: "k"})
			if err != nil {
				t.Fatal(err)
			}
			stored := int(st[0].Level) - 100
			if stored < acknowledged || stored > acknowledged+1 || c.want == none && stored != acknowledged {
				t.Errorf("%d fills are stored; %d were acknowledged, then one was %s", stored, acknowledged, c.want)
			}
		})
	}
}
