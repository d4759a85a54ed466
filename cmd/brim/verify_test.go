package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// filled returns a file with three buckets.
func filled(t *testing.T) (path string, content []byte) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "limits.db")
	for _, key := range []string{"alpha", "beta", "gamma"} {
		cli(t, "try", key, "3", "--capacity", "10", "--leak-rate", "0", "--store", path).want(t, exitOK, "accepted", "")
	}
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return path, content
}

func TestVerify(t *testing.T) {
	path, sound := filled(t)
	dir := t.TempDir()
	to := func(name string) string { return filepath.Join(dir, name) }
	write := func(content []byte) {
		t.Helper()
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cli(t, "verify", "--store", path).want(t, exitOK, "sound: 3 values", "")
	cli(t, "verify", "--store", path, "--salvage", to("all.db")).want(t, exitOK, "all 3 values", "")
	cli(t, "list", "--store", to("all.db")).want(t, exitOK, "gamma", "")

	// Every record of two buckets, in the live page and in free ones.
	damaged := bytes.Clone(sound)
	for i := range damaged {
		for _, key := range []string{"alpha\x01", "gamma\x01"} { // a key and the format of its record
			if bytes.HasPrefix(damaged[i:], []byte(key)) {
				damaged[i+len(key)+3] ^= 0xFF
			}
		}
	}
	write(damaged)
	r := cli(t, "verify", "--store", path)
	r.want(t, exitData, "bucket alpha: does not match its checksums", "")
	r.want(t, exitData, "bucket gamma: does not match its checksums", "")
	r.want(t, exitData, "damaged: 2 findings; 1 values are intact", "")
	cli(t, "list", "--store", path).want(t, exitData, "beta", "left out")
	cli(t, "state", "beta", "--store", path).want(t, exitOK, "3", "values=2")
	var report reportJSON
	r = cli(t, "verify", "--store", path, "--salvage", to("some.db"), "--json")
	if r.decode(t, &report); r.code != exitData || report.Sound || report.Whole == nil || *report.Whole ||
		len(report.Damage) != 2 || report.Damage[0].Key != "alpha" || report.Intact["brim"] != 1 {
		t.Errorf("exit status %d, %+v; want both damaged buckets and one intact", r.code, report)
	}
	cli(t, "verify", "--store", to("some.db")).want(t, exitOK, "sound: 1 values", "")
	cli(t, "reset", "alpha", "gamma", "--store", path).want(t, exitOK, "reset: 2", "values=2")
	cli(t, "verify", "--store", path).want(t, exitOK, "sound: 1 values", "")

	// A key: the file is refused, and the salvage brings back the rest.
	damaged = bytes.ReplaceAll(sound, []byte("beta\x01"), []byte("bfta\x01"))
	write(damaged)
	cli(t, "list", "--store", path).want(t, exitData, "", `"brim verify --salvage NEW"`)
	r = cli(t, "verify", "--store", path, "--salvage", to("rest.db"))
	r.want(t, exitData, "bucket bfta: does not match its checksums, and its key may be wrong", "")
	cli(t, "list", "--store", to("rest.db")).want(t, exitOK, "alpha", "")
	if after, err := os.ReadFile(path); err != nil || !bytes.Equal(after, damaged) {
		t.Errorf("verify has changed the file, %v", err)
	}
}

func TestVerifyRefuses(t *testing.T) {
	path, sound := filled(t)
	dir := filepath.Dir(path)
	other := filepath.Join(dir, "other")
	if err := os.WriteFile(other, []byte("theirs"), 0o600); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(dir, "link")
	if err := os.Symlink(filepath.Join(dir, "nowhere"), link); err != nil {
		t.Fatal(err)
	}
	for _, target := range []string{path, other, link} {
		cli(t, "verify", "--store", path, "--salvage", target).want(t, exitUsage, "", "there is a file of that name")
	}
	for name, want := range map[string]string{path: string(sound), other: "theirs"} {
		if content, err := os.ReadFile(name); err != nil || string(content) != want {
			t.Errorf("%s was changed, %v", name, err)
		}
	}
	cli(t, "verify", "--store", "memory:").want(t, exitUsage, "", "bbolt file")
	cli(t, "verify", "--store", path, "--forget", "a").want(t, exitUsage, "", "need --salvage")
	cli(t, "verify", "--store", filepath.Join(dir, "none.db")).want(t, exitUnavailable, "", "no such file")
	cli(t, "verify", "--store", dir).want(t, exitUnavailable, "", "not a regular file")
	cli(t, "verify", "--store", other).want(t, exitData, "", "nothing can be salvaged")
	cli(t, "verify", "--store", path, "--salvage", filepath.Join(dir, "no", "new.db")).
		want(t, exitUnavailable, "", "create the directory first")
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 3 {
		t.Errorf("the directory holds %v, %v; want three files", entries, err)
	}
	for _, e := range entries {
		if strings.Contains(e.Name(), ".new-") {
			t.Errorf("%s is left", e.Name())
		}
	}
}

func TestVerifyJournal(t *testing.T) {
	path, _ := filled(t)
	s, crashed := crash(t, path)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	to := filepath.Join(t.TempDir(), "new.db")
	cli(t, "verify", "--store", crashed).want(t, exitOK, "sound: ", "")
	if r := cli(t, "doctor", "--store", crashed); !strings.Contains(r.stdout, "warning: journal: ") {
		t.Errorf("a journal in use: %+v", r)
	}
	cli(t, "verify", "--store", crashed, "--salvage", to).want(t, exitOK, "all 4 values", "")
	cli(t, "state", "delta", "--store", to).want(t, exitOK, "3", "")
	if err := os.Remove(crashed + ".journal"); err != nil {
		t.Fatal(err)
	}
	cli(t, "verify", "--store", crashed).want(t, exitData, "journal: is missing", "")
	cli(t, "doctor", "--store", crashed).want(t, exitBroken, "broken: journal: the journal is missing", "")
	cli(t, "list", "--store", crashed).want(t, exitUnavailable, "", "put it back")
	cli(t, "verify", "--store", crashed, "--salvage", to+"2").want(t, exitData, "journal: is missing", "")
	cli(t, "list", "--store", to+"2").want(t, exitOK, "alpha", "")
}
