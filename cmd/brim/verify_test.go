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
	write := func(content []byte) {
		t.Helper()
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cli(t, "verify", "--store", path).want(t, exitOK, "sound: 3 values", "")

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
	r.want(t, exitData, "damaged: 2 findings; intact: 1 value", "")
	cli(t, "list", "--store", path).want(t, exitData, "beta", "left out")
	cli(t, "state", "beta", "--store", path).want(t, exitOK, "3", "values=2")
	var report reportJSON
	r = cli(t, "verify", "--store", path, "--json")
	if r.decode(t, &report); r.code != exitData || report.Sound ||
		len(report.Damage) != 2 || report.Damage[0].Key != "alpha" || report.Intact["brim"] != 1 {
		t.Errorf("exit status %d, %+v; want both damaged buckets and one intact", r.code, report)
	}
	cli(t, "reset", "alpha", "gamma", "--store", path).want(t, exitOK, "reset: 2", "values=2")
	cli(t, "verify", "--store", path).want(t, exitOK, "sound: 1 value", "")

	// A key: the file is refused.
	damaged = bytes.ReplaceAll(sound, []byte("beta\x01"), []byte("bfta\x01"))
	write(damaged)
	cli(t, "list", "--store", path).want(t, exitData, "", "restore the last backup")
	r = cli(t, "verify", "--store", path)
	r.want(t, exitData, `file: in the bucket "brim", 3 values were found where 3 with other contents belong`, "")
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
	cli(t, "verify", "--store", "memory:").want(t, exitUsage, "", "bbolt file")
	cli(t, "verify", "--store", filepath.Join(dir, "none.db")).want(t, exitAbsent, "", "no such file")
	cli(t, "verify", "--store", dir).want(t, exitUnavailable, "", "not a regular file")
	cli(t, "verify", "--store", other).want(t, exitData, "file: it is cut short", "")
	for name, want := range map[string]string{path: string(sound), other: "theirs"} {
		if content, err := os.ReadFile(name); err != nil || string(content) != want {
			t.Errorf("%s was changed, %v", name, err)
		}
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 2 {
		t.Errorf("the directory holds %v, %v; want two files", entries, err)
	}
}

func TestVerifyJournal(t *testing.T) {
	path, _ := filled(t)
	s, crashed := crash(t, path)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	// The first fill is in the file, and the two others of the same bucket are one change in the
	// journal.
	cli(t, "verify", "--store", crashed).want(t, exitOK, "sound: 4 values; the journal changes 1", "")
	var report reportJSON
	if cli(t, "verify", "--store", crashed, "--json").decode(t, &report); report.InJournal != 1 || report.Intact["brim"] != 4 {
		t.Errorf("as JSON: %+v; want 4 values in the file, of which the journal changes 1", report)
	}
	if r := cli(t, "doctor", "--store", crashed); !strings.Contains(r.stdout, "warning: journal: ") {
		t.Errorf("a journal in use: %+v", r)
	}
	if err := os.Remove(crashed + ".journal"); err != nil {
		t.Fatal(err)
	}
	cli(t, "verify", "--store", crashed).want(t, exitData, "journal: is missing", "")
	cli(t, "doctor", "--store", crashed).want(t, exitBroken, "broken: journal: the journal is missing", "")
	cli(t, "list", "--store", crashed).want(t, exitUnavailable, "", "put it back")
}
