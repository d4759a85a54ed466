package memory

import (
	"strings"

	"github.com/brimgo/brim/store"
)

// table is a hash table of records: open addressing over an index of eight-byte slots, entries of one cache line each in
// chunks that never move. A decision so touches a slot, an entry and the key's bytes; Go's map of pointers touches twice as
// much memory, and waiting for memory is what a decision over many keys costs.
//
// The caller locks. Pointers to records stay valid until their key is removed.
type table struct {
	index  []slot // a power of two long
	chunks []*[chunkLen]entry
	live   int
	free   uint32 // head of the list of entries that were removed, linked by Record.Time; entry numbers start at 1
	fresh  uint32 // entries that were never used begin after this number
}

// slot is 0 where it is empty.
type slot struct{ hash, entry uint32 }

type entry struct {
	key string // empty where the entry is free: no bucket has an empty key
	rec store.Record
}

const (
	chunkLen   = 16
	firstSlots = 8
)

func (t *table) at(number uint32) *entry { return &t.chunks[(number-1)/chunkLen][(number-1)%chunkLen] }

// find returns the record of key, or nil.
func (t *table) find(hash uint32, key string) *store.Record {
	if i, ok := t.slotOf(hash, key); ok {
		return &t.at(t.index[i].entry).rec
	}
	return nil
}

func (t *table) slotOf(hash uint32, key string) (int, bool) {
	if t.live == 0 {
		return 0, false
	}
	mask := uint32(len(t.index) - 1)
	for i := hash & mask; ; i = (i + 1) & mask {
		s := t.index[i]
		if s.entry == 0 {
			return 0, false
		}
		if s.hash == hash && t.at(s.entry).key == key {
			return int(i), true
		}
	}
}

// insert keeps the record of a key that is not in the table. The key's bytes are copied: it may be part of a large buffer.
func (t *table) insert(hash uint32, key string, r store.Record) {
	if 5*(t.live+1) > 4*len(t.index) {
		t.grow()
	}
	number := t.free
	if number != 0 {
		t.free = uint32(t.at(number).rec.Time)
	} else {
		if int(t.fresh) == len(t.chunks)*chunkLen {
			t.chunks = append(t.chunks, new([chunkLen]entry))
		}
		t.fresh++
		number = t.fresh
	}
	*t.at(number) = entry{key: strings.Clone(key), rec: r}
	t.place(slot{hash: hash, entry: number})
	t.live++
}

func (t *table) place(s slot) {
	mask := uint32(len(t.index) - 1)
	i := s.hash & mask
	for t.index[i].entry != 0 {
		i = (i + 1) & mask
	}
	t.index[i] = s
}

func (t *table) grow() {
	old := t.index
	t.index = make([]slot, max(firstSlots, 2*len(old)))
	for _, s := range old {
		if s.entry != 0 {
			t.place(s)
		}
	}
}

// remove forgets a key and reports whether it was there.
func (t *table) remove(hash uint32, key string) bool {
	i, ok := t.slotOf(hash, key)
	if ok {
		t.removeSlot(i)
	}
	return ok
}

// removeSlot empties a slot and moves up those behind it that would no longer be found.
func (t *table) removeSlot(i int) {
	number := t.index[i].entry
	*t.at(number) = entry{rec: store.Record{Time: int64(t.free)}}
	t.free = number
	t.live--
	mask := len(t.index) - 1
	hole := i
	for j := (i + 1) & mask; t.index[j].entry != 0; j = (j + 1) & mask {
		home := int(t.index[j].hash) & mask
		if (j-home)&mask >= (j-hole)&mask {
			t.index[hole] = t.index[j]
			hole = j
		}
	}
	t.index[hole] = slot{}
}

// removeIf removes every record that gone names, and returns their number.
func (t *table) removeIf(gone func(*store.Record) bool) (removed int) {
	for i := 0; i < len(t.index); {
		if n := t.index[i].entry; n != 0 && gone(&t.at(n).rec) {
			t.removeSlot(i)
			removed++
			continue // what moved into this slot has yet to be looked at
		}
		i++
	}
	if t.live == 0 {
		*t = table{} // memory follows the buckets in use
	}
	return removed
}

// each calls f for every record.
func (t *table) each(f func(key string, r *store.Record)) {
	for _, chunk := range t.chunks {
		for i := range chunk {
			if chunk[i].key != "" {
				f(chunk[i].key, &chunk[i].rec)
			}
		}
	}
}
