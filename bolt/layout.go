package bolt

import (
	"encoding/binary"
	"errors"
	"fmt"

	"go.etcd.io/bbolt"

	"github.com/brimgo/brim/internal/boltfile"
)

// The store has two bbolt buckets: one for the records, and a small meta bucket. bbolt keeps the
// meta bucket inside the page of its parent, which every commit writes anyway, so it costs no
// page. It holds
//
//	"format"  version, 4 bytes
//	"state"   highest time written, 8 bytes; number of records, 8 bytes;
//	          sum of their checksums modulo 2^64, 8 bytes
//
// each little-endian and followed by the CRC-32C of its key and value. Number and sum tell if a
// page of records is missing and everything else is intact. The checksums of the records cannot
// tell.
const (
	fileFormat = 1
	formatSize = 4 + 4
	totalsSize = 24 + 4
)

var (
	formatKey = []byte("format")
	totalsKey = []byte("state")
)

// totals sums up all records.
type totals struct {
	time  int64 // highest time written, in microseconds since the Unix epoch; 0 if all clocks were injected
	count uint64
	sum   uint64
}

func (t *totals) add(sum uint32)    { t.count, t.sum = t.count+1, t.sum+uint64(sum) }
func (t *totals) remove(sum uint32) { t.count, t.sum = t.count-1, t.sum-uint64(sum) }

func (t *totals) encode(buf *[totalsSize]byte) {
	le := binary.LittleEndian
	le.PutUint64(buf[0:], uint64(t.time))
	le.PutUint64(buf[8:], t.count)
	le.PutUint64(buf[16:], t.sum)
	le.PutUint32(buf[24:], boltfile.Checksum(totalsKey, buf[:24]))
}

func decodeTotals(value []byte) (t totals, err error) {
	le := binary.LittleEndian
	if len(value) != totalsSize || boltfile.Checksum(totalsKey, value[:24]) != le.Uint32(value[24:]) {
		return t, boltfile.Damagef("the totals of all buckets are missing or do not match their checksum")
	}
	return totals{time: int64(le.Uint64(value)), count: le.Uint64(value[8:]), sum: le.Uint64(value[16:])}, nil
}

func encodeFormat() []byte {
	buf := binary.LittleEndian.AppendUint32(nil, fileFormat)
	return binary.LittleEndian.AppendUint32(buf, boltfile.Checksum(formatKey, buf))
}

// checkFormat refuses a file that a newer version has written.
func checkFormat(value []byte) error {
	le := binary.LittleEndian
	if len(value) != formatSize || boltfile.Checksum(formatKey, value[:4]) != le.Uint32(value[4:]) {
		return boltfile.Damagef("the format's number is missing or does not match its checksum")
	}
	switch v := le.Uint32(value); {
	case v > fileFormat:
		return fmt.Errorf("a newer version of brim has written it in format %d; this version reads up to format %d: "+
			"update brim (%w)", v, fileFormat, errors.ErrUnsupported)
	case v != fileFormat:
		return boltfile.Damagef("format %d was never written by any version of brim", v)
	}
	return nil
}

// layout holds the names of the store's bbolt buckets. It implements [boltfile.Layout].
type layout struct{ records, meta []byte }

func layoutOf(name string) layout { return layout{[]byte(name), []byte(name + ".meta")} }

// Buckets lists both names.
func (l layout) Buckets() [][]byte { return [][]byte{l.records, l.meta} }

// NewCheck begins a count of all records.
func (l layout) NewCheck() boltfile.Check { return &census{layout: l} }

// Create makes the buckets.
func (l layout) Create(tx *bbolt.Tx) error {
	if _, err := tx.CreateBucket(l.records); err != nil {
		return err
	}
	meta, err := tx.CreateBucket(l.meta)
	if err != nil {
		return err
	}
	if err := meta.Put(formatKey, encodeFormat()); err != nil {
		return err
	}
	var buf [totalsSize]byte
	(&totals{}).encode(&buf)
	return meta.Put(totalsKey, buf[:])
}

// find returns the buckets in tx. Both are nil if tx has neither; if tx has only one of the two,
// the error is [store.ErrCorrupt].
func (l layout) find(tx *bbolt.Tx) (records, meta *bbolt.Bucket, err error) {
	records, meta = tx.Bucket(l.records), tx.Bucket(l.meta)
	if (records == nil) != (meta == nil) {
		return nil, nil, boltfile.Damagef("one of the two buckets %q and %q is missing", l.records, l.meta)
	}
	return records, meta, nil
}

// open returns the buckets in tx and the totals of the records.
func (l layout) open(tx *bbolt.Tx) (records, meta *bbolt.Bucket, t totals, err error) {
	records, meta, err = l.find(tx)
	if err == nil && records == nil {
		err = boltfile.Damagef("the buckets %q and %q are missing", l.records, l.meta)
	}
	if err == nil {
		t, err = decodeTotals(meta.Get(totalsKey))
	}
	return records, meta, t, err
}
