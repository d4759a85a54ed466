package kv

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	"go.etcd.io/bbolt"

	"github.com/brimgo/brim/internal/boltfile"
)

// The first table of a database has in its meta bucket, beside its totals, whose time is the time
// of the last change:
//
//	"format"   version, 4 bytes, little-endian
//	"journal"  the watermark of the log; see watermark
//
// each followed by the checksums of the table.
const (
	fileFormat = 1
	formatSize = 4 + boltfile.SealSize
)

var (
	formatKey    = []byte("format")
	watermarkKey = []byte("journal")
)

// firstTable describes the buckets of the first table. It implements [boltfile.Layout].
type firstTable struct{ table *boltfile.Table }

// Buckets lists both names.
func (t firstTable) Buckets() [][]byte { return [][]byte{t.table.Name(), t.table.MetaName()} }

// NewCheck begins a count of all values.
func (t firstTable) NewCheck() boltfile.Check { return &fileCheck{firstTable: t} }

// Create makes the buckets.
func (t firstTable) Create(tx *bbolt.Tx) error {
	meta, err := t.table.Create(tx)
	if err != nil {
		return err
	}
	buf := make([]byte, formatSize)
	binary.LittleEndian.PutUint32(buf, fileFormat)
	t.table.SealMeta(formatKey, buf)
	return meta.Put(formatKey, buf)
}

// checkFormat refuses a file that a newer version has written.
func (t firstTable) checkFormat(value []byte) error {
	body, ok := t.table.OpenMeta(formatKey, value)
	if !ok || len(value) != formatSize {
		return boltfile.Damagef("the format's number is missing or does not match its checksum")
	}
	switch v := binary.LittleEndian.Uint32(body); {
	case v > fileFormat:
		return boltfile.Misconfigured(fmt.Sprintf("a newer version of brim has written it in format %d; this version reads "+
			"up to format %d: update brim (%v)", v, fileFormat, errors.ErrUnsupported), errors.ErrUnsupported)
	case v != fileFormat:
		return boltfile.Damagef("format %d was never written by any version of brim", v)
	}
	return nil
}

// fileCheck counts the values of all tables in the file and compares them with their totals. It
// implements [boltfile.Check].
type fileCheck struct {
	boltfile.Verifier
	firstTable firstTable
	format     []byte
	watermark  []byte
}

func (c *fileCheck) Visit(bucket, key, value []byte) {
	if bytes.Equal(bucket, c.firstTable.table.MetaName()) {
		switch {
		case bytes.Equal(key, formatKey):
			c.format = bytes.Clone(value)
		case bytes.Equal(key, watermarkKey):
			c.watermark = bytes.Clone(value)
		}
	}
	c.Verifier.Visit(bucket, key, value)
}

// Err returns the first damage for which the file must not be used. A newer format comes first,
// because it explains all other damage.
func (c *fileCheck) Err() error {
	if c.format == nil {
		return boltfile.Damagef("it is a bbolt file, but not one of brim's, or its bucket %q is missing; "+
			"to add buckets to an application's database use New", c.firstTable.table.MetaName())
	}
	if err := c.firstTable.checkFormat(c.format); err != nil {
		return err
	}
	if _, err := decodeWatermark(c.firstTable.table, c.watermark); err != nil {
		return err
	}
	return c.Verifier.Err()
}

// watermark records in the file which log belongs to it, and up to which position the file has the
// changes of the log:
//
//	offset  0  1 if the file needs the log, 0 if it does not any more, 1 byte
//	        1  ID of the log, 16 bytes
//	       17  generation, 25 offset, 33 number: the position up to which the file has all changes
type watermark struct {
	id logID
	position
	inUse bool
}

const watermarkSize = 41 + boltfile.SealSize

// putWatermark records that the file has all changes up to p, if there is a log.
func (d *DB) putWatermark(btx *bbolt.Tx, p position, inUse bool) error {
	if id := d.id.Load(); id != nil {
		return putWatermark(d.first(), btx, watermark{*id, p, inUse})
	}
	return nil
}

func putWatermark(t *Table, btx *bbolt.Tx, m watermark) error {
	_, meta, err := t.find(btx)
	if err != nil {
		return err
	}
	buf := make([]byte, watermarkSize)
	if m.inUse {
		buf[0] = 1
	}
	copy(buf[1:], m.id[:])
	le := binary.LittleEndian
	le.PutUint64(buf[17:], m.generation)
	le.PutUint64(buf[25:], uint64(m.offset))
	le.PutUint64(buf[33:], m.number)
	t.SealMeta(watermarkKey, buf)
	return meta.Put(watermarkKey, buf)
}

// decodeWatermark decodes a stored watermark. Without one, it returns the zero watermark.
func decodeWatermark(t *boltfile.Table, value []byte) (m watermark, err error) {
	if value == nil {
		return m, nil
	}
	body, ok := t.OpenMeta(watermarkKey, value)
	if !ok || len(value) != watermarkSize {
		return m, boltfile.Damagef("the watermark of the journal does not match its checksum")
	}
	copy(m.id[:], body[1:])
	le := binary.LittleEndian
	m.inUse = body[0] != 0
	m.position = position{
		generation: le.Uint64(body[17:]), offset: int64(le.Uint64(body[25:])), number: le.Uint64(body[33:]),
	}
	return m, nil
}

// DropWatermark removes the watermark from a copy of the file, which needs no log.
func (d *DB) DropWatermark(tx *bbolt.Tx) error {
	_, meta, err := d.first().find(tx)
	if err != nil {
		return err
	}
	return meta.Delete(watermarkKey)
}
