// Package boltrecord encodes the buckets in a file of package bolt. The command that verifies such
// a file reads them, too.
package boltrecord

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
//
// All records have the same size, so a changed record never makes its page overflow.
const (
	recordFormat = 1
	recordSize   = 49
)

// Encode returns the value of a record.
func Encode(r *store.Record) []byte {
	le, buf := binary.LittleEndian, make([]byte, recordSize)
	buf[0] = recordFormat
	le.PutUint64(buf[1:], math.Float64bits(r.Level))
	le.PutUint64(buf[9:], math.Float64bits(r.Held))
	le.PutUint64(buf[17:], uint64(r.Time))
	le.PutUint64(buf[25:], math.Float64bits(r.Capacity))
	le.PutUint64(buf[33:], math.Float64bits(r.LeakRate))
	le.PutUint64(buf[41:], uint64(r.BlockedUntil))
	return buf
}

// Is reports whether a value can be a record.
func Is(value []byte) bool {
	_, err := Decode(value, 0)
	return err == nil
}

// Decode returns the record of a value, or a new one if there is no value. A value that cannot be a
// record is damage, never an empty bucket.
func Decode(value []byte, now int64) (r store.Record, err error) {
	switch {
	case value == nil:
		return store.NewRecord(now), nil
	case len(value) != recordSize:
		return r, Damagef("has %d bytes instead of %d", len(value), recordSize)
	case value[0] != recordFormat:
		return r, Damagef("has format %d instead of %d", value[0], recordFormat)
	}
	le := binary.LittleEndian
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
	if err := r.Validate(); err != nil {
		return store.Record{}, err
	}
	return r, nil
}

// Damagef returns the error of a damaged record.
func Damagef(format string, args ...any) error {
	return boltfile.Damagef("a bucket's record "+format+"; Reset makes the bucket empty and usable again", args...)
}
