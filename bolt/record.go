package bolt

import (
	"encoding/binary"
	"math"

	"github.com/brimgo/brim/internal/boltfile"
	"github.com/brimgo/brim/store"
)

// A stored record, format 1, little-endian:
//
//	offset  0  format, 1 byte
//	        1  level, 9 held, 25 capacity, 33 leak rate: IEEE 754 doubles
//	       17  time, 41 blocked until: microseconds since the Unix epoch
//	       49  CRC-32C of the key followed by the 49 bytes before
//
// All records have the same size, so a changed record never makes its page overflow.
const (
	recordFormat = 1
	recordSize   = 53
)

// encodeRecord writes r to buf and returns its checksum.
func encodeRecord(buf *[recordSize]byte, key []byte, r *store.Record) uint32 {
	le := binary.LittleEndian
	buf[0] = recordFormat
	le.PutUint64(buf[1:], math.Float64bits(r.Level))
	le.PutUint64(buf[9:], math.Float64bits(r.Held))
	le.PutUint64(buf[17:], uint64(r.Time))
	le.PutUint64(buf[25:], math.Float64bits(r.Capacity))
	le.PutUint64(buf[33:], math.Float64bits(r.LeakRate))
	le.PutUint64(buf[41:], uint64(r.BlockedUntil))
	sum := boltfile.Checksum(key, buf[:49])
	le.PutUint32(buf[49:], sum)
	return sum
}

// decodeRecord returns the record stored under key, and its checksum. A value that cannot be a
// record is damage, never an empty bucket.
func decodeRecord(key, value []byte) (r store.Record, sum uint32, err error) {
	if len(value) != recordSize {
		return r, 0, boltfile.Damagef("a bucket's record has %d bytes instead of %d", len(value), recordSize)
	}
	le := binary.LittleEndian
	sum = le.Uint32(value[49:])
	if boltfile.Checksum(key, value[:49]) != sum {
		return r, 0, boltfile.Damagef("a bucket's record does not match its checksum")
	}
	if value[0] != recordFormat {
		return r, 0, boltfile.Damagef("a bucket's record has format %d instead of %d", value[0], recordFormat)
	}
	r = store.Record{
		Level: math.Float64frombits(le.Uint64(value[1:])),
		Held:  math.Float64frombits(le.Uint64(value[9:])),
		Time:  int64(le.Uint64(value[17:])),
		Limit: store.Limit{
			Capacity: math.Float64frombits(le.Uint64(value[25:])),
			LeakRate: math.Float64frombits(le.Uint64(value[33:])),
		},
		BlockedUntil: int64(le.Uint64(value[41:])),
	}
	for _, f := range [...]float64{r.Level, r.Held, r.Capacity, r.LeakRate} {
		if !(f >= 0 && f <= math.MaxFloat64) {
			return store.Record{}, 0, boltfile.Damagef("a bucket's record holds %v where a number from 0 up belongs", f)
		}
	}
	return r, sum, nil
}

// storedSum returns the part that a record, even a damaged one, most likely has in the sum of all
// checksums.
func storedSum(value []byte) uint32 {
	if len(value) != recordSize {
		return 0
	}
	return binary.LittleEndian.Uint32(value[49:])
}
