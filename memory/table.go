package memory

import "github.com/brimgo/brim/store"

// table is a hash table with open addressing and linear probing. A slot takes half a cache line
// and contains the bucket itself: its record, and its key if the key is short. The slots contain
// no pointers, so the garbage collector does not visit them.
//
// A decision over many keys spends its time waiting for memory. So a lookup reads the slot and
// nothing on the way to it. A map of pointers reads a group of keys and the bucket behind them.
//
// The caller locks. A pointer to a slot stays valid until the next insert or removal.
type table struct {
	slots  []slot // at most three quarters are in use, so every probe ends at a free slot
	live   int
	limits []store.Limit // the limits that slots refer to
	wide   *wide         // nil until a record does not fit into a slot
	keys   arena
	hash   func(key []byte) uint32 // the hash that callers pass to find and insert
}

const firstSlots = 8

// home returns the slot at which the search for a hash begins. A greater hash never has a lower
// home. Visit relies on that.
func (t *table) home(hash uint32) int { return int(uint64(hash) * uint64(len(t.slots)) >> 32) }

// next returns the slot that a probe reads after slot i.
func (t *table) next(i int) int {
	if i++; i == len(t.slots) {
		return 0
	}
	return i
}

// hashOf returns the hash of a name.
func (t *table) hashOf(n *name) uint32 {
	if n[inline] == long {
		return n.hash()
	}
	return t.hash(t.keys.bytes(n))
}

// search returns the slot of key, or the free slot at which the search ended.
func (t *table) search(hash uint32, key string) (i int, found bool) {
	for i = t.home(hash); ; i = t.next(i) {
		n := &t.slots[i].name
		if n.free() {
			return i, false
		}
		if t.keys.is(n, hash, key) {
			return i, true
		}
	}
}

// find returns the slot of key, or nil.
func (t *table) find(hash uint32, key string) *slot {
	if len(t.slots) == 0 {
		return nil
	}
	if i, found := t.search(hash, key); found {
		return &t.slots[i]
	}
	return nil
}

// insert stores the record of a key that is not in the table.
func (t *table) insert(hash uint32, key string, r *store.Record) {
	if 4*(t.live+1) > 3*len(t.slots) {
		// With steps of a third, a growing table keeps more than half of its slots in use.
		t.resize(max(firstSlots, len(t.slots)+len(t.slots)/3))
	}
	t.add(hash, t.keys.add(hash, key), r)
}

// add puts a record into the first free slot for hash.
func (t *table) add(hash uint32, n name, r *store.Record) {
	i := t.home(hash)
	for !t.slots[i].name.free() {
		i = t.next(i)
	}
	s := &t.slots[i]
	s.name = n
	t.save(s, r)
	t.live++
}

// resize moves all buckets to a new array of slots. It forgets the limits that no slot refers to.
// Records that fit into a slot by now leave wide.
func (t *table) resize(slots int) {
	old := *t
	*t = table{slots: make([]slot, slots), keys: old.keys, hash: old.hash}
	for i := range old.slots {
		if s := &old.slots[i]; !s.name.free() {
			var r store.Record
			old.load(s, &r)
			t.add(t.hashOf(&s.name), s.name, &r)
		}
	}
}

// remove removes a key and reports whether the table contained it.
func (t *table) remove(hash uint32, key string) bool {
	if len(t.slots) == 0 {
		return false
	}
	i, found := t.search(hash, key)
	if found {
		t.empty(i)
		t.tidyKeys()
	}
	return found
}

// empty empties a slot that is in use. It moves buckets back that stand behind the gap and that
// search could not reach across it.
func (t *table) empty(hole int) {
	s := &t.slots[hole]
	t.keys.drop(&s.name)
	t.wide.drop(s)
	t.live--
	for i := t.next(hole); !t.slots[i].name.free(); i = t.next(i) {
		home := t.home(t.hashOf(&t.slots[i].name))
		if t.distance(home, i) >= t.distance(hole, i) {
			t.slots[hole] = t.slots[i]
			hole = i
		}
	}
	t.slots[hole] = slot{}
}

// distance returns the number of steps from one slot to another.
func (t *table) distance(from, to int) int {
	if to < from {
		to += len(t.slots)
	}
	return to - from
}

// removeIf removes the records for which gone returns true, and returns their number. gone may see
// a record twice. If less than a quarter of the slots remain in use, the table shrinks, so that
// memory use follows the number of buckets.
func (t *table) removeIf(gone func(*store.Record) bool) (removed int) {
	var r store.Record
	for i := 0; i < len(t.slots); {
		s := &t.slots[i]
		if !s.name.free() {
			if t.load(s, &r); gone(&r) {
				t.empty(i) // and look at slot i again: another bucket may have moved there
				removed++
				continue
			}
		}
		i++
	}
	if removed == 0 {
		return 0
	}
	if t.live == 0 {
		*t = table{hash: t.hash}
		return removed
	}
	if len(t.slots) > firstSlots && 4*t.live < len(t.slots) {
		t.resize(max(firstSlots, 2*t.live))
	}
	t.tidyKeys()
	return removed
}

// tidyKeys copies the keys in use to a new arena if the arena is wasteful.
func (t *table) tidyKeys() {
	if !t.keys.wasteful() {
		return
	}
	old := t.keys
	t.keys = arena{}
	for i := range t.slots {
		if n := &t.slots[i].name; n[inline] == long {
			*n = t.keys.add(n.hash(), string(old.bytes(n)))
		}
	}
}

// each calls f for every record. The key is valid only during the call.
func (t *table) each(f func(key []byte, r store.Record)) {
	for i := range t.slots {
		if s := &t.slots[i]; !s.name.free() {
			var r store.Record
			t.load(s, &r)
			f(t.keys.bytes(&s.name), r)
		}
	}
}
