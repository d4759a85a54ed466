package memory

import (
	"github.com/brimgo/brim/store"
)

// table is a hash table of records: open addressing over an index of four-byte slots, entries of one cache line each in
// chunks, no pointers in either. What a decision over many keys costs is waiting for memory, so the index is small enough to
// stay in the processor's cache, and the entry that it points to holds the record and, if it is short, the key. Go's map of
// pointers touches three times as much memory, and has the garbage collector look at every record.
//
// The caller locks. Pointers to records stay valid until their key is removed, or removeIf is called.
type table struct {
	index  []uint32 // a power of two long; 0 where empty, else the top of the hash above the entry's number
	chunks []*[chunkLen]entry
	live   int
	free   uint32 // head of the list of entries that were removed, linked by Record.Time; entry numbers start at 1
	fresh  uint32 // entries that were never used begin after this number
	keys   arena
	hash   func(key []byte) uint32 // what the callers of find and insert use as well
}

type entry struct {
	rec  store.Record
	name name
}

const (
	chunkLen   = 16
	firstSlots = 8
	numberMask = 1<<24 - 1 // in a slot: the entry's number; above it, as much of the hash as there is room for
)

func (t *table) at(number uint32) *entry { return &t.chunks[(number-1)/chunkLen][(number-1)%chunkLen] }

// find returns the record of key, or nil.
func (t *table) find(hash uint32, key string) *store.Record {
	if len(t.index) == 0 {
		return nil
	}
	mask := uint32(len(t.index) - 1)
	for i := hash & mask; ; i = (i + 1) & mask {
		s := t.index[i]
		if s == 0 {
			return nil
		}
		if (s^hash)&^numberMask == 0 {
			if e := t.at(s & numberMask); t.keys.is(&e.name, key) {
				return &e.rec
			}
		}
	}
}

// insert keeps the record of a key that is not in the table, and reports false where no number is left for it, which takes
// more memory than machines have.
func (t *table) insert(hash uint32, key string, r store.Record) bool {
	number := t.free
	if number == 0 && t.fresh == numberMask {
		return false
	}
	if 5*(t.live+1) > 4*len(t.index) {
		t.reindex(t.live + 1)
	}
	if number != 0 {
		t.free = uint32(t.at(number).rec.Time)
	} else {
		if int(t.fresh) == len(t.chunks)*chunkLen {
			t.chunks = append(t.chunks, new([chunkLen]entry))
		}
		t.fresh++
		number = t.fresh
	}
	*t.at(number) = entry{name: t.keys.add(key), rec: r}
	t.place(hash, number)
	t.live++
	return true
}

func (t *table) place(hash, number uint32) {
	mask := uint32(len(t.index) - 1)
	i := hash & mask
	for t.index[i] != 0 {
		i = (i + 1) & mask
	}
	t.index[i] = hash&^numberMask | number
}

// reindex makes the smallest index of which so many entries fill at most four fifths.
func (t *table) reindex(entries int) {
	slots := firstSlots
	for 4*slots < 5*entries {
		slots *= 2
	}
	t.index = make([]uint32, slots)
	for number := uint32(1); number <= t.fresh; number++ {
		if e := t.at(number); !e.name.free() {
			t.place(t.hash(t.keys.bytes(&e.name)), number)
		}
	}
}

// remove forgets a key and reports whether it was there.
func (t *table) remove(hash uint32, key string) bool {
	if len(t.index) == 0 {
		return false
	}
	mask := uint32(len(t.index) - 1)
	for i := hash & mask; t.index[i] != 0; i = (i + 1) & mask {
		number := t.index[i] & numberMask
		if (t.index[i]^hash)&^numberMask == 0 && t.keys.is(&t.at(number).name, key) {
			t.empty(i)
			t.release(number)
			if t.keys.wasteful() {
				t.compactKeys()
			}
			return true
		}
	}
	return false
}

// empty empties a slot and moves up those behind it that would no longer be found.
func (t *table) empty(hole uint32) {
	mask := uint32(len(t.index) - 1)
	for j := (hole + 1) & mask; t.index[j] != 0; j = (j + 1) & mask {
		home := t.hash(t.keys.bytes(&t.at(t.index[j]&numberMask).name)) & mask
		if (j-home)&mask >= (j-hole)&mask {
			t.index[hole] = t.index[j]
			hole = j
		}
	}
	t.index[hole] = 0
}

// release puts an entry on the free list. No slot may point to it.
func (t *table) release(number uint32) {
	e := t.at(number)
	t.keys.drop(&e.name)
	*e = entry{rec: store.Record{Time: int64(t.free)}}
	t.free = number
	t.live--
}

// removeIf removes every record that gone names, and returns their number. Where few are left of many, they move together,
// so that memory follows the buckets in use.
func (t *table) removeIf(gone func(*store.Record) bool) (removed int) {
	for number := uint32(1); number <= t.fresh; number++ {
		if e := t.at(number); !e.name.free() && gone(&e.rec) {
			t.release(number)
			removed++
		}
	}
	switch {
	case 4*t.live < int(t.fresh):
		sparse := *t
		*t = table{hash: t.hash}
		sparse.each(func(key []byte, r *store.Record) {
			k := string(key)
			t.insert(t.hash(key), k, *r)
		})
	case removed > 0:
		t.reindex(t.live)
		if t.keys.wasteful() {
			t.compactKeys()
		}
	}
	return removed
}

// compactKeys leaves behind the bytes of keys that were removed.
func (t *table) compactKeys() {
	old := t.keys
	t.keys = arena{}
	for number := uint32(1); number <= t.fresh; number++ {
		if e := t.at(number); !e.name.free() {
			e.name = t.keys.add(string(old.bytes(&e.name)))
		}
	}
}

// each calls f for every record. The bytes are valid only meanwhile.
func (t *table) each(f func(key []byte, r *store.Record)) {
	for _, chunk := range t.chunks {
		for i := range chunk {
			if e := &chunk[i]; !e.name.free() {
				f(t.keys.bytes(&e.name), &e.rec)
			}
		}
	}
}
