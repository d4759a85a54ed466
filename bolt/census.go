package bolt

import (
	"bytes"

	"github.com/brimgo/brim/internal/boltfile"
)

// census counts the values of all tables in the file and compares them with their totals, those of
// a ledger included. It implements [boltfile.Check].
type census struct {
	boltfile.Census
	layout layout
	format []byte
	mark   []byte
}

func (c *census) Visit(bucket, key, value []byte) {
	if bytes.Equal(bucket, c.layout.table.MetaName()) {
		switch {
		case bytes.Equal(key, formatKey):
			c.format = bytes.Clone(value)
		case bytes.Equal(key, markKey):
			c.mark = bytes.Clone(value)
		}
	}
	c.Census.Visit(bucket, key, value)
}

// Err returns the first damage for which the file must not be used. A newer format comes first,
// because it explains all other damage.
func (c *census) Err() error {
	if c.format == nil {
		return boltfile.Damagef("it is a bbolt file, but not one of brim's, or its bucket %q is missing; "+
			"to add buckets to an application's database use New", c.layout.table.MetaName())
	}
	if err := c.layout.checkFormat(c.format); err != nil {
		return err
	}
	if _, err := c.layout.decodeMark(c.mark); err != nil {
		return err
	}
	return c.Census.Err()
}
