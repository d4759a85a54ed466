package kv

import (
	"encoding/binary"
	"hash/crc32"
	"math"

	"github.com/brimgo/brim/internal/boltfile"
)

// A frame, little-endian:
//
//	offset  0  checksum, 4 bytes: that of the header, continued over the body
//	        4  size of the body in bytes, 4 bytes
//	        8  generation, 8 bytes
//	       16  number of the frame, 8 bytes
//	       24  offset where the generation before this one ended, 4 bytes
//	       28  number of frames before this one that may not have been durable yet, 4 bytes
//	       32  checksum of the header, 4 bytes: CRC-32C of the ID and of offset 4 to 32
//	       36  body, and zeros up to a multiple of 8 bytes
//
// The checksum of the header tells a frame whose body was torn from bytes of a body that look like
// a frame, without a look at the body.
const (
	headerSize = 36
	headerSum  = 32
	align      = 8
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// header is the part of a frame before its body.
type header struct {
	size       int64 // of the body
	generation uint64
	number     uint64
	before     int64
	unsynced   uint64
}

// durable returns the number of the first frame that may have been lost in a power cut after this
// one was written. All frames before it were durable then.
func (h *header) durable() uint64 { return h.number - h.unsynced }

// frameSize returns the size of a frame whose body has so many bytes.
func frameSize(body int64) int64 { return (headerSize + body + align - 1) &^ (align - 1) }

// appendFrame appends a frame to buf.
func appendFrame(buf []byte, seed uint32, h header, body []byte) []byte {
	le := binary.LittleEndian
	start := len(buf)
	buf = le.AppendUint32(buf, 0)
	buf = le.AppendUint32(buf, uint32(len(body)))
	buf = le.AppendUint64(buf, h.generation)
	buf = le.AppendUint64(buf, h.number)
	buf = le.AppendUint32(buf, uint32(h.before))
	buf = le.AppendUint32(buf, uint32(h.unsynced))
	sum := crc32.Update(seed, castagnoli, buf[start+4:])
	buf = append(le.AppendUint32(buf, sum), body...)
	le.PutUint32(buf[start:], crc32.Update(sum, castagnoli, body))
	for (len(buf)-start)%align != 0 {
		buf = append(buf, 0)
	}
	return buf
}

// parseHeader returns the header at the beginning of b. ok is false if there is none. Whether the
// body follows, body tells.
func parseHeader(b []byte, seed uint32) (h header, ok bool) {
	le := binary.LittleEndian
	if len(b) < headerSize || crc32.Update(seed, castagnoli, b[4:headerSum]) != le.Uint32(b[headerSum:]) {
		return h, false
	}
	h = header{
		size:       int64(le.Uint32(b[4:])),
		generation: le.Uint64(b[8:]),
		number:     le.Uint64(b[16:]),
		before:     int64(le.Uint32(b[24:])),
		unsynced:   uint64(le.Uint32(b[28:])),
	}
	return h, h.generation > 0 && h.unsynced <= h.number
}

// body returns the body of the frame at the beginning of b. ok is false if there is no whole frame.
func (h *header) body(b []byte) (body []byte, ok bool) {
	if frameSize(h.size) > int64(len(b)) {
		return nil, false
	}
	le, body := binary.LittleEndian, b[headerSize:headerSize+h.size]
	return body, crc32.Update(le.Uint32(b[headerSum:]), castagnoli, body) == le.Uint32(b)
}

// The body of a frame holds the time of the changes, 8 bytes, and runs of changes of one table
// each:
//
//	name of the table, number of the changes
//	for each of them: the key; 0 if it was deleted, or 1 + the size of the value, and the value
//
// Numbers are uvarints, and the size of a string precedes it. A value has no checksums here,
// because the frame has one.

// appendChanges appends the body of a frame to b.
func appendChanges(b []byte, list []change, time int64) []byte {
	b = binary.LittleEndian.AppendUint64(b, uint64(time))
	for len(list) > 0 {
		run := sameTable(list)
		b = appendString(b, run[0].table.name)
		b = binary.AppendUvarint(b, uint64(len(run)))
		for _, c := range run {
			b = appendString(b, c.key)
			if c.value == nil {
				b = append(b, 0)
				continue
			}
			b = append(binary.AppendUvarint(b, uint64(len(c.value))+1), c.value...)
		}
		list = list[len(run):]
	}
	return b
}

func appendString(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// readChanges calls put with each change in the body of a frame, and returns their time. The keys
// share memory, and the value is a part of body. A body that appendChanges never writes is damage,
// although it matches its checksum.
func readChanges(body []byte, put func(table, key string, value []byte) error) (time int64, err error) {
	d, text := decoder{b: body}, string(body)
	if b := d.take(8); b != nil {
		time = int64(binary.LittleEndian.Uint64(b))
	}
	for more := true; more && !d.bad; more = len(d.b) > 0 {
		table, n := string(d.take(d.number())), d.number()
		d.bad = d.bad || n == 0
		for ; n > 0 && !d.bad; n-- {
			keySize := d.number()
			begin := len(text) - len(d.b)
			d.take(keySize)
			size := d.number()
			var value []byte
			if size > 0 {
				value = d.take(size - 1)
			}
			if d.bad = d.bad || checkKey(keySize) != nil; d.bad {
				break
			}
			if err := put(table, text[begin:begin+keySize], value); err != nil {
				return 0, err
			}
		}
	}
	if d.bad {
		return 0, boltfile.Damagef("the journal holds a change that cannot be read")
	}
	return time, nil
}

// unknownTable is the error of a change of a table that the file lacks, which no checkpoint could
// write.
func unknownTable(name string) error {
	return boltfile.Damagef("the journal changes the bucket %q, which the file lacks", name)
}

// checkRecord returns the error of a value in a body that bolt does not write, if it is one of the
// first table. The values of a ledger are judged when they are used.
func checkRecord(isRecord func([]byte) bool, first bool, value []byte) error {
	if first && value != nil && !isRecord(value) {
		return boltfile.Damagef("the journal holds a record that no version of brim has written")
	}
	return nil
}

// decoder reads values from b. After bad is set, all values are zero.
type decoder struct {
	b   []byte
	bad bool
}

func (d *decoder) number() int {
	n, size := binary.Uvarint(d.b)
	if d.bad || size <= 0 || n > math.MaxInt32 {
		d.bad = true
		return 0
	}
	d.b = d.b[size:]
	return int(n)
}

func (d *decoder) take(n int) []byte {
	if d.bad || n > len(d.b) {
		d.bad = true
		return nil
	}
	b := d.b[:n:n]
	d.b = d.b[n:]
	return b
}
