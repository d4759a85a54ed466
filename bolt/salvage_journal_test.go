package bolt

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.etcd.io/bbolt"

	"github.com/brimgo/brim/internal/boltfile"
	"github.com/brimgo/brim/internal/journal"
	"github.com/brimgo/brim/store"
)

// crashed returns a file and its journal as a crash leaves them. The file has the buckets "old",
// "gone" and "first"; the journal has a fill of each key of keys, a commit each, and the removal of
// "gone".
func crashed(t *testing.T, keys ...string) (file, log []byte) {
	t.Helper()
	s := openTemp(t, &Options{journalRegion: 64 << 10})
	fillup(t, s, "old", 1)
	fillup(t, s, "gone", 1)
	fillup(t, s, "first", 1)
	if err := s.logged.writeBack(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, key := range keys {
		fillup(t, s, key, 1)
	}
	if err := s.Delete(t.Context(), "gone"); err != nil {
		t.Fatal(err)
	}
	return bytesOf(t, s.file.Path()), bytesOf(t, s.logged.path)
}

// place writes a file and its journal, unless that is nil.
func place(t *testing.T, file, log []byte) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "limits.db")
	for name, content := range map[string][]byte{path: file, path + journalSuffix: log} {
		if content == nil {
			continue
		}
		if err := os.WriteFile(name, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return path
}

// levels returns the levels of all buckets in a file without a journal.
func levels(t *testing.T, path string) string {
	t.Helper()
	s := openAt(t, path, nil)
	defer closeStore(t, s)
	page, err := s.Scan(t.Context(), "", "", 100)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, e := range page {
		all = append(all, fmt.Sprint(e.Key, "=", e.Level))
	}
	return strings.Join(all, " ")
}

// frame returns the place of a frame in a journal, by the key in it.
func frame(t *testing.T, log []byte, key string) int {
	t.Helper()
	at := bytes.LastIndex(log, []byte(key))
	if at < 0 {
		t.Fatalf("no frame has %q", key)
	}
	return at
}

func TestSalvageJournal(t *testing.T) {
	file, log := crashed(t, "uno", "two", "old", "three")
	_, foreign := crashed(t, "theirs")
	changed := func(change func(log []byte) []byte) []byte { return change(bytes.Clone(log)) }
	settled := openTemp(t, nil)
	fillup(t, settled, "settled", 1)
	closeStore(t, settled)
	unmarked := bytesOf(t, settled.file.Path())
	begun := openTemp(t, &Options{journalRegion: 64 << 10})
	for range 3 { // the first goes to the file, and the second begins the journal
		fillup(t, begun, "k", 1)
	}
	const all = "first=1 old=2 three=1 two=1 uno=1"
	for _, c := range []struct {
		name      string
		file, log []byte
		findings  []string
		levels    string
	}{
		{"whole", file, log, nil, all},
		{"torn end", file, changed(func(b []byte) []byte { b[frame(t, b, "gone")]++; return b }), nil, "first=1 gone=1 old=2 three=1 two=1 uno=1"},
		{"missing", file, nil, []string{"journal: is missing"}, "first=1 gone=1 old=1"},
		{"foreign", file, foreign, []string{"journal: is that of another file"}, "first=1 gone=1 old=1"},
		{"first page", file, changed(func(b []byte) []byte { b[3]++; return b }), []string{"journal: has a damaged first page"}, all},
		{"newer format", file, changed(func(b []byte) []byte { b[16]++; return b }), []string{"journal: was written by a newer version"}, "first=1 gone=1 old=1"},
		{"cut short", file, log[:len(log)-4096], []string{"journal: has "}, all},
		{
			"damaged frame", file, changed(func(b []byte) []byte { b[frame(t, b, "two")+4]++; return b }),
			[]string{
				"journal: lacks the commit ",
				"journal: may have had the newest change of any bucket in the part that is missing; only the 3 buckets that changed after it",
				"bucket two: may have lost",
			},
			"first=1 old=2 three=1 uno=1",
		},
		{
			"damaged first frame", file, changed(func(b []byte) []byte { b[frame(t, b, "uno")+4]++; return b }),
			[]string{"journal: lacks the commit ", "journal: may have had the newest change", "bucket uno: may have lost"},
			"first=1 old=2 three=1 two=1",
		},
		{
			"a later change of the bucket is there", file, changed(func(b []byte) []byte {
				copy(b[frame(t, b, "two"):], "old")
				return b
			}),
			[]string{"journal: lacks the commit ", "journal: may have had the newest change"},
			"first=1 old=2 three=1 uno=1",
		},
		{"of nobody", unmarked, log, []string{"journal: belongs to another file"}, "settled=1"},
		{"of nobody, one commit", unmarked, bytesOf(t, begun.logged.path), []string{"journal: belongs to another file"}, "settled=1"},
		{"none", unmarked, nil, nil, "settled=1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := place(t, c.file, c.log)
			r, err := boltfile.ReadRemains(t.Context(), path, 0, func(uint64, uint64) {})
			if err != nil {
				t.Fatal(err)
			}
			to := filepath.Join(t.TempDir(), "new.db")
			examined, err := boltfile.Examine(t.Context(), r, Salvor())
			if err != nil {
				t.Fatal(err)
			}
			report, err := boltfile.Salvage(t.Context(), r, to, Salvor())
			if err != nil {
				t.Fatal(err)
			}
			if err := r.Close(); err != nil {
				t.Fatal(err)
			}
			for _, findings := range [][]boltfile.Finding{examined.Findings, report.Findings} {
				ok := len(findings) == len(c.findings)
				for i := range findings {
					text := strings.ReplaceAll(findings[i].What+" "+findings[i].Key, "journal ", "journal") + ": " + findings[i].Problem
					ok = ok && strings.HasPrefix(text, c.findings[i])
					// The key of a frame that is damaged may be wrong.
					ok = ok && findings[i].Doubtful == strings.HasPrefix(text, "bucket ")
				}
				if !ok {
					t.Errorf("findings %+v, want %q", findings, c.findings)
				}
			}
			if whole := len(c.findings) == 0; report.Whole != whole {
				t.Errorf("whole: %v, want %v", report.Whole, whole)
			}
			if got := levels(t, to); got != c.levels {
				t.Errorf("the new file has %s, want %s", got, c.levels)
			}
			if !bytes.Equal(bytesOf(t, path), c.file) || c.log != nil && !bytes.Equal(bytesOf(t, path+journalSuffix), c.log) {
				t.Error("the file or the journal was changed")
			}
		})
	}
}

// TestSalvageNewerJournal: the file is that of an earlier time. The journal has overwritten some of
// the changes since.
func TestSalvageNewerJournal(t *testing.T) {
	s := openTemp(t, &Options{journalRegion: 4096})
	fillup(t, s, "k", 1)
	fillup(t, s, "k", 1)
	old := bytesOf(t, s.file.Path())
	for range 300 {
		fillup(t, s, "k", 1)
	}
	path := place(t, old, bytesOf(t, s.logged.path))
	r, err := boltfile.ReadRemains(t.Context(), path, 0, func(uint64, uint64) {})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	to := filepath.Join(t.TempDir(), "new.db")
	report, err := boltfile.Salvage(t.Context(), r, to, Salvor())
	if err != nil || report.Whole || !slices.ContainsFunc(report.Findings, func(f boltfile.Finding) bool {
		return strings.HasPrefix(f.Problem, "is newer than the file")
	}) {
		t.Errorf("%+v, %v", report, err)
	}
	if got := levels(t, to); got != "k=302" {
		t.Errorf("the new file has %s", got)
	}
}

// TestSalvagedMark: a salvaged file has no mark of a journal.
func TestSalvagedMark(t *testing.T) {
	file, log := crashed(t, "one")
	r, err := boltfile.ReadRemains(t.Context(), place(t, file, log), 0, func(uint64, uint64) {})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	to := filepath.Join(t.TempDir(), "new.db")
	if _, err := boltfile.Salvage(t.Context(), r, to, Salvor()); err != nil {
		t.Fatal(err)
	}
	db, err := bbolt.Open(to, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err := db.View(func(tx *bbolt.Tx) error {
		_, meta, err := layoutOf(defaultName).table.Find(tx)
		if err == nil && meta.Get(markKey) != nil {
			t.Error("the salvaged file has a mark")
		}
		if totals, err := layoutOf(defaultName).table.Totals(meta); err != nil || totals.Time == 0 {
			t.Errorf("the highest time is %d, %v", totals.Time, err)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
}

// TestSalvagedTime: the highest time of a salvaged file is that of the last flush that the journal
// has, or that of the file if the journal has none. A store then does not go back behind it.
func TestSalvagedTime(t *testing.T) {
	file, log := crashed(t, "one")
	settled := openTemp(t, nil)
	fillup(t, settled, "settled", 1)
	closeStore(t, settled)
	for _, c := range []struct {
		name      string
		file, log []byte
	}{
		{"changes in the journal", file, log},
		{"no journal", bytesOf(t, settled.file.Path()), nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := place(t, c.file, c.log)
			r, err := boltfile.ReadRemains(t.Context(), path, 0, func(uint64, uint64) {})
			if err != nil {
				t.Fatal(err)
			}
			journaled, err := readBeside(r)
			if err != nil {
				t.Fatal(err)
			}
			to := filepath.Join(t.TempDir(), "new.db")
			_, err = boltfile.Salvage(t.Context(), r, to, Salvor())
			if err := errors.Join(err, r.Close()); err != nil {
				t.Fatal(err)
			}
			before := highestTime(t, path)
			if c.log != nil && journaled.highest <= before {
				t.Fatalf("the journal ends at %d, not after the file, which ends at %d", journaled.highest, before)
			}
			if got, want := highestTime(t, to), max(before, journaled.highest); got != want {
				t.Errorf("the highest time is %d, want %d", got, want)
			}
		})
	}
}

// TestJournalThatCannotBeRead: a journal that the system does not let anybody read is no damage,
// and no reason to go on without it.
func TestJournalThatCannotBeRead(t *testing.T) {
	file, _ := crashed(t, "one")
	path := place(t, file, nil)
	if err := os.Mkdir(path+journalSuffix, 0o700); err != nil {
		t.Fatal(err)
	}
	r, err := boltfile.ReadRemains(t.Context(), path, 0, func(uint64, uint64) {})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	to := filepath.Join(t.TempDir(), "new.db")
	_, examined := boltfile.Examine(t.Context(), r, Salvor())
	_, salvaged := boltfile.Salvage(t.Context(), r, to, Salvor())
	_, _, tables := SalvageTables(r)
	for name, err := range map[string]error{"examine": examined, "salvage": salvaged, "tables": tables} {
		if !errors.Is(err, store.ErrUnavailable) || !strings.Contains(err.Error(), "its journal: ") {
			t.Errorf("%s: error %v; want ErrUnavailable that names the journal", name, err)
		}
	}
	if _, err := os.Stat(to); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("there is a new file: %v", err)
	}
}

// TestTornTables: a damaged commit of tables tells of no bucket, whatever its bytes look like.
func TestTornTables(t *testing.T) {
	v := &view{dirty: []*entry{{key: "k", present: true}}}
	body := v.appendChanges(nil, 100, true)
	tables := bytes.Clone(body)
	tables[0] |= ofTables
	for _, c := range []struct {
		name string
		torn []byte
		want int
	}{
		{"of buckets", body, 2},
		{"of tables", tables, 1},
	} {
		var b beside
		b.doubt(&journal.Remains{Torn: [][]byte{c.torn}})
		if len(b.findings) != c.want || !strings.Contains(b.findings[0].Problem, "only the 0 buckets") {
			t.Errorf("%s: findings %+v, want %d", c.name, b.findings, c.want)
		}
	}
}

func TestCheckJournal(t *testing.T) {
	file, log := crashed(t, "one")
	for _, c := range []struct {
		name, want, says string
		log              []byte
	}{
		{"there", "warning journal", "whose journal of 0 MiB has 2 commits", log},
		{"missing", "broken journal", "", nil},
	} {
		findings, err := Check(t.Context(), place(t, file, c.log))
		if err != nil || !slices.ContainsFunc(findings, func(f store.Finding) bool {
			return fmt.Sprint(f.Severity, " ", f.Subject) == c.want && strings.Contains(f.Problem, c.says)
		}) {
			t.Errorf("%s: %+v, %v; want %s that says %q", c.name, findings, err, c.want, c.says)
		}
	}
}

// TestDecodeMark: a mark of another length is none, whatever its bytes are.
func TestDecodeMark(t *testing.T) {
	whole := make([]byte, markSize-boltfile.SealSize)
	for length, want := range map[int]bool{len(whole): true, len(whole) - 1: false, 0: false} {
		if m, ok := decodeMark(whole[:length]); ok != want || m != (mark{}) {
			t.Errorf("%d bytes: %+v, %v; want %v", length, m, ok, want)
		}
	}
}

// TestWholeTables: SalvageTables tells whether the journal beside a file may lack changes of tables
// that the file needs.
func TestWholeTables(t *testing.T) {
	file, log := crashed(t, "uno")
	settled := openTemp(t, nil)
	fillup(t, settled, "settled", 1)
	closeStore(t, settled)
	unmarked := bytesOf(t, settled.file.Path())
	made := filepath.Join(t.TempDir(), "made")
	j, err := journal.Create(made, &journal.Options{Region: 64 << 10})
	if err == nil {
		err = j.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	damaged := bytes.Clone(log)
	damaged[frame(t, log, "uno")+4]++
	for _, c := range []struct {
		why       string
		file, log []byte
		whole     bool
	}{
		{"the journal is as the crash left it", file, log, true},
		{"a commit in the middle is damaged", file, damaged, false},
		{"the journal is missing, and the file needs it", file, nil, false},
		{"the file needs no journal", unmarked, nil, true},
		{"a crash came after the journal was made, and before the file referred to it", unmarked, bytesOf(t, made), true},
		{"the journal has commits, and may be that of a newer copy of the file", unmarked, log, false},
	} {
		r, err := boltfile.ReadRemains(t.Context(), place(t, c.file, c.log), 0, func(uint64, uint64) {})
		if err != nil {
			t.Fatal(err)
		}
		_, whole, err := SalvageTables(r)
		if err := errors.Join(err, r.Close()); err != nil || whole != c.whole {
			t.Errorf("%s: whole %v, %v; want %v", c.why, whole, err, c.whole)
		}
	}
}
