package bolt

import (
	"encoding/binary"
	"math"

	"github.com/brimgo/brim/internal/boltfile"
	"github.com/brimgo/brim/store"
)

// changes are the decisions of a flush.
type changes interface {
	// none reports whether there is nothing to keep.
	none() bool
	// append appends the body of a frame of the journal to b.
	append(b []byte) []byte
	// write puts the changes into a transaction of the file.
	write(to *view) error
	// publish makes the changes visible to callers. If logged is true, the journal has the changes;
	// otherwise the file has them.
	publish(logged bool)
}

// bucketChanges are changes of buckets.
type bucketChanges struct {
	l   *logged
	v   *view
	now int64 // the time of the flush
}

func (c *bucketChanges) none() bool { return !c.v.changes() }

func (c *bucketChanges) append(b []byte) []byte {
	return c.v.appendChanges(b, c.now, c.l.s.options.Clock == nil)
}

func (c *bucketChanges) write(to *view) error {
	for _, e := range c.v.dirty {
		to.set(e.key, &e.rec, e.present)
	}
	return nil
}

func (c *bucketChanges) publish(logged bool) {
	for _, e := range c.v.dirty {
		if e.present || e.stored {
			c.l.mem.publish(e.cached, e.key, &e.rec, e.present, logged)
		}
	}
}

// The first byte of the body of a frame of the journal holds flags. If ofTables is set, changes of
// the tables of other packages follow; see [memtable.Changes.Append]. Otherwise, little-endian: the
// time of the flush, 8 bytes; and for each changed bucket
//
//	flags       1 byte
//	key         its size as a uvarint, and the key
//	level       8 bytes; this and all that follows only of a bucket that is there
//	time        the time of the flush minus that of the level, as a varint
//	held        8 bytes, if it is not 0
//	limit       capacity and leak rate, 16 bytes, if it is not that of the bucket before
//	blocked     blocked until, 8 bytes, if there was a block
const (
	keepTime = 1 << iota // the time of the flush is that of the store's own clock
	ofTables
)

const (
	isThere = 1 << iota
	hasHeld
	hasLimit
	hasBlock
)

// changes reports whether v has changes to keep.
func (v *view) changes() bool {
	for _, e := range v.dirty {
		if e.present || e.stored {
			return true
		}
	}
	return false
}

// appendChanges appends the changes in v to b.
func (v *view) appendChanges(b []byte, now int64, ownClock bool) []byte {
	le := binary.LittleEndian
	var flags byte
	if ownClock {
		flags = keepTime
	}
	b = le.AppendUint64(append(b, flags), uint64(now))
	var limit store.Limit
	for _, e := range v.dirty {
		if !e.present && !e.stored {
			continue
		}
		r := &e.rec
		var flags byte
		if e.present {
			flags = isThere
			if r.Held != 0 {
				flags |= hasHeld
			}
			if r.Limit != limit {
				flags |= hasLimit
			}
			if r.BlockedUntil != 0 {
				flags |= hasBlock
			}
		}
		b = binary.AppendUvarint(append(b, flags), uint64(len(e.key)))
		b = append(b, e.key...)
		if !e.present {
			continue
		}
		b = le.AppendUint64(b, math.Float64bits(r.Level))
		b = binary.AppendVarint(b, now-r.Time)
		if flags&hasHeld != 0 {
			b = le.AppendUint64(b, math.Float64bits(r.Held))
		}
		if flags&hasLimit != 0 {
			limit = r.Limit
			b = le.AppendUint64(b, math.Float64bits(r.Capacity))
			b = le.AppendUint64(b, math.Float64bits(r.LeakRate))
		}
		if flags&hasBlock != 0 {
			b = le.AppendUint64(b, uint64(r.BlockedUntil))
		}
	}
	return b
}

// readChanges calls fn with each change in the body of a frame, and returns the time of the flush,
// or noTime if it was that of an injected clock. The keys share memory.
func readChanges(body []byte, fn func(key string, rec *store.Record, present bool)) (highest int64, err error) {
	d := decoder{b: body, text: string(body)}
	own := d.byte()&keepTime != 0
	now := int64(d.uint64())
	if highest = noTime; own {
		highest = now
	}
	var rec store.Record
	for len(d.b) > 0 && !d.bad {
		flags := d.byte()
		key := d.key()
		limit := rec.Limit
		rec = store.Record{Limit: limit}
		if flags&isThere != 0 {
			rec.Level = d.float()
			rec.Time = now - d.varint()
			if flags&hasHeld != 0 {
				rec.Held = d.float()
			}
			if flags&hasLimit != 0 {
				rec.Capacity, rec.LeakRate = d.float(), d.float()
			}
			if flags&hasBlock != 0 {
				rec.BlockedUntil = int64(d.uint64())
			}
		}
		if !d.bad {
			fn(key, &rec, flags&isThere != 0)
		}
	}
	if d.bad {
		return 0, boltfile.Damagef("the journal holds a change that cannot be read")
	}
	return highest, nil
}

// decoder reads values from b. After bad is set, all values are zero.
type decoder struct {
	b    []byte
	text string // all bytes, of which b is the end
	bad  bool
}

func (d *decoder) take(n int) []byte {
	if d.bad || n > len(d.b) {
		d.bad = true
		return nil
	}
	b := d.b[:n]
	d.b = d.b[n:]
	return b
}

func (d *decoder) byte() byte {
	if b := d.take(1); b != nil {
		return b[0]
	}
	return 0
}

func (d *decoder) uint64() uint64 {
	if b := d.take(8); b != nil {
		return binary.LittleEndian.Uint64(b)
	}
	return 0
}

// float reads a number of a record, none of which is negative.
func (d *decoder) float() float64 {
	f := math.Float64frombits(d.uint64())
	if !(f >= 0 && f <= math.MaxFloat64) {
		d.bad = true
	}
	return f
}

func (d *decoder) varint() int64 {
	n, size := binary.Varint(d.b)
	if d.take(max(size, 0)); size <= 0 {
		d.bad = true
	}
	return n
}

func (d *decoder) key() string {
	n, size := binary.Uvarint(d.b)
	if size <= 0 || n > store.MaxKeyLen {
		d.bad = true
		return ""
	}
	d.take(size)
	begin := len(d.text) - len(d.b)
	d.take(int(n))
	if d.bad {
		return ""
	}
	return d.text[begin : begin+int(n)]
}
