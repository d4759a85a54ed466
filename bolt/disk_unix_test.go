//go:build linux || darwin

package bolt

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"

	"go.etcd.io/bbolt"

	"github.com/brimgo/brim/internal/paging"
	"github.com/brimgo/brim/store"
)

func init() {
	roles["small"] = childSmallFile
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
	must(t, s.Verify(context.Background()))
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
	must(t, db.Close())
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
