package bolt

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.etcd.io/bbolt"
	"go.uber.org/goleak"

	"github.com/brimgo/brim/brimtest"
	"github.com/brimgo/brim/internal/boltfile"
	"github.com/brimgo/brim/internal/kv"
	"github.com/brimgo/brim/store"
)

// childRole is an environment variable. If it is set, this test binary is a program that uses a
// store and can be killed.
const childRole = "BRIM_BOLT_TEST_CHILD"

func TestMain(m *testing.M) {
	if role := os.Getenv(childRole); role != "" {
		os.Exit(child(role))
	}
	kv.DefaultSegment = 1 << 20 // half a journal: a journal of the default size is 64 MiB, for each test anew
	goleak.VerifyTestMain(m)
}

func newTestClock() *brimtest.Clock {
	return brimtest.NewClock(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
}

// Parts of the format of a file, which package kv writes.
var (
	formatKey    = []byte("format")
	fileFormat   = byte(1)
	watermarkKey = []byte("journal")
	markSize     = 49
)

// steady does not leak and is never full.
var steady = store.Limit{Capacity: 1 << 40}

func op(l store.Limit, key string, n float64, m store.Mode) store.Op {
	return store.Op{Bucket: l.For(key), Amount: n, Mode: m}
}

// must ends the test if there is an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func openAt(t testing.TB, path string, o *Options) *Store {
	t.Helper()
	s, err := Open(path, o)
	must(t, err)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func openTemp(t testing.TB, o *Options) *Store {
	t.Helper()
	return openAt(t, filepath.Join(t.TempDir(), "limits.db"), o)
}

// database returns the bbolt database of s.
func database(s *Store) (db *bbolt.DB) {
	_ = s.db.File().View(func(tx *bbolt.Tx) error { db = tx.DB(); return nil })
	return db
}

// lockFile keeps everybody from writing to the file, as a disk that hangs does. A goroutine of its
// own takes the lock, because package invariant would see the test take locks out of order.
func lockFile(t testing.TB, file *boltfile.File) {
	t.Helper()
	locked := make(chan error)
	go func() { locked <- file.Lock(context.Background()) }()
	must(t, <-locked)
}

func closeStore(t testing.TB, s store.Store) {
	t.Helper()
	must(t, s.Close())
}

func mustFill(t testing.TB, s store.Store, op store.Op) store.State {
	t.Helper()
	st, err := s.Fill(context.Background(), op)
	must(t, err)
	return st
}

func mustApply(t testing.TB, s store.Store, txns ...store.Txn) []store.Result {
	t.Helper()
	results, err := s.Apply(context.Background(), txns...)
	must(t, err)
	return results
}

func fillup(t testing.TB, s store.Store, key string, n float64) store.State {
	t.Helper()
	return mustFill(t, s, op(steady, key, n, store.Always))
}

func levelIs(t testing.TB, s store.Store, key string, want float64) {
	t.Helper()
	st, err := s.Read(context.Background(), store.Bucket{Key: key})
	must(t, err)
	if st[0].Level != want {
		t.Errorf("level of %q is %v, want %v", key, st[0].Level, want)
	}
}

// failsWith checks that err is target, is an error of this package on one line, and contains
// words.
func failsWith(t testing.TB, err, target error, words ...string) {
	t.Helper()
	if !errors.Is(err, target) {
		t.Fatalf("error %v; want %v", err, target)
	}
	if e := (*store.Error)(nil); !errors.As(err, &e) || e.Backend != "bolt" {
		t.Errorf("error %v is no *store.Error of bolt", err)
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("error %q does not say %q", err, w)
		}
	}
	if strings.Contains(err.Error(), "\n") {
		t.Errorf("error %q is more than a line", err)
	}
}

func bytesOf(t testing.TB, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	must(t, err)
	return b
}

// roles are the main functions of child processes. Each takes the path of a file.
var roles = map[string]func(path string) error{
	"open": childOpen,
}

// child runs one of the roles.
func child(role string) int {
	path := os.Getenv("BRIM_BOLT_TEST_PATH")
	run, ok := roles[role]
	if !ok {
		fmt.Println("no such role:", role)
		return 64
	}
	if err := run(path); err != nil {
		fmt.Println("error:", err)
		return 1
	}
	return 0
}

func childCommand(role, path string) *exec.Cmd {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childRole+"="+role, "BRIM_BOLT_TEST_PATH="+path,
		"GORACE=atexit_sleep_ms=0") // the race detector would have each child sleep for a second
	return cmd
}

// leftOver checks that a directory holds the given files and no others.
func leftOver(t *testing.T, dir string, names ...string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	must(t, err)
	var got []string
	for _, e := range entries {
		got = append(got, e.Name())
	}
	if strings.Join(got, " ") != strings.Join(names, " ") {
		t.Errorf("the directory holds %v, want %v", got, names)
	}
}
