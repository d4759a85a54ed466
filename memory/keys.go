package memory

import "encoding/binary"

// name contains a short key, or the place and the hash of a longer key in an [arena]. The last
// byte is the length of the short key, or long. A name of zero bytes is free, because no bucket
// has an empty key.
type name [15]byte

const (
	inline   = len(name{}) - 1
	long     = 0xff
	pageSize = 4096 // the longest key has 512 bytes
)

// free reports whether the name belongs to no bucket.
func (n *name) free() bool { return n[inline] == 0 }

// place returns the page of a long key, and its offset and length in the page.
func (n *name) place() (page uint32, offset, length uint16) {
	return binary.LittleEndian.Uint32(n[:]), binary.LittleEndian.Uint16(n[4:]), binary.LittleEndian.Uint16(n[6:])
}

// hash returns the hash of a long key.
func (n *name) hash() uint32 { return binary.LittleEndian.Uint32(n[8:]) }

// arena contains the keys that are too long for their names, one after the other in pages,
// without a pointer per key and without padding. The bytes of dropped keys stay wasted until
// the table copies the arena.
type arena struct {
	pages        [][]byte
	used, wasted int // bytes
}

// add copies key into the arena or into the returned name. The name never refers to key, which
// may be part of a large buffer.
func (a *arena) add(hash uint32, key string) (n name) {
	if len(key) <= inline {
		copy(n[:], key)
		n[inline] = byte(len(key))
		return n
	}
	last := len(a.pages) - 1
	if last < 0 || cap(a.pages[last])-len(a.pages[last]) < len(key) {
		// The first pages are small, because a store has many arenas.
		size := min(pageSize, max(4*len(key), a.used))
		a.pages = append(a.pages, make([]byte, 0, size))
		last++
	}
	binary.LittleEndian.PutUint32(n[:], uint32(last))
	binary.LittleEndian.PutUint16(n[4:], uint16(len(a.pages[last])))
	binary.LittleEndian.PutUint16(n[6:], uint16(len(key)))
	binary.LittleEndian.PutUint32(n[8:], hash)
	n[inline] = long
	a.pages[last] = append(a.pages[last], key...)
	a.used += len(key)
	return n
}

// bytes returns the key of n. The caller must not change it.
func (a *arena) bytes(n *name) []byte {
	if n[inline] != long {
		return n[:n[inline]]
	}
	page, offset, length := n.place()
	return a.pages[page][offset : int(offset)+int(length)]
}

// is reports whether n is the name of key. The hash of a long key spares most readings of the
// arena.
func (a *arena) is(n *name, hash uint32, key string) bool {
	if len(key) <= inline {
		return int(n[inline]) == len(key) && string(n[:len(key)]) == key
	}
	return n[inline] == long && n.hash() == hash && string(a.bytes(n)) == key
}

// drop counts the bytes of a removed key as wasted.
func (a *arena) drop(n *name) {
	if n[inline] == long {
		_, _, length := n.place()
		a.wasted += int(length)
	}
}

// wasteful reports whether the wasted bytes are more than half of the arena and more than a
// page.
func (a *arena) wasteful() bool { return a.wasted > pageSize && 2*a.wasted > a.used }
