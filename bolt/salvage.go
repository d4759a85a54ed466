package bolt

import (
	"bytes"
	"strings"

	"go.etcd.io/bbolt"

	"github.com/brimgo/brim/internal/boltfile"
)

// Salvor returns the part of the command "brim verify" that knows the buckets of a store. Its type
// is internal: only this repository can use it, and it may change at any time.
func Salvor() boltfile.Salvor { return &salvor{} }

// salvor carries over the records of buckets, and the changes in the journal over them.
type salvor struct {
	from *boltfile.Remains // of beside
	beside
}

// Tables chooses all tables that are not those of a ledger. A file must have the store's own.
func (*salvor) Tables(r *boltfile.Remains) (tables []*boltfile.Table) {
	own := boltfile.NewTable(defaultName)
	for _, t := range r.Tables() {
		if name := string(t.Name()); strings.HasSuffix(name, ".accounts") || strings.HasSuffix(name, ".requests") {
			continue
		}
		if tables = append(tables, t); bytes.Equal(t.Name(), own.Name()) {
			own = nil
		}
	}
	if own != nil {
		tables = append(tables, own)
	}
	return tables
}

// Create makes the buckets of stores.
func (*salvor) Create(tx *bbolt.Tx, tables []*boltfile.Table) error {
	for _, t := range tables {
		if err := (layout{t}).Create(tx); err != nil {
			return err
		}
	}
	return nil
}

// Name returns the key of the bucket.
func (*salvor) Name(_ *boltfile.Table, key []byte) (what, name string) { return "bucket", string(key) }

// Check decodes the record.
func (*salvor) Check(t *boltfile.Table, key, value []byte) error {
	_, _, err := layout{t}.decodeRecord(key, value)
	return err
}
