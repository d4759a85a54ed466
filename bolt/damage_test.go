package bolt

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"go.etcd.io/bbolt"

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
		if _, err := s.Apply(context.Background(), txns...); err != nil {
			t.Fatal(err)
		}
	}
	for i := 0; i < 150; i += 10 {
		key := fmt.Sprintf("key %03d", i)
		delete(levels, key)
		if err := s.Delete(context.Background(), key); err != nil {
			t.Fatal(err)
		}
	}
	closeStore(t, s)
	return path, levels
}

// isWhole reads all buckets of the store and reports whether they are exactly levels. The caller
// checks that every error is ErrCorrupt.
func isWhole(t *testing.T, s *Store, levels map[string]float64) (whole bool, err error) {
	ctx := context.Background()
	entries, err := s.Scan(ctx, "", "", 1000)
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

// TestFlippedBits flips bits all over a file. Open must refuse the damage, or open a store with
// exactly the levels that were written. bbolt alone would go back a commit, miss buckets, panic,
// or read memory that is not mapped.
func TestFlippedBits(t *testing.T) {
	path, levels := smallFile(t)
	sound := bytesOf(t, path)
	s := openAt(t, path, nil)
	if whole, err := isWhole(t, s, levels); !whole {
		t.Fatalf("the sound file has wrong levels: %v", err)
	}
	used := usedBytes(t, s)
	closeStore(t, s)

	r := rand.New(rand.NewPCG(3, 4))
	at := filepath.Join(t.TempDir(), "flipped.db")
	refused, intact := 0, 0
	flips := 1000
	if testing.Short() {
		flips = 100
	}
	for i := range flips {
		flipped := bytes.Clone(sound)
		// A flip does most harm in headers and entries, at the beginnings of pages.
		offset := r.IntN(used)
		if i%2 == 0 {
			offset = r.IntN(used/os.Getpagesize())*os.Getpagesize() + r.IntN(200)
		}
		bit := byte(1) << r.IntN(8)
		flipped[offset] ^= bit
		if err := os.WriteFile(at, flipped, 0o600); err != nil {
			t.Fatal(err)
		}
		s, err := Open(at, nil)
		if err != nil {
			refused++
			if !errors.Is(err, store.ErrCorrupt) && !errors.Is(err, errors.ErrUnsupported) {
				t.Fatalf("byte %d, bit %#x: error %v, want ErrCorrupt", offset, bit, err)
			}
			continue
		}
		intact++
		if whole, err := isWhole(t, s, levels); !whole {
			t.Fatalf("byte %d, bit %#x: the file was opened, and its levels are wrong: %v", offset, bit, err)
		}
		if intact%20 == 0 {
			fillup(t, s, "one more", 1)
		}
		closeStore(t, s)
	}
	t.Logf("%d flips: %d refused, %d in bytes that mean nothing", refused+intact, refused, intact)
	if refused < flips/5 || intact < flips/20 {
		t.Errorf("%d refused and %d intact: the test has not tested much", refused, intact)
	}
}

// usedBytes returns the size of the part of the file that has pages in it.
func usedBytes(t *testing.T, s *Store) (size int) {
	t.Helper()
	err := s.file.View(func(tx *bbolt.Tx) error { size = int(tx.Size()); return nil })
	if err != nil {
		t.Fatal(err)
	}
	return size
}

// TestFlippedBitsUnverified opens the damaged files without a check. A call that uses a damaged
// record must answer ErrCorrupt, and all other calls the right level. A bucket may be missing;
// Verify must find that.
func TestFlippedBitsUnverified(t *testing.T) {
	path, levels := smallFile(t)
	sound := bytesOf(t, path)
	at := filepath.Join(t.TempDir(), "flipped.db")
	leaves := leafPages(sound)
	r := rand.New(rand.NewPCG(5, 6))
	ctx := context.Background()
	found := 0
	for range 200 {
		flipped := bytes.Clone(sound)
		// Only records are damaged: a wrong page number could make bbolt loop for ever, which is
		// why Open checks the pages.
		offset := leaves[r.IntN(len(leaves))]*os.Getpagesize() + os.Getpagesize()/2 + r.IntN(os.Getpagesize()/2)
		flipped[offset] ^= 1 << r.IntN(8)
		if err := os.WriteFile(at, flipped, 0o600); err != nil {
			t.Fatal(err)
		}
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

// damageRecord changes a stored record without the store.
func damageRecord(t *testing.T, s *Store, key string, change func(value []byte) []byte) {
	t.Helper()
	err := database(s).Update(func(tx *bbolt.Tx) error {
		b := tx.Bucket(s.layout.records)
		return b.Put([]byte(key), change(bytes.Clone(b.Get([]byte(key)))))
	})
	if err != nil {
		t.Fatal(err)
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
	damageRecord(t, s, "b", func(v []byte) []byte { v[4] ^= 1; return v })
	_, err := s.Fill(ctx, op(steady, "b", 1, store.IfFits))
	failsWith(t, err, store.ErrCorrupt, "bolt: fill: ")
	results, err := s.Apply(ctx,
		store.Txn{op(steady, "a", 1, store.Always)},
		store.Txn{op(steady, "b", 1, store.Always)},
		store.Txn{op(steady, "c", 1, store.Always), op(steady, "b", 1, store.Always)},
		store.Txn{op(steady, "c", 1, store.Always)})
	if err != nil {
		t.Fatal(err)
	}
	for i, damaged := range []bool{false, true, true, false} {
		if errors.Is(results[i].Err, store.ErrCorrupt) != damaged {
			t.Errorf("transaction %d: error %v", i, results[i].Err)
		}
	}
	levelIs(t, s, "a", 2)
	levelIs(t, s, "c", 2)
	_, err = s.Read(ctx, store.Bucket{Key: "b"})
	failsWith(t, err, store.ErrCorrupt)
	_, err = s.Scan(ctx, "", "", 10)
	failsWith(t, err, store.ErrCorrupt)
	failsWith(t, s.Verify(ctx), store.ErrCorrupt)
	_, _, err = s.Compact(ctx)
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
	if err := s.Delete(ctx, "b"); err != nil {
		t.Fatal(err)
	}
	if err := s.Verify(ctx); err != nil {
		t.Error(err)
	}
	fillup(t, s, "b", 5)
	levelIs(t, s, "b", 5)
}

// overwrite fills all pages of the file but the meta pages with b.
func overwrite(t *testing.T, s *Store, b byte) {
	t.Helper()
	file, err := os.OpenFile(s.file.Path(), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
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
			if err := os.Truncate(s.file.Path(), int64(2*os.Getpagesize())); err != nil {
				t.Fatal(err)
			}
		},
		"cut to nothing": func(t *testing.T, s *Store) {
			if err := os.Truncate(s.file.Path(), 0); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			path, _ := smallFile(t)
			s, err := Open(path, nil)
			if err != nil {
				t.Fatal(err)
			}
			damage(t, s)
			ctx := context.Background()
			_, readErr := s.Read(ctx, store.Bucket{Key: "key 001"})
			_, scanErr := s.Scan(ctx, "", "", 10)
			_, fillErr := s.Fill(ctx, op(steady, "key 001", 1, store.Always))
			_, pruneErr := s.Prune(ctx)
			_, _, compactErr := s.Compact(ctx)
			for method, err := range map[string]error{
				"Read": readErr, "Scan": scanErr, "Fill": fillErr, "Prune": pruneErr, "Compact": compactErr,
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
