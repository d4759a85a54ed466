package bolt

import (
	"encoding/binary"

	"go.etcd.io/bbolt"

	"github.com/brimgo/brim/internal/boltfile"
	"github.com/brimgo/brim/internal/journal"
)

// mark records in the file which journal belongs to the file, and up to which position the file has
// the changes of the journal. The store's meta bucket has the mark under the key "journal":
//
//	offset  0  1 if the file needs the journal, 0 if it does not any more, 1 byte
//	        1  ID of the journal, 16 bytes
//	       17  generation, 25 offset, 33 number: the position up to which the file has all changes
//
// followed by the checksums of the table.
type mark struct {
	journal.ID
	journal.Position
	inUse bool
}

const markSize = 41 + boltfile.SealSize

var markKey = []byte("journal")

// putMark stores m with the changes of v.
func (v *view) putMark(m mark) error {
	buf := make([]byte, markSize)
	if m.inUse {
		buf[0] = 1
	}
	copy(buf[1:], m.ID[:])
	le := binary.LittleEndian
	le.PutUint64(buf[17:], m.Generation)
	le.PutUint64(buf[25:], uint64(m.Offset))
	le.PutUint64(buf[33:], m.Number)
	v.layout.table.SealMeta(markKey, buf)
	v.wrote = true
	return v.meta.Put(markKey, buf)
}

// readMark returns the mark in the store's meta bucket.
func (l layout) readMark(meta *bbolt.Bucket) (m mark, err error) {
	return l.decodeMark(meta.Get(markKey))
}

// decodeMark decodes a stored mark. Without one, it returns the zero mark.
func (l layout) decodeMark(value []byte) (m mark, err error) {
	if value == nil {
		return m, nil
	}
	body, ok := l.table.OpenMeta(markKey, value)
	if !ok || len(value) != markSize {
		return m, boltfile.Damagef("the mark of the journal does not match its checksum")
	}
	copy(m.ID[:], body[1:])
	le := binary.LittleEndian
	m.inUse = body[0] != 0
	m.Position = journal.Position{
		Generation: le.Uint64(body[17:]), Offset: int64(le.Uint64(body[25:])), Number: le.Uint64(body[33:]),
	}
	return m, nil
}
