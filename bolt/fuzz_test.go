package bolt

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/brimgo/brim/store"
)

// FuzzOpen changes a part of a file, and cuts the file off. Open and every call must notice the
// damage, or find all buckets. With sealed, the meta pages of bbolt get correct checksums, so that
// the damage reaches the code behind them.
func FuzzOpen(f *testing.F) {
	path, levels := smallFile(f)
	whole, err := os.ReadFile(path)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(uint32(0), []byte{}, uint32(0), false)
	f.Add(uint32(16+40), []byte{255, 255, 255, 255, 255, 255, 255, 255}, uint32(0), true)
	f.Add(uint32(16+8), []byte{0, 2, 0, 0}, uint32(0), true)
	f.Add(uint32(os.Getpagesize()+16), []byte{1}, uint32(0), false)
	f.Add(uint32(3*os.Getpagesize()+8), []byte{0x10, 0, 255, 255}, uint32(0), false)
	f.Add(uint32(0), []byte{}, uint32(5), false)
	f.Add(uint32(len(whole)-100), []byte{1, 2, 3}, uint32(os.Getpagesize()), false)
	f.Fuzz(func(t *testing.T, at uint32, patch []byte, cut uint32, sealed bool) {
		content := bytes.Clone(whole)
		copy(content[int(at)%len(content):], patch)
		if sealed {
			for _, page := range []int{0, os.Getpagesize()} {
				meta := content[page+16:][:64]
				h := fnv.New64a()
				_, _ = h.Write(meta[:56])
				binary.NativeEndian.PutUint64(meta[56:], h.Sum64())
			}
		}
		content = content[:len(content)-int(cut)%len(content)]
		path := filepath.Join(t.TempDir(), "limits.db")
		must(t, os.WriteFile(path, content, 0o600))
		s, err := Open(path, nil)
		if err != nil {
			if !errors.Is(err, store.ErrCorrupt) && !errors.Is(err, errors.ErrUnsupported) {
				t.Errorf("Open: %v; want ErrCorrupt", err)
			}
			return
		}
		same, err := isWhole(t, s, levels)
		if err != nil && !errors.Is(err, store.ErrCorrupt) {
			t.Errorf("reading the buckets: %v; want ErrCorrupt", err)
		}
		if err == nil && !same {
			t.Errorf("Open noticed nothing, and buckets are missing or changed")
		}
		if err == nil && s.Verify(t.Context()) == nil { // then bbolt can change the file
			txns := make([]store.Txn, 200)
			for i := range txns {
				txns[i] = store.Txn{op(steady, fmt.Sprintf("new %03d", i), 1, store.Always)}
			}
			mustApply(t, s, txns...)
			must(t, s.Delete(t.Context(), slices.Collect(maps.Keys(levels))...))
			must(t, s.Verify(t.Context()))
		}
		if err := s.Close(); err != nil && !errors.Is(err, store.ErrCorrupt) {
			t.Errorf("Close: %v", err)
		}
	})
}
