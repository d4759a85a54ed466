package bolt

import (
	"encoding/binary"
	"errors"
	"fmt"

	"go.etcd.io/bbolt"

	"github.com/brimgo/brim/internal/boltfile"
)

// The store has two bbolt buckets, which are a [boltfile.Table] with its meta bucket: one for the
// records, and one for their totals, whose time is the highest time written. The meta bucket also
// holds
//
//	"format"  version, 4 bytes, little-endian
//
// followed by the checksums of the table.
const (
	fileFormat = 1
	formatSize = 4 + boltfile.SealSize
)

var formatKey = []byte("format")

func (l layout) encodeFormat() []byte {
	buf := make([]byte, formatSize)
	binary.LittleEndian.PutUint32(buf, fileFormat)
	l.table.SealMeta(formatKey, buf)
	return buf
}

// checkFormat refuses a file that a newer version has written.
func (l layout) checkFormat(value []byte) error {
	body, ok := l.table.OpenMeta(formatKey, value)
	if !ok || len(value) != formatSize {
		return boltfile.Damagef("the format's number is missing or does not match its checksum")
	}
	switch v := binary.LittleEndian.Uint32(body); {
	case v > fileFormat:
		return fmt.Errorf("a newer version of brim has written it in format %d; this version reads up to format %d: "+
			"update brim (%w)", v, fileFormat, errors.ErrUnsupported)
	case v != fileFormat:
		return boltfile.Damagef("format %d was never written by any version of brim", v)
	}
	return nil
}

// layout describes the store's bbolt buckets. It implements [boltfile.Layout].
type layout struct{ table *boltfile.Table }

func layoutOf(name string) layout { return layout{boltfile.NewTable(name)} }

// Buckets lists both names.
func (l layout) Buckets() [][]byte { return [][]byte{l.table.Name(), l.table.MetaName()} }

// NewCheck begins a count of all records.
func (l layout) NewCheck() boltfile.Check { return &census{layout: l} }

// Create makes the buckets.
func (l layout) Create(tx *bbolt.Tx) error {
	meta, err := l.table.Create(tx)
	if err != nil {
		return err
	}
	return meta.Put(formatKey, l.encodeFormat())
}

// open returns the buckets in tx and the totals of the records.
func (l layout) open(tx *bbolt.Tx) (records, meta *bbolt.Bucket, t boltfile.Totals, err error) {
	records, meta, err = l.table.Find(tx)
	if err == nil && records == nil {
		err = boltfile.Damagef("the buckets %q and %q are missing", l.table.Name(), l.table.MetaName())
	}
	if err == nil {
		t, err = l.table.Totals(meta)
	}
	return records, meta, t, err
}
