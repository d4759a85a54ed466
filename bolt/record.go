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
//	       49  the checksums of a [boltfile.Table]
//
// All records have the same size, so a changed record never makes its page overflow.
const (
	recordFormat = 1
	recordBody   = 49
	recordSize   = recordBody + boltfile.SealSize
)

// encodeRecord writes r to buf and returns its part in the totals.
func (l layout) encodeRecord(buf *[recordSize]byte, key []byte, r *store.Record) boltfile.Sum {
	le := binary.LittleEndian
	buf[0] = recordFormat
	le.PutUint64(buf[1:], math.Float64bits(r.Level))
	le.PutUint64(buf[9:], math.Float64bits(r.Held))
	le.PutUint64(buf[17:], uint64(r.Time))
	le.PutUint64(buf[25:], math.Float64bits(r.Capacity))
	le.PutUint64(buf[33:], math.Float64bits(r.LeakRate))
	le.PutUint64(buf[41:], uint64(r.BlockedUntil))
	return l.table.Seal(key, buf[:])
}

// decodeRecord returns the record stored under key, and its part in the totals. A value that cannot
// be a record is damage, never an empty bucket.
func (l layout) decodeRecord(key, value []byte) (r store.Record, sum boltfile.Sum, err error) {
	body, sum, ok := l.table.Open(key, value)
	switch {
	case len(value) != recordSize:
		return r, sum, damagef("has %d bytes instead of %d", len(value), recordSize)
	case !ok:
		return r, sum, damagef("does not match its checksums")
	}
	r, err = decodeBody(body)
	return r, sum, err
}

// damagef returns the error of a damaged record.
func damagef(format string, args ...any) error {
	return boltfile.Damagef("a bucket's record "+format+"; Reset makes the bucket empty and usable again", args...)
}

// decodeBody decodes a record whose checksums are right.
func decodeBody(body []byte) (r store.Record, err error) {
	if body[0] != recordFormat {
		return r, damagef("has format %d instead of %d", body[0], recordFormat)
	}
	le := binary.LittleEndian
	r = store.Record{
		Level: math.Float64frombits(le.Uint64(body[1:])),
		Held:  math.Float64frombits(le.Uint64(body[9:])),
		Time:  int64(le.Uint64(body[17:])),
		Limit: store.Limit{
			Capacity: math.Float64frombits(le.Uint64(body[25:])),
			LeakRate: math.Float64frombits(le.Uint64(body[33:])),
		},
		BlockedUntil: int64(le.Uint64(body[41:])),
	}
	for _, f := range [...]float64{r.Level, r.Held, r.Capacity, r.LeakRate} {
		if !(f >= 0 && f <= math.MaxFloat64) {
			return store.Record{}, damagef("holds %v where a number from 0 up belongs", f)
		}
	}
	return r, nil
}
