package bolt

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.etcd.io/bbolt"

	"github.com/brimgo/brim/internal/paging"
	"github.com/brimgo/brim/internal/seed"
	"github.com/brimgo/brim/store"
)

// smallFile creates a file with a branch page, leaf pages, free pages and deleted buckets.
func smallFile(t testing.TB) (path string, levels map[string]float64) {
	t.Helper()
	path, levels = filepath.Join(t.TempDir(), "limits.db"), make(map[string]float64)
	s := openAt(t, path, nil)
	r := rand.New(rand.NewPCG(1, 2))
	for range 12 {
		var txns []store.Txn
		for range 30 {
			key := fmt.Sprintf("key %03d", r.IntN(150))
			n := float64(1 + r.IntN(9))
			levels[key] += n
			txns = append(txns, store.Txn{op(steady, key, n, store.Always)})
		}
		mustApply(t, s, txns...)
	}
	for i := 0; i < 150; i += 10 {
		key := fmt.Sprintf("key %03d", i)
		delete(levels, key)
		must(t, s.Delete(context.Background(), key))
	}
	closeStore(t, s)
	return path, levels
}

// isWhole reads all buckets of the store and reports whether they are exactly levels. The caller
// checks that every error is ErrCorrupt.
func isWhole(t *testing.T, s *Store, levels map[string]float64) (whole bool, err error) {
	ctx := context.Background()
	entries, err := paging.All(ctx, s, "")
	if err != nil {
		return false, err
	}
	if len(entries) != len(levels) {
		return false, nil
	}
	for _, e := range entries {
		states, err := s.Read(ctx, store.Bucket{Key: e.Key})
		if err != nil {
			return false, err
		}
		if level, ok := levels[e.Key]; !ok || e.Level != level || states[0].Level != level {
			return false, nil
		}
	}
	return true, nil
}

// TestFlippedBits flips bits all over a file. Open refuses the file and names the remedy, or every
// bucket has the level that was written, apart from a single one that is damaged and says so. bbolt
// alone would go back a commit, miss buckets, panic, or read memory that is not mapped.
func TestFlippedBits(t *testing.T) {
	t.Parallel()
	path, levels := smallFile(t)
	sound := bytesOf(t, path)
	s := openAt(t, path, nil)
	if whole, err := isWhole(t, s, levels); !whole {
		t.Fatalf("the sound file has wrong levels: %v", err)
	}
	used := usedBytes(t, s)
	closeStore(t, s)

	leaves := leafPages(sound)
	r := rand.New(rand.NewPCG(3, 4))
	at := filepath.Join(t.TempDir(), "flipped.db")
	refused, intact, alone := 0, 0, 0
	flips := seed.Attempts(50, 1500)
	for i := range flips {
		flipped := bytes.Clone(sound)
		offset := r.IntN(used)
		switch i % 4 {
		case 0: // a flip does most harm in headers and entries, at the beginnings of pages
			offset = r.IntN(used/os.Getpagesize())*os.Getpagesize() + r.IntN(200)
		case 1, 2: // records are in few pages of the file
			offset = leaves[r.IntN(len(leaves))]*os.Getpagesize() + r.IntN(os.Getpagesize())
		}
		bit := byte(1) << r.IntN(8)
		flipped[offset] ^= bit
		must(t, os.WriteFile(at, flipped, 0o600))
		s, err := Open(at, nil)
		switch {
		case err == nil:
		case errors.Is(err, errors.ErrUnsupported):
			refused++
			continue
		case !errors.Is(err, store.ErrCorrupt) || !strings.Contains(err.Error(), "restore the last backup"):
			t.Fatalf("byte %d, bit %#x: error %v, want ErrCorrupt and the remedy", offset, bit, err)
		default:
			refused++
			continue
		}
		damaged := damagedIn(t, s, levels)
		switch {
		case len(damaged) > 1:
			t.Fatalf("byte %d, bit %#x: one flip has damaged %q", offset, bit, damaged)
		case len(damaged) == 0:
			intact++
		default:
			alone++
			resetMends(t, s, levels, damaged[0])
		}
		closeStore(t, s)
	}
	t.Logf("%d flips: %d refused, %d in a single record, %d in bytes that mean nothing", flips, refused, alone, intact)
	if refused < flips/10 || intact < flips/10 || alone < flips/40 {
		t.Errorf("%d refused, %d alone and %d intact: the test has not tested much", refused, alone, intact)
	}
}

// damagedIn returns the keys that answer ErrCorrupt. All other buckets must have their level, and
// absent ones must be empty. Visit must list the rest.
func damagedIn(t *testing.T, s *Store, levels map[string]float64) (damaged []string) {
	t.Helper()
	ctx := context.Background()
	for i := range 160 {
		key := fmt.Sprintf("key %03d", i)
		states, err := s.Read(ctx, store.Bucket{Key: key})
		switch {
		case errors.Is(err, store.ErrCorrupt):
			damaged = append(damaged, key)
		case err != nil:
			t.Fatal(err)
		case states[0].Level != levels[key]:
			t.Fatalf("level %v of %q, want %v", states[0].Level, key, levels[key])
		}
	}
	entries, err := paging.All(ctx, s, "")
	if (err != nil) != (len(damaged) > 0) || err != nil && !errors.Is(err, store.ErrCorrupt) {
		t.Fatalf("Visit with %d damaged buckets: %v", len(damaged), err)
	}
	if len(entries) != len(levels)-len(damaged) {
		t.Fatalf("Visit lists %d buckets, want %d", len(entries), len(levels)-len(damaged))
	}
	for _, e := range entries {
		if e.Level != levels[e.Key] {
			t.Fatalf("Visit: level %v of %q, want %v", e.Level, e.Key, levels[e.Key])
		}
	}
	return damaged
}

// resetMends deletes a damaged bucket. The file is then whole without it, also after a restart.
func resetMends(t *testing.T, s *Store, levels map[string]float64, key string) {
	t.Helper()
	ctx := context.Background()
	if _, err := s.Fill(ctx, op(steady, key, 1, store.Always)); !errors.Is(err, store.ErrCorrupt) {
		t.Fatalf("a fill of the damaged bucket: %v", err)
	}
	must(t, s.Delete(ctx, key))
	left := maps.Clone(levels)
	delete(left, key)
	path := s.db.File().Path()
	closeStore(t, s)
	s = openAt(t, path, nil)
	if err := s.Verify(ctx); err != nil {
		t.Fatalf("after a Reset: %v", err)
	}
	if damaged := damagedIn(t, s, left); len(damaged) > 0 {
		t.Fatalf("after a Reset %q are damaged", damaged)
	}
	closeStore(t, s)
}

// usedBytes returns the size of the part of the file that has pages in it.
func usedBytes(t *testing.T, s *Store) (size int) {
	t.Helper()
	err := s.db.File().View(func(tx *bbolt.Tx) error { size = int(tx.Size()); return nil })
	must(t, err)
	return size
}

// TestFlippedBitsUnverified opens the damaged files without a check. A call that uses a damaged
// record must answer ErrCorrupt, and all other calls the right level. A bucket may be missing;
// Verify must find that.
func TestFlippedBitsUnverified(t *testing.T) {
	t.Parallel()
	path, levels := smallFile(t)
	sound := bytesOf(t, path)
	at := filepath.Join(t.TempDir(), "flipped.db")
	leaves := leafPages(sound)
	r := rand.New(rand.NewPCG(5, 6))
	ctx := context.Background()
	found := 0
	flips := seed.Attempts(15, 200)
	for range flips {
		flipped := bytes.Clone(sound)
		// Only records are damaged: a wrong page number could make bbolt loop for ever, which is
		// why Open checks the pages.
		offset := leaves[r.IntN(len(leaves))]*os.Getpagesize() + os.Getpagesize()/2 + r.IntN(os.Getpagesize()/2)
		flipped[offset] ^= 1 << r.IntN(8)
		must(t, os.WriteFile(at, flipped, 0o600))
		s := openAt(t, at, &Options{NoVerify: true})
		verified := s.Verify(ctx)
		missed := false
		for key, want := range levels {
			states, err := s.Read(ctx, store.Bucket{Key: key})
			switch {
			case errors.Is(err, store.ErrCorrupt):
				found++
			case err != nil:
				t.Fatalf("byte %d: error %v", offset, err)
			case states[0].Level != want:
				missed = true
				if states[0].Level != 0 {
					t.Fatalf("byte %d: level %v of %q, want %v", offset, states[0].Level, key, want)
				}
			}
		}
		if whole, _ := isWhole(t, s, levels); (missed || !whole) && !errors.Is(verified, store.ErrCorrupt) {
			t.Fatalf("byte %d: buckets are wrong or missing, and Verify returns %v", offset, verified)
		}
		closeStore(t, s)
	}
	if found == 0 {
		t.Error("no call found any damage")
	}
}

// leafPages lists the pages of a file that hold records.
func leafPages(file []byte) (pages []int) {
	const leaf = 2 // the flag of bbolt
	size, order := os.Getpagesize(), binary.NativeEndian
	for i := 2; i < len(file)/size; i++ {
		p := file[i*size:]
		if order.Uint64(p) == uint64(i) && order.Uint16(p[8:]) == leaf && order.Uint16(p[10:]) > 10 {
			pages = append(pages, i)
		}
	}
	return pages
}

// damageRecord changes a bit of a stored record, without a store.
func damageRecord(t *testing.T, db *bbolt.DB, key string) {
	t.Helper()
	must(t, db.Update(func(tx *bbolt.Tx) error {
		b := tx.Bucket([]byte(defaultName))
		value := bytes.Clone(b.Get([]byte(key)))
		value[4] ^= 1
		return b.Put([]byte(key), value)
	}))
}

// reopenDamaged closes s, damages a record, and opens the file again.
func reopenDamaged(t *testing.T, s *Store, key string) *Store {
	t.Helper()
	path, o := s.db.File().Path(), s.options
	closeStore(t, s)
	db, err := bbolt.Open(path, 0o600, nil)
	must(t, err)
	damageRecord(t, db, key)
	must(t, db.Close())
	return openAt(t, path, &o)
}

// TestPruneLogsDamage: Prune logs the number of damaged buckets, and nothing where there are none.
func TestPruneLogsDamage(t *testing.T) {
	var log bytes.Buffer
	s := openTemp(t, &Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	fillup(t, s, "k", 1)
	for _, says := range []string{"", "buckets=1"} {
		if says != "" {
			s = reopenDamaged(t, s, "k")
		}
		if n, err := s.Prune(context.Background()); n != 0 || err != nil {
			t.Errorf("%d buckets were pruned, %v; want none", n, err)
		}
		if got := log.String(); says == "" && got != "" || !strings.Contains(got, says) || strings.Contains(got, "k=") {
			t.Errorf("logged %q, want %q", got, says)
		}
	}
}

// TestDamagedRecordFailsAlone: a damaged record fails its own operations, and the other
// operations of the batch succeed.
func TestDamagedRecordFailsAlone(t *testing.T) {
	s := openTemp(t, nil)
	ctx := context.Background()
	for _, key := range []string{"a", "b", "c"} {
		fillup(t, s, key, 1)
	}
	s = reopenDamaged(t, s, "b")
	_, err := s.Fill(ctx, op(steady, "b", 1, store.IfFits))
	failsWith(t, err, store.ErrCorrupt, "bolt: fill: ")
	_, err = s.Fill(ctx, op(steady, "b", 0, store.IfFits))
	failsWith(t, err, store.ErrCorrupt, "bolt: fill: ")
	results, err := s.Apply(ctx,
		store.Txn{op(steady, "a", 1, store.Always)},
		store.Txn{op(steady, "b", 1, store.Always)},
		store.Txn{op(steady, "c", 1, store.Always), op(steady, "b", 1, store.Always)},
		store.Txn{op(steady, "c", 1, store.Always)})
	must(t, err)
	for i, damaged := range []bool{false, true, true, false} {
		if errors.Is(results[i].Err, store.ErrCorrupt) != damaged {
			t.Errorf("transaction %d: error %v", i, results[i].Err)
		}
	}
	levelIs(t, s, "a", 2)
	levelIs(t, s, "c", 2)
	_, err = s.Read(ctx, store.Bucket{Key: "b"})
	failsWith(t, err, store.ErrCorrupt, "Reset")
	entries, err := paging.All(ctx, s, "")
	failsWith(t, err, store.ErrCorrupt, "left out", ": 1;", "brim verify")
	if len(entries) != 2 || entries[0].Key != "a" || entries[1].Key != "c" {
		t.Errorf("Visit lists %+v; want a and c", entries)
	}
	failsWith(t, s.Verify(ctx), store.ErrCorrupt, "1 values are damaged")
	if _, _, err = s.Compact(ctx); err != nil {
		t.Errorf("Compact must keep a damaged bucket: %v", err)
	}
	_, err = s.Read(ctx, store.Bucket{Key: "b"})
	failsWith(t, err, store.ErrCorrupt)
	if _, err := s.Prune(ctx); err != nil {
		t.Errorf("Prune must pass over a damaged bucket: %v", err)
	}
	err = s.Update(ctx, func(j store.Store) error {
		_, err := j.Read(ctx, store.Bucket{Key: "b"})
		return err
	})
	failsWith(t, err, store.ErrCorrupt)

	// Delete removes a damaged bucket.
	must(t, s.Delete(ctx, "b"))
	must(t, s.Verify(ctx))
	fillup(t, s, "b", 5)
	levelIs(t, s, "b", 5)
}

// overwrite fills all pages of the file but the meta pages with b.
func overwrite(t *testing.T, s *Store, b byte) {
	t.Helper()
	file, err := os.OpenFile(s.db.File().Path(), os.O_RDWR, 0)
	must(t, err)
	defer func() { _ = file.Close() }()
	metas := 2 * os.Getpagesize()
	if _, err := file.WriteAt(bytes.Repeat([]byte{b}, usedBytes(t, s)-metas), int64(metas)); err != nil {
		t.Fatal(err)
	}
}

// TestDamagedPageWhileOpen damages the file under an open store. bbolt panics or faults, and the
// callers get an error.
func TestDamagedPageWhileOpen(t *testing.T) {
	for name, damage := range map[string]func(t *testing.T, s *Store){
		"pages of nonsense": func(t *testing.T, s *Store) {
			overwrite(t, s, 0xA5)
		},
		"pages of zeros": func(t *testing.T, s *Store) {
			overwrite(t, s, 0)
		},
		"cut short": func(t *testing.T, s *Store) {
			must(t, os.Truncate(s.db.File().Path(), int64(2*os.Getpagesize())))
		},
		"cut to nothing": func(t *testing.T, s *Store) {
			must(t, os.Truncate(s.db.File().Path(), 0))
		},
	} {
		t.Run(name, func(t *testing.T) {
			path, _ := smallFile(t)
			s, err := Open(path, nil)
			must(t, err)
			damage(t, s)
			ctx := context.Background()
			_, readErr := s.Read(ctx, store.Bucket{Key: "key 001"})
			_, visitErr := paging.All(ctx, s, "")
			_, fillErr := s.Fill(ctx, op(steady, "key 001", 1, store.Always))
			_, pruneErr := s.Prune(ctx)
			_, _, compactErr := s.Compact(ctx)
			for method, err := range map[string]error{
				"Read": readErr, "Visit": visitErr, "Fill": fillErr, "Prune": pruneErr, "Compact": compactErr,
				"Delete": s.Delete(ctx, "key 001"), "Verify": s.Verify(ctx),
				"Update": s.Update(ctx, func(j store.Store) error {
					_, err := j.Fill(ctx, op(steady, "key 001", 1, store.Always))
					return err
				}),
			} {
				if !errors.Is(err, store.ErrCorrupt) {
					t.Errorf("%s: error %v, want ErrCorrupt", method, err)
				}
			}
			closeStore(t, s) // and does not wait for ever
		})
	}
}

// TestDamagedFreelist damages the header of the list of free pages under an open store. bbolt would
// free as many pages as the header claims, in a commit as well as in Close, and return after
// minutes.
func TestDamagedFreelist(t *testing.T) {
	path, _ := smallFile(t)
	s, err := Open(path, nil)
	must(t, err)
	fillup(t, s, "key 001", 1)
	_, err = s.Prune(t.Context()) // which writes the decision to the file
	must(t, err)
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	must(t, err)
	defer func() { _ = file.Close() }()
	must(t, s.db.File().View(func(tx *bbolt.Tx) error {
		for id := 2; ; id++ {
			page, err := tx.Page(id)
			if err != nil || page == nil {
				return errors.Join(err, errors.New("no page is the list of free pages"))
			}
			if page.Type == "freelist" {
				_, err := file.WriteAt([]byte{0xFF, 0xFF, 0xFF, 0xFF}, int64(id*tx.DB().Info().PageSize+12))
				return err
			}
		}
	}))
	_, err = s.Fill(t.Context(), op(steady, "key 001", 1, store.Always))
	failsWith(t, err, store.ErrCorrupt, "the list of free pages")
	closeStore(t, s)
}

// TestNewChecks: New over an application's database refuses a table with a missing or an older
// record, and takes one with a damaged record.
func TestNewChecks(t *testing.T) {
	ctx := context.Background()
	for _, c := range []struct {
		name    string
		change  func(b *bbolt.Bucket) error
		refused bool
	}{
		{"damaged record", func(b *bbolt.Bucket) error { return b.Put([]byte("a"), []byte("nonsense")) }, false},
		{"missing record", func(b *bbolt.Bucket) error { return b.Delete([]byte("a")) }, true},
		{"record under another key", func(b *bbolt.Bucket) error { return b.Put([]byte("c"), b.Get([]byte("a"))) }, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			db := openApp(t)
			s := newOver(t, db, nil)
			fillup(t, s, "a", 1)
			fillup(t, s, "b", 2)
			closeStore(t, s)
			must(t, db.Update(func(tx *bbolt.Tx) error { return c.change(tx.Bucket([]byte("brim"))) }))
			s, err := New(db, nil)
			if c.refused {
				failsWith(t, err, store.ErrCorrupt, "restore the last backup of the database")
				if s != nil {
					t.Errorf("New returns %+v beside the error", s)
				}
				failsWith(t, newOver(t, db, &Options{NoVerify: true}).Verify(ctx), store.ErrCorrupt)
				return
			}
			must(t, err)
			levelIs(t, s, "b", 2)
			_, err = s.Read(ctx, store.Bucket{Key: "a"})
			failsWith(t, err, store.ErrCorrupt, "Reset")
			must(t, s.Delete(ctx, "a"))
			levelIs(t, s, "a", 0)
			must(t, s.Verify(ctx))
			closeStore(t, s)
		})
	}
}
