package memory

import (
	"github.com/brimgo/brim/store"
)

// table is a hash table of records with open addressing. The index consists of four-byte slots.
// An entry fills one cache line, and entries lie in chunks. Neither the index nor the chunks
// contain pointers.
//
// A decision over many keys spends its time waiting for memory. So the index is small enough to
// stay in the processor's cache, and an entry contains the record and, if the key is short, the
// key. Go's map of pointers touches three times as much memory, and the garbage collector would
// visit every record.
//
// The caller locks. A pointer to a record stays valid until its key is removed or removeIf is
// called.
type table struct {
	index  []uint32 // a slot is 0 if empty, else top bits of the hash above an entry's number; the length is a power of two
	chunks []*[chunkLen]entry
	live   int
	free   uint32 // head of the list of removed entries, linked by Record.Time; entry numbers start at 1
	fresh  uint32 // number of the last entry that was ever used
	keys   arena
	hash   func(key []byte) uint32 // the hash that callers pass to find and insert
}

type entry struct {
	rec  store.Record
	name name
}

const (
	chunkLen   = 16
	firstSlots = 8
	numberMask = 1<<24 - 1 // the bits of a slot that hold the entry's number; the others hold top bits of the hash
)

// at returns the entry with that number.
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

// insert stores the record of a key that is not in the table. It returns false if no entry
// number is left: a shard holds at most 2^24 - 1 buckets, which takes a gibibyte.
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

// place puts an entry number into the first free slot for hash.
func (t *table) place(hash, number uint32) {
	mask := uint32(len(t.index) - 1)
	i := hash & mask
	for t.index[i] != 0 {
		i = (i + 1) & mask
	}
	t.index[i] = hash&^numberMask | number
}

// reindex makes the smallest index of which the given number of entries fills at most four
// fifths.
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

// remove removes a key and reports whether the table contained it.
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

// empty empties a slot. It moves slots forward that stand behind the gap and that find could
// not reach across it.
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

// release puts an entry on the free list. No slot may contain its number.
func (t *table) release(number uint32) {
	e := t.at(number)
	t.keys.drop(&e.name)
	*e = entry{rec: store.Record{Time: int64(t.free)}}
	t.free = number
	t.live--
}

// removeIf removes the records for which gone returns true, and returns their number. If less
// than a quarter of the entries remain in use, it moves them together, so that memory use
// follows the number of buckets.
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

// compactKeys copies the keys in use to a new arena, without the bytes of removed keys.
func (t *table) compactKeys() {
	old := t.keys
	t.keys = arena{}
	for number := uint32(1); number <= t.fresh; number++ {
		if e := t.at(number); !e.name.free() {
			e.name = t.keys.add(string(old.bytes(&e.name)))
		}
	}
}

// each calls f for every record. The key is valid only during the call.
func (t *table) each(f func(key []byte, r *store.Record)) {
	for _, chunk := range t.chunks {
		for i := range chunk {
			if e := &chunk[i]; !e.name.free() {
				f(t.keys.bytes(&e.name), &e.rec)
			}
		}
	}
}
