package pgtest

import (
	"bufio"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestFindBinaries(t *testing.T) {
	root := t.TempDir()
	put := func(dir string, mode os.FileMode, names ...string) string {
		t.Helper()
		dir = filepath.Join(root, dir)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			if err := os.WriteFile(filepath.Join(dir, name), nil, mode); err != nil {
				t.Fatal(err)
			}
		}
		return dir
	}
	put("usr/9/bin", 0o755, "initdb", "postgres")
	newest := put("usr/17/bin", 0o755, "initdb", "postgres")
	put("usr/18/bin", 0o755, "psql")
	put("usr/19/bin", 0o644, "initdb", "postgres")
	path := put("path", 0o755, "initdb", "postgres")
	client := put("client", 0o755, "initdb")

	onPath := func(dir string) func(string) (string, error) {
		return func(name string) (string, error) { return filepath.Join(dir, name), nil }
	}
	nowhere := func(string) (string, error) { return "", errors.New("not on PATH") }
	pattern := []string{filepath.Join(root, "usr", "*", "bin")}
	cases := []struct {
		name, why string
		lookPath  func(string) (string, error)
		places    []string
		want      string
	}{
		{"path first", "a version on PATH is there by choice", onPath(path), pattern, path},
		{
			"newest", "17 is newer than 9, though it sorts before 9; 18 has no server, and 19 cannot be run",
			nowhere, pattern, newest,
		},
		{"client only", "initdb without postgres beside it is no server", onPath(client), pattern, newest},
		{"none", "the caller tries Docker next", nowhere, nil, ""},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			if got := findBinaries(c.lookPath, c.places); got != c.want {
				t.Errorf("found %q, want %q: %s", got, c.want, c.why)
			}
		})
	}
}

func TestMissingSaysWhatHelps(t *testing.T) {
	for _, word := range []string{"PostgreSQL", "Docker", envURL} {
		if err := missing(); !strings.Contains(err.Error(), word) {
			t.Errorf("%v: does not mention %s", err, word)
		}
	}
}

// TestDockerScript puts a program called docker on PATH, which records its arguments. The script
// must create, start and stop a container, and remove it with its data when the holder has gone.
func TestDockerScript(t *testing.T) {
	dir := t.TempDir()
	calls := filepath.Join(dir, "calls")
	fake := "#!/bin/sh\necho \"$*\" >>'" + calls + "'\n"
	if err := os.WriteFile(filepath.Join(dir, "docker"), []byte(fake), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	if !findDocker() {
		t.Fatal("the program called docker was not found")
	}
	s := &Server{port: 54321, conf: []string{"fsync=off"}}
	if err := s.initDocker(); err != nil {
		t.Fatal(err)
	}
	for _, command := range []string{"start", "stop QUIT"} {
		if err := s.super.Ask(command, 10*time.Second); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(s.log); err == nil {
		t.Error("the log is still there")
	}
	f, err := os.Open(calls)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	want := []string{
		"version ", "create --name brim-pgtest-", "start brim-pgtest-",
		"kill --signal QUIT brim-pgtest-", "wait brim-pgtest-", "rm --force --volumes brim-pgtest-",
	}
	const created = "--publish 127.0.0.1:54321:5432 " + image + " -c fsync=off"
	for lines := bufio.NewScanner(f); lines.Scan(); want = want[1:] {
		line := lines.Text()
		if len(want) == 0 || !strings.HasPrefix(line, want[0]) {
			t.Fatalf("docker was called with %q, want %q", line, want)
		}
		if strings.HasPrefix(line, "create") && !strings.HasSuffix(line, created) {
			t.Errorf("created with %q", line)
		}
	}
	if len(want) > 0 {
		t.Errorf("docker was not called with %q", want)
	}
}
