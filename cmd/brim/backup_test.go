package main

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/brimgo/brim/bolt"
	"github.com/brimgo/brim/store"
)

// crash opens the file at path and changes a bucket, and returns the store and a copy of the file
// and its journal as a crash leaves them: the last changes are in the journal alone.
func crash(t *testing.T, path string) (s *bolt.Store, crashed string) {
	t.Helper()
	s, err := bolt.Open(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if _, err := s.Fill(t.Context(), store.Op{Bucket: store.Limit{Capacity: 100}.For("delta"), Amount: 1}); err != nil {
			t.Fatal(err)
		}
	}
	crashed = filepath.Join(t.TempDir(), "crashed.db")
	for _, suffix := range []string{"", ".journal"} {
		content, err := os.ReadFile(path + suffix)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(crashed+suffix, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return s, crashed
}

func TestBackup(t *testing.T) {
	path, _ := filled(t)
	to := filepath.Join(t.TempDir(), "new.db")
	cli(t, "backup", to, "--store", path).want(t, exitOK, "backed up to "+to+": 3 buckets, ", "")
	cli(t, "verify", "--store", to).want(t, exitOK, "sound: 3 values", "")
	cli(t, "state", "beta", "--store", to).want(t, exitOK, "3", "")

	s, crashed := crash(t, path)
	cli(t, "backup", to+"2", "--store", path).want(t, exitUnavailable, "", "Store.Backup")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	var told struct {
		Backup  string `json:"backup"`
		Bytes   int64  `json:"bytes"`
		Buckets uint64 `json:"buckets"`
		Ledger  uint64 `json:"ledger_values"`
	}
	cli(t, "backup", to+"2", "--store", crashed, "--json").decode(t, &told)
	info, err := os.Stat(to + "2")
	if err != nil || told.Backup != to+"2" || told.Bytes != info.Size() || told.Buckets != 4 || told.Ledger != 0 {
		t.Errorf("%+v of %v, %v", told, info, err)
	}
	cli(t, "state", "delta", "--store", to+"2").want(t, exitOK, "3", "")
}

func TestBackupRefuses(t *testing.T) {
	path, sound := filled(t)
	dir := filepath.Dir(path)
	other := filepath.Join(dir, "other")
	if err := os.WriteFile(other, []byte("theirs"), 0o600); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(filepath.Join(dir, "nowhere"), link); err != nil {
		t.Fatal(err)
	}
	for _, target := range []string{path, other, link} {
		cli(t, "backup", target, "--store", path).want(t, exitUsage, "", "there is a file of that name")
	}
	if content, err := os.ReadFile(other); err != nil || string(content) != "theirs" {
		t.Errorf("the other file holds %q, %v", content, err)
	}
	cli(t, "backup", "--store", path).want(t, exitUsage, "", "FILE is missing")
	cli(t, "backup", other+"2", "--store", "memory:").want(t, exitUsage, "", "a bbolt file or a SQLite database; give its name")
	cli(t, "backup", other+"2", "--store", filepath.Join(dir, "none.db")).want(t, exitAbsent, "", "no such file")
	cli(t, "backup", filepath.Join(dir, "none", "new.db"), "--store", path).
		want(t, exitUnavailable, "", "create the directory first")
	damaged := bytes.ReplaceAll(sound, []byte("beta\x01"), []byte("bfta\x01"))
	if err := os.WriteFile(path, damaged, 0o600); err != nil {
		t.Fatal(err)
	}
	cli(t, "backup", other+"2", "--store", path).want(t, exitData, "", "restore the last backup")
	if _, err := os.Stat(other + "2"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a backup is there, %v", err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 2 {
		t.Errorf("the directory holds %v, %v; want two files", entries, err)
	}
}

// TestRestore does what the errors about damage advise: it moves the file and its journal away, and
// puts the last backup in the place of the file.
func TestRestore(t *testing.T) {
	path, _ := filled(t)
	backup := filepath.Join(t.TempDir(), "backup.db")
	cli(t, "backup", backup, "--store", path).want(t, exitOK, "3 buckets", "")
	s, crashed := crash(t, path)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(crashed)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(crashed, bytes.ReplaceAll(content, []byte("beta\x01"), []byte("bfta\x01")), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, command := range []string{"list", "prune"} {
		cli(t, command, "--store", crashed).
			want(t, exitData, "", "move the file and its journal away and restore the last backup")
	}
	cli(t, "doctor", "--store", crashed).want(t, exitBroken, "restore the last backup", "")
	for _, suffix := range []string{"", ".journal"} {
		if err := os.Rename(crashed+suffix, crashed+".old"+suffix); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Rename(backup, crashed); err != nil {
		t.Fatal(err)
	}
	cli(t, "verify", "--store", crashed).want(t, exitOK, "sound: 3 values", "")
	cli(t, "state", "beta", "--store", crashed).want(t, exitOK, "3", "")
	cli(t, "try", "beta", "1", "--capacity", "10", "--leak-rate", "0", "--store", crashed).want(t, exitOK, "accepted", "")
}
