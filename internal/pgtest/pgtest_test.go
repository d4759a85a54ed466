package pgtest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"go.uber.org/goleak"
)

const envHelper = "BRIM_PGTEST_HELPER"

func TestMain(m *testing.M) {
	if os.Getenv(envHelper) != "" {
		helper()
	}
	Main(m)
}

// helper is the main function of a process that starts a server, prints its URL and directory, and
// waits to be killed.
func helper() {
	s, err := Launch()
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println(s.URL(), s.dir)
	select {}
}

func TestServerEndsWithKilledProcess(t *testing.T) {
	skipShort(t)
	if findBinaries(exec.LookPath, places) == "" {
		NewServer(t) // installs the programs, or fails
	}
	for _, c := range []struct {
		name, tmp string
	}{
		{"default directory", os.TempDir()},
		{"private directory", t.TempDir()},
		{"directory that only its owner may write to", ownersOnly(t)},
	} {
		t.Run(c.name, func(t *testing.T) {
			cmd := exec.Command(os.Args[0])
			cmd.Env = append(os.Environ(), envHelper+"=1", "TMPDIR="+c.tmp)
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			line, err := bufio.NewReader(out).ReadString('\n')
			url, dir, ok := strings.Cut(strings.TrimSpace(line), " ")
			if err != nil || !ok || dir == "" {
				t.Fatalf("helper said %q: %v", line, err)
			}
			if err := ping(url); err != nil {
				t.Fatalf("the server does not answer while its process lives: %v", err)
			}
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			if err := cmd.Wait(); err == nil {
				t.Fatal("helper ended by itself")
			}
			for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(20 * time.Millisecond) {
				_, err := os.Stat(dir)
				if errors.Is(err, fs.ErrNotExist) {
					break
				}
				if time.Now().After(deadline) {
					t.Fatalf("the server's directory is still there: %v", err)
				}
			}
			if ping(url) == nil {
				t.Error("the server still answers")
			}
		})
	}
}

// ownersOnly returns a directory that everybody can reach and only its owner may write to.
func ownersOnly(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp(serverDir(os.TempDir(), true), "brim-pgtest-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestServerKeepsDataAndConfiguration(t *testing.T) {
	s := NewServer(t, "max_connections=17")
	ctx := t.Context()
	query := func(sql string) string {
		t.Helper()
		conn, err := pgx.Connect(ctx, s.URL())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close(ctx)
		var got string
		if err := conn.QueryRow(ctx, sql).Scan(&got); err != nil {
			t.Fatal(err)
		}
		return got
	}
	if got := query(`SHOW max_connections`); got != "17" {
		t.Errorf("max_connections is %s, want the 17 that was asked for", got)
	}
	if got := query(`SHOW fsync`); got != "on" {
		t.Errorf("fsync is %s: durability tests would prove nothing", got)
	}
	pool := s.Pool(t)
	if _, err := pool.Exec(ctx, `CREATE TABLE kept AS SELECT 'kept' AS word`); err != nil {
		t.Fatal(err)
	}
	for _, immediate := range []bool{true, false} {
		if err := s.Stop(immediate); err != nil {
			t.Fatal(err)
		}
		if ping(s.URL()) == nil {
			t.Fatal("a stopped server answers")
		}
		if err := s.Start("default_transaction_read_only=on"); err != nil {
			t.Fatal(err)
		}
		if got := query(`SELECT word FROM kept`); got != "kept" {
			t.Errorf("found %q after immediate=%v", got, immediate)
		}
		if got := query(`SHOW transaction_read_only`); got != "on" {
			t.Errorf("transaction_read_only is %s, want the on of this start", got)
		}
	}
}

func TestLaunchSaysWhyAServerDoesNotStart(t *testing.T) {
	skipShort(t)
	began := time.Now()
	s, err := Launch("no_such_setting=1")
	if err == nil {
		s.Close()
		t.Fatal("started with a setting that does not exist")
	}
	if !strings.Contains(err.Error(), "no_such_setting") {
		t.Errorf("error does not show the log: %v", err)
	}
	if took := time.Since(began); took > 30*time.Second {
		t.Errorf("took %v: a server that has ended is not waited for", took)
	}
}

func TestNothingLeaks(t *testing.T) {
	skipShort(t)
	before := goleak.IgnoreCurrent()
	s, err := Launch()
	if err != nil {
		t.Fatal(err)
	}
	goleak.VerifyNone(t, before) // a running server is no goroutine, so its tests may look for leaks
	dir := s.dir
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Errorf("closed again: %v", err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("directory after Close: %v", err)
	}
	goleak.VerifyNone(t, before)
}

func TestSchemaIsDropped(t *testing.T) {
	var name string
	exists := func() (yes bool) {
		t.Helper()
		const query = `SELECT EXISTS (SELECT FROM pg_namespace WHERE nspname = $1)`
		err := Pool(t).QueryRow(context.Background(), query, name).Scan(&yes)
		if err != nil {
			t.Fatal(err)
		}
		return yes
	}
	t.Run("use", func(t *testing.T) {
		name = Schema(t)
		if exists() {
			t.Error("exists before it is created")
		}
		if _, err := Pool(t).Exec(t.Context(), `CREATE SCHEMA `+name+`; CREATE TABLE `+name+`.t ()`); err != nil {
			t.Fatal(err)
		}
		if Schema(t) == name {
			t.Error("two schemas of one name")
		}
	})
	if exists() {
		t.Error("exists after its test")
	}
}

func TestCountGoesToTheFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "count")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv(envCount, path)
	shared.Lock()
	delete(shared.tests, t.Name()) // of an earlier run, under -count
	delete(shared.tests, t.Name()+"/other")
	shared.Unlock()
	for range 2 {
		count(t)
	}
	t.Run("other", func(t *testing.T) { count(t) })
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if want := t.Name() + "\n" + t.Name() + "/other\n"; string(got) != want {
		t.Errorf("counted %q, want every test once: %q", got, want)
	}
}
