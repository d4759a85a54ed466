package redisstore

import (
	"encoding/binary"
	"math"
	"time"

	"github.com/brimgo/brim/store"
)

// A record is one string, all numbers little-endian: a byte with the version and flags, a checksum
// of three bytes, doubles for time and level, the limit in the form of limit.go, and then doubles
// for held units and the end of the block if there are any. Times are microseconds since 1970; see
// [store.MaxTime]. decide.lua reads and writes the same format.
//
// Most records have 28 bytes. Redis keeps a string of up to 28 bytes in an allocation of 48, and
// one of up to 44 bytes in an allocation of 64.
const (
	version    = 0x20
	hasHeld    = 1
	hasBlock   = 2
	hasWide    = 4  // the limit has the wide form
	isLasting  = 8  // the key has no end, because the store that wrote it had a clock of its own
	headLength = 4  // version and checksum
	baseLength = 28 // with time, level and the narrow form of a limit
)

// weights are the factors of the words in a checksum.
var weights = [...]uint64{3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41}

// checksum returns the checksum of a record: a weighted sum of its words. It finds every change of
// one byte, and all other changes but one of 16 million.
func checksum(raw []byte) uint32 {
	sum := uint64(raw[0])
	for i, body := 0, raw[headLength:]; len(body) > 0; i, body = i+1, body[4:] {
		sum += uint64(binary.LittleEndian.Uint32(body)) * weights[i]
	}
	return uint32(sum % 16777213) // a prime number
}

// parse decodes a record, and reports whether it is whole.
func parse(raw []byte) (rec store.Record, ok bool) {
	if len(raw) == 0 || raw[0]&^(hasHeld|hasBlock|hasWide|isLasting) != version {
		return rec, false
	}
	length, form := baseLength, narrowForm
	if raw[0]&hasWide != 0 {
		length, form = length+wideForm-narrowForm, wideForm
	}
	for _, flag := range []byte{hasHeld, hasBlock} {
		if raw[0]&flag != 0 {
			length += 8
		}
	}
	if len(raw) != length || binary.LittleEndian.Uint32(raw)>>8 != checksum(raw) {
		return rec, false
	}
	body := raw[headLength:]
	next := func() float64 {
		v := math.Float64frombits(binary.LittleEndian.Uint64(body))
		body = body[8:]
		return v
	}
	rec.Time, rec.Level = int64(next()), next()
	rec.Limit, body = parseLimit(body[:form]), body[form:]
	if raw[0]&hasHeld != 0 {
		rec.Held = next()
	}
	if raw[0]&hasBlock != 0 {
		rec.BlockedUntil = int64(next())
	}
	return rec, true
}

// clampTime returns t, or the nearest time that the contract knows.
func clampTime(t time.Time) time.Time {
	switch {
	case t.Before(time.UnixMicro(-store.MaxTime)):
		return time.UnixMicro(-store.MaxTime)
	case t.After(time.UnixMicro(store.MaxTime)):
		return time.UnixMicro(store.MaxTime)
	}
	return t
}
