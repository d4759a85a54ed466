package bolt

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/brimgo/brim/internal/boltfile"
	"github.com/brimgo/brim/store"
)

// TestExamineEveryPage changes the bytes that begin each page of a file: its number, kind, size and
// first entries. Whatever they say then, an examination ends, and tells of the damage or finds all.
func TestExamineEveryPage(t *testing.T) {
	t.Parallel()
	masks := []byte{0x01, 0x80, 0xff}
	if testing.Short() {
		masks = masks[2:]
	}
	path, levels := smallFile(t)
	whole := bytesOf(t, path)
	size := os.Getpagesize()
	dir := t.TempDir()
	told, found := 0, 0
	for page := 2 * size; page < len(whole); page += size {
		for i := range 48 {
			for _, mask := range masks {
				b := append([]byte(nil), whole...)
				b[page+i] ^= mask
				damaged := filepath.Join(dir, "damaged.db")
				if err := os.WriteFile(damaged, b, 0o600); err != nil {
					t.Fatal(err)
				}
				r, err := boltfile.ReadRemains(t.Context(), damaged, 0, func(uint64, uint64) {})
				if err != nil {
					if told++; !errors.Is(err, store.ErrCorrupt) && !errors.Is(err, store.ErrUnavailable) {
						t.Errorf("byte %d of page %d changed by %#x: %v", i, page/size, mask, err)
					}
					continue
				}
				rep, err := boltfile.Examine(t.Context(), r, Salvor())
				switch {
				case err != nil:
					t.Errorf("byte %d of page %d changed by %#x: %v", i, page/size, mask, err)
				case len(rep.Findings) > 0:
					told++
				default:
					found++
					if n := rep.Intact[defaultName]; n != uint64(len(levels)) {
						t.Errorf("byte %d of page %d changed by %#x: no damage is found, and %d of %d buckets", i, page/size, mask, n, len(levels))
					}
				}
				if err := r.Close(); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	t.Logf("damage was told %d times; %d times all was found", told, found)
	if told < 100 {
		t.Error("the test has not tested much")
	}
}
