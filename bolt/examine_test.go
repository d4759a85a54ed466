package bolt

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/brimgo/brim/internal/boltrecord"
	"github.com/brimgo/brim/internal/kv"
	"github.com/brimgo/brim/internal/seed"
)

// patience is the lock timeout of tests that run beside tests which start child processes. Until a
// child executes its own program, it holds the open files of this process, and so their locks.
const patience = time.Minute

// TestExamineEveryPage changes the first 48 bytes of each page of a file: the page's number, kind,
// size and first entries. It changes every third one, or with BRIM_TORTURE=1 each. After each
// change, Examine must end, and must report damage or find all buckets.
func TestExamineEveryPage(t *testing.T) {
	t.Parallel()
	masks := []byte{0xff, 0x01, 0x80}[:seed.Attempts(1, 3)]
	path, levels := smallFile(t)
	whole := bytesOf(t, path)
	size := os.Getpagesize()
	damaged := filepath.Join(t.TempDir(), "damaged.db")
	reported := 0
	for page := 2 * size; page < len(whole); page += size {
		for i := 0; i < 48; i += seed.Attempts(3, 1) {
			for _, mask := range masks {
				b := bytes.Clone(whole)
				b[page+i] ^= mask
				must(t, os.WriteFile(damaged, b, 0o600))
				r, err := kv.Examine(t.Context(), damaged, patience, boltrecord.Is)
				switch {
				case err != nil:
					t.Fatalf("byte %d of page %d changed by %#x: %v", i, page/size, mask, err)
				case r.Damage != nil || r.Damaged() > 0:
					reported++
				case r.Values()[defaultName] != uint64(len(levels)):
					t.Errorf("byte %d of page %d changed by %#x: no damage is found, and %v of %d buckets",
						i, page/size, mask, r.Values(), len(levels))
				}
			}
		}
	}
	if reported < 100 {
		t.Errorf("damage was reported %d times; want at least 100", reported)
	}
}
