package memory

import (
	"hash/maphash"
	"math/rand/v2"
	"strings"
	"testing"
	"unsafe"

	"github.com/brimgo/brim/store"
)

// TestTable makes the same random changes to a table and to a map of Go, and compares them.
func TestTable(t *testing.T) {
	seed := maphash.MakeSeed()
	for _, test := range []struct {
		name, why string
		hash      func(key []byte) uint32
		steps     int
	}{
		{
			"good hash", "the usual case",
			func(key []byte) uint32 { return uint32(maphash.Bytes(seed, key)) }, 50_000,
		},
		{
			"few homes", "runs of slots are long and reach around the end of the index",
			func(key []byte) uint32 { return uint32(maphash.Bytes(seed, key)) % 3 * 0xfff }, 5_000,
		},
		{
			"same top", "the hash bits in all slots are equal, so keys must be compared",
			func(key []byte) uint32 { return uint32(maphash.Bytes(seed, key)) & numberMask }, 10_000,
		},
		{"one hash", "every key collides with every other", func([]byte) uint32 { return 7 }, 3_000},
	} {
		t.Run(test.name, func(t *testing.T) {
			table := table{hash: test.hash}
			model := map[string]store.Record{}
			keys := testKeys(300)
			r := rand.New(rand.NewPCG(3, 4))
			for step := range test.steps {
				key := keys[r.IntN(len(keys))]
				hash := test.hash([]byte(key))
				_, there := model[key]
				switch r.IntN(40) {
				case 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11:
					if there != table.remove(hash, key) {
						t.Fatalf("step %d: removed %v; want %v: %s", step, !there, there, test.why)
					}
					delete(model, key)
				case 12:
					// This removes nearly all records now and then, so that the rest moves
					// together.
					under := float64(r.IntN(step + 2))
					gone := func(r *store.Record) bool { return r.Level < under }
					removed := 0
					for k, rec := range model {
						if gone(&rec) {
							delete(model, k)
							removed++
						}
					}
					if got := table.removeIf(gone); got != removed {
						t.Fatalf("step %d: removed %d; want %d: %s", step, got, removed, test.why)
					}
				default:
					rec := store.Record{Level: float64(step)}
					if there {
						*table.find(hash, key) = rec
					} else if !table.insert(hash, key, rec) {
						t.Fatalf("step %d: no room", step)
					}
					model[key] = rec
				}
				got := table.find(hash, key)
				if want, ok := model[key]; (got != nil) != ok || (ok && *got != want) {
					t.Fatalf("step %d: found %v; want %v, %v: %s", step, got, want, ok, test.why)
				}
				if step%499 == 0 {
					same(t, &table, model)
				}
			}
			same(t, &table, model)
		})
	}
}

// same checks that the table contains the records of the model, and finds each by its key.
func same(t *testing.T, table *table, model map[string]store.Record) {
	t.Helper()
	seen := 0
	table.each(func(key []byte, r *store.Record) {
		seen++
		if want, ok := model[string(key)]; !ok || *r != want {
			t.Fatalf("the table contains %q with %v; want %v, %v", key, *r, want, ok)
		}
	})
	if seen != len(model) || table.live != len(model) {
		t.Fatalf("the table lists %d and counts %d; want %d", seen, table.live, len(model))
	}
	for key, want := range model {
		if r := table.find(table.hash([]byte(key)), key); r == nil || *r != want {
			t.Fatalf("find %q = %v; want %v", key, r, want)
		}
	}
	if table.keys.used > 2*(liveBytes(model)+pageSize) {
		t.Fatalf("keys take %d bytes, of which %d are in use", table.keys.used, liveBytes(model))
	}
}

// liveBytes returns the bytes of all keys that do not fit into their entry.
func liveBytes(model map[string]store.Record) (n int) {
	for key := range model {
		if len(key) > inline {
			n += len(key)
		}
	}
	return n
}

// testKeys returns keys of lengths around the bounds of names and pages. Many begin alike.
func testKeys(n int) []string {
	lengths := []int{1, 2, 14, 15, 16, 17, 40, 255, 256, 511, 512}
	keys := make([]string, n)
	for i := range keys {
		unique := string(rune('a'+i%26)) + strings.Repeat(string(rune(0x100+i)), 1)
		keys[i] = unique + strings.Repeat("x", max(0, lengths[i%len(lengths)]-len(unique)))
	}
	return keys
}

// TestTableShrinks removes most records. The table must release their memory, or one flood of
// keys would occupy it for ever.
func TestTableShrinks(t *testing.T) {
	seed := maphash.MakeSeed()
	table := table{hash: func(key []byte) uint32 { return uint32(maphash.Bytes(seed, key)) }}
	key := func(i int) string { return strings.Repeat("k", 60) + string(rune('0'+i)) }
	for i := range 20_000 {
		table.insert(table.hash([]byte(key(i))), key(i), store.Record{Level: float64(i)})
	}
	if n := table.removeIf(func(r *store.Record) bool { return r.Level >= 100 }); n != 19_900 {
		t.Fatalf("removed %d; want 19900", n)
	}
	if len(table.chunks)*chunkLen > 2*100 || len(table.index) > 256 || table.keys.used > 2*100*64 {
		t.Errorf("100 records keep %d entries, %d slots and %d bytes of keys; want memory for about 100 records",
			len(table.chunks)*chunkLen, len(table.index), table.keys.used)
	}
	for i := range 100 {
		if r := table.find(table.hash([]byte(key(i))), key(i)); r == nil || r.Level != float64(i) {
			t.Fatalf("record %d is %v after the others were removed", i, r)
		}
	}
}

// If entry numbers run out, the table must refuse a new key and stay usable.
func TestTableFull(t *testing.T) {
	table := table{hash: func([]byte) uint32 { return 0 }, fresh: numberMask}
	if table.insert(0, "k", store.Record{}) {
		t.Error("insert accepts a record without a free number")
	}
	if table.find(0, "k") != nil || table.remove(0, "k") {
		t.Error("the table contains the refused record")
	}
}

// If two shards shared a cache line, callers of one would slow down callers of the other.
func TestLayout(t *testing.T) {
	if unsafe.Sizeof(uintptr(0)) != 8 {
		return // with 4-byte pointers the layout differs; only speed depends on it
	}
	if n := unsafe.Sizeof(shard{}); n%64 != 0 {
		t.Errorf("a shard has %d bytes; want whole cache lines", n)
	}
	if n := unsafe.Sizeof(entry{}); n != 64 {
		t.Errorf("an entry has %d bytes; want one cache line", n)
	}
	if n := unsafe.Offsetof(Store{}.shards); n != 0 {
		t.Errorf("shards begin at offset %d; want 0, where a cache line begins", n)
	}
}
