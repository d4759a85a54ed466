package memory

import (
	"hash/maphash"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"unsafe"

	"github.com/brimgo/brim/internal/differ"
	"github.com/brimgo/brim/store"
)

// tableHashes are hashes under which a table must work.
var tableHashes = []struct {
	name, why string
	hash      func(key []byte) uint32
	steps     int
}{
	{"good hash", "the usual case", goodHash, 20_000},
	{
		"few homes", "runs of slots are long and reach around the end of the table",
		func(key []byte) uint32 { return 0xffffffff - goodHash(key)%5<<24 }, 5_000,
	},
	{
		"last home", "every run begins at the last slot and goes on at the first",
		func(key []byte) uint32 { return 0xffffffff - goodHash(key)%2 }, 1_500,
	},
	{
		"two hashes", "the hashes of long keys are equal, so their bytes must be compared",
		func(key []byte) uint32 { return goodHash(key) % 2 * 0x7fffffff }, 1_500,
	},
	{"one hash", "every key collides with every other", func([]byte) uint32 { return 7 }, 1_500},
}

var tableSeed = maphash.MakeSeed()

func goodHash(key []byte) uint32 { return uint32(maphash.Bytes(tableSeed, key)) }

// TestTable makes the same random changes to a table and to a map of Go, and compares them.
func TestTable(t *testing.T) {
	for _, test := range tableHashes {
		t.Run(test.name, func(t *testing.T) {
			table := table{hash: test.hash}
			model := map[string]store.Record{}
			keys := testKeys(300)
			r := rand.New(rand.NewPCG(3, 4))
			for step := range test.steps {
				key := keys[r.IntN(len(keys))]
				change(t, &table, model, r, key, step)
				rec, found := lookup(&table, key)
				want, ok := model[key]
				if d := differ.Fields(rec, want); found != ok || d != "" {
					t.Fatalf("step %d: found %v, want %v: %s\n%s", step, found, ok, test.why, d)
				}
				if step%97 == 0 {
					same(t, &table, model)
				}
			}
			same(t, &table, model)
		})
	}
}

// change makes one random change to the table and to the model, most often to key.
func change(t *testing.T, table *table, model map[string]store.Record, r *rand.Rand, key string, step int) {
	t.Helper()
	hash := table.hash([]byte(key))
	_, there := model[key]
	switch r.IntN(40) {
	case 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11:
		if there != table.remove(hash, key) {
			t.Fatalf("step %d: removed %v; want %v", step, !there, there)
		}
		delete(model, key)
	case 12:
		// This removes some records or nearly all, so that the table shrinks now and then.
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
			t.Fatalf("step %d: removed %d; want %d", step, got, removed)
		}
	default:
		rec := testRecord(r, step)
		if there {
			table.save(table.find(hash, key), &rec)
		} else {
			table.insert(hash, key, &rec)
		}
		model[key] = rec
	}
}

// testRecord returns a random record. Every field of it can differ from the other records, and
// there are more limits than a table keeps.
func testRecord(r *rand.Rand, step int) store.Record {
	rec := store.Record{Level: float64(step), Time: r.Int64() - r.Int64()}
	rec.Capacity, rec.LeakRate = float64(1+r.IntN(3)), 1
	switch r.IntN(20) {
	case 0:
		rec.Held = r.Float64()
	case 1:
		rec.BlockedUntil = r.Int64()
	case 2, 3, 4:
		rec.LeakRate = float64(r.IntN(2 * maxLimits))
	}
	return rec
}

// lookup loads into a record of which each field has a value: table.each uses one for all slots.
func lookup(t *table, key string) (r store.Record, found bool) {
	s := t.find(t.hash([]byte(key)), key)
	if s == nil {
		return r, false
	}
	for _, field := range differ.Leaves(&r) {
		field.Set(reflect.ValueOf(-7).Convert(field.Type()))
	}
	t.load(s, &r)
	return r, true
}

// same checks that the table contains the records of the model, and finds each by its key.
func same(t *testing.T, table *table, model map[string]store.Record) {
	t.Helper()
	seen := 0
	table.each(func(key []byte, r store.Record) {
		seen++
		want, ok := model[string(key)]
		if d := differ.Fields(r, want); !ok || d != "" {
			t.Fatalf("the table contains %q, and the model %v:\n%s", key, ok, d)
		}
	})
	if seen != len(model) || table.live != len(model) {
		t.Fatalf("the table lists %d and counts %d; want %d", seen, table.live, len(model))
	}
	for key, want := range model {
		r, found := lookup(table, key)
		if d := differ.Fields(r, want); !found || d != "" {
			t.Fatalf("find %q: %v\n%s", key, found, d)
		}
	}
	if table.keys.used > 2*(liveBytes(model)+pageSize) {
		t.Fatalf("keys take %d bytes, of which %d are in use", table.keys.used, liveBytes(model))
	}
	if n := len(table.slots); 4*table.live > 3*n {
		t.Fatalf("%d of %d slots are in use; want at most three quarters", table.live, n)
	}
	wides := 0
	for i := range table.slots {
		if s := &table.slots[i]; !s.name.free() && s.limit == inWide {
			wides++
		}
	}
	if w := table.wide; w != nil && wides+len(w.free) != len(w.records) || w == nil && wides > 0 {
		t.Fatalf("%d slots refer to wide records %+v; want each record in use or free", wides, w)
	}
}

// liveBytes returns the bytes of all keys that do not fit into their slot.
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
	lengths := []int{1, 2, 13, 14, 15, 16, 40, 255, 256, 511, 512}
	keys := make([]string, n)
	for i := range keys {
		unique := string(rune('a'+i%26)) + strings.Repeat(string(rune(0x100+i)), 1)
		keys[i] = unique + strings.Repeat("x", max(0, lengths[i%len(lengths)]-len(unique)))
	}
	return keys
}

// FuzzTable reads each two bytes as a change and a key. Keys collide often.
func FuzzTable(f *testing.F) {
	f.Add([]byte{0, 1, 0, 2, 0, 3, 1, 1, 1, 2, 2, 0}, uint32(0xffffffff))
	f.Add([]byte("aAbBcCdDeEfFgGhHiIjJkKlLmMnNoOpPqQrRsStTuUvVwWxXyYzZ"), uint32(0))
	keys := testKeys(256)
	f.Fuzz(func(t *testing.T, steps []byte, mask uint32) {
		table := table{hash: func(key []byte) uint32 { return (uint32(len(key))*0x9e3779b9 ^ uint32(key[0])<<27) | mask }}
		model := map[string]store.Record{}
		r := rand.New(rand.NewPCG(1, uint64(mask)))
		for i := 0; i+1 < len(steps); i += 2 {
			for range steps[i]%4 + 1 {
				change(t, &table, model, r, keys[steps[i+1]], i)
			}
		}
		same(t, &table, model)
	})
}

// TestTableShrinks removes most records. The table must release their memory, or one flood of
// keys would occupy it for ever.
func TestTableShrinks(t *testing.T) {
	table := table{hash: goodHash}
	key := func(i int) string { return strings.Repeat("k", 60) + string(rune('0'+i)) }
	for i := range 20_000 {
		table.insert(table.hash([]byte(key(i))), key(i), &store.Record{Level: float64(i), Held: 1})
	}
	if n := table.removeIf(func(r *store.Record) bool { return r.Level >= 100 }); n != 19_900 {
		t.Fatalf("removed %d; want 19900", n)
	}
	if len(table.slots) > 200 || cap(table.wide.records) > 200 || table.keys.used > 2*100*64 {
		t.Errorf("100 records keep %d slots, %d wide records and %d bytes of keys; want memory for about 100 records",
			len(table.slots), cap(table.wide.records), table.keys.used)
	}
	for i := range 100 {
		if r, found := lookup(&table, key(i)); !found || r.Level != float64(i) {
			t.Fatalf("record %d is %v, %v after the others were removed", i, r, found)
		}
	}
	if n := table.removeIf(func(*store.Record) bool { return true }); n != 100 || table.slots != nil || table.keys.used != 0 {
		t.Errorf("removed %d of 100 records; %d slots and %d bytes of keys are left", n, len(table.slots), table.keys.used)
	}
}

// TestTableForgetsLimits changes the limit of every bucket again and again, as a program does
// that adapts its limits. A table that is resized must have room for the limits in use.
func TestTableForgetsLimits(t *testing.T) {
	table := table{hash: goodHash}
	keys := testKeys(100)
	for round := range 10 {
		for i, key := range keys {
			hash := table.hash([]byte(key))
			rec := store.Record{Limit: store.Limit{Capacity: float64(1 + round*len(keys) + i)}}
			if round == 9 {
				rec.Capacity = float64(1 + i%maxLimits)
			}
			if s := table.find(hash, key); s != nil {
				table.save(s, &rec)
			} else {
				table.insert(hash, key, &rec)
			}
		}
	}
	if len(table.limits) > maxLimits || table.wide == nil {
		t.Fatalf("%d limits and wide records %v; want at most %d limits, and wide records for the others",
			len(table.limits), table.wide, maxLimits)
	}
	table.resize(len(table.slots))
	if len(table.limits) != maxLimits || table.wide != nil {
		t.Errorf("%d limits and wide records %v after the table was resized; want the %d limits in use, and no wide records",
			len(table.limits), table.wide, maxLimits)
	}
	for i, key := range keys {
		if r, found := lookup(&table, key); !found || r.Capacity != float64(1+i%maxLimits) {
			t.Fatalf("record %d is %v, %v after the table was resized", i, r, found)
		}
	}
}

// If two shards shared a cache line, callers of one would slow down callers of the other.
func TestLayout(t *testing.T) {
	if unsafe.Sizeof(slot{}) != 32 {
		t.Errorf("a slot has %d bytes; want half a cache line", unsafe.Sizeof(slot{}))
	}
	if unsafe.Sizeof(uintptr(0)) != 8 {
		return // with 4-byte pointers the layout differs; only speed depends on it
	}
	if n := unsafe.Sizeof(shard{}); n%64 != 0 {
		t.Errorf("a shard has %d bytes; want whole cache lines", n)
	}
	if n := unsafe.Offsetof(shard{}.table) + unsafe.Offsetof(table{}.wide); n > 64 {
		t.Errorf("the fields that a decision reads end at byte %d of a shard; want one cache line", n)
	}
	if n := unsafe.Offsetof(Store{}.shards); n != 0 {
		t.Errorf("shards begin at offset %d; want 0, where a cache line begins", n)
	}
}
