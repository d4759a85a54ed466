package bolt

import (
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"github.com/brimgo/brim/internal/differ"
	"github.com/brimgo/brim/store"
)

// TestBadOptions: every way to open a store refuses options that make no sense, says which of them,
// and creates nothing.
func TestBadOptions(t *testing.T) {
	for says, o := range map[string]Options{
		"MaxSkew is negative":                       {MaxSkew: -1},
		"SyncEvery is negative":                     {SyncEvery: -1},
		"SyncEvery needs a journal":                 {SyncEvery: 1, NoJournal: true},
		"LogSize is less than 64 KiB":               {LogSize: 1},
		"LogSize is more than 1 GiB":                {LogSize: 1<<30 + 1},
		"Name is longer than 255 bytes":             {Name: strings.Repeat("n", 256)},
		"it must be positive, or 0 for the default": {MaxSkew: -time.Hour},
	} {
		refused := func(how string, err error) {
			t.Helper()
			if err == nil || !strings.HasPrefix(err.Error(), "bolt: "+how) || !strings.Contains(err.Error(), says) {
				t.Errorf("%s: error %v, want %q", how, err, says)
			}
		}
		dir := t.TempDir()
		path := filepath.Join(dir, "limits.db")
		s, err := Open(path, &o)
		refused("open limits.db: ", err)
		leftOver(t, dir)
		db := openApp(t)
		n, err := New(db, &o)
		refused("new: ", err)
		if s != nil || n != nil {
			t.Errorf("%s: a store beside the error: %v, %v", says, s, n)
		}
		err = db.View(func(tx *bbolt.Tx) error {
			if name, _ := tx.Cursor().First(); name != nil {
				t.Errorf("%s: the bucket %q was created all the same", says, name)
			}
			return nil
		})
		must(t, err)
	}
}

// TestOptions checks the defaults that are documented, and that a choice is kept.
func TestOptions(t *testing.T) {
	defaults := Options{
		MaxSkew: store.DefaultMaxSkew, LockTimeout: 3 * time.Second, FileMode: 0o600, Name: "brim", PruneEvery: 10 * time.Minute,
	}
	chosen := Options{
		MaxSkew: 1, LockTimeout: 1, FileMode: 1, SyncEvery: 1, LogSize: 1 << 20, Name: "n", PruneEvery: 1,
		Logger: slog.New(slog.DiscardHandler), NoVerify: true,
	}
	longest := chosen
	longest.Name = strings.Repeat("n", 255)
	impatient := chosen
	impatient.LockTimeout, impatient.PruneEvery = -1, -1
	for _, c := range []struct {
		name  string
		given *Options
		want  Options
	}{
		{"nil", nil, defaults},
		{"zero", &Options{}, defaults},
		{"all chosen", &chosen, chosen},
		{"the longest name", &longest, longest},
		{"no wait and no pruning", &impatient, impatient},
	} {
		got, err := c.given.withDefaults()
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if got.Logger == nil {
			t.Errorf("%s: no logger", c.name)
		}
		got.Logger = c.want.Logger
		if d := differ.Fields(got, c.want); d != "" {
			t.Errorf("%s: %s", c.name, d)
		}
	}
}
