package bolt

import (
	"bytes"

	"github.com/brimgo/brim/internal/boltfile"
)

// census counts the records and compares them with the totals. It implements [boltfile.Check].
type census struct {
	layout         layout
	found          totals
	format, totals []byte
	damage         error // of the first damaged record
}

func (c *census) Visit(bucket, key, value []byte) {
	switch {
	case bytes.Equal(bucket, c.layout.records):
		_, sum, err := decodeRecord(key, value)
		if err != nil && c.damage == nil {
			c.damage = err
		}
		c.found.add(sum)
	case bytes.Equal(bucket, c.layout.meta) && bytes.Equal(key, formatKey):
		c.format = bytes.Clone(value)
	case bytes.Equal(bucket, c.layout.meta) && bytes.Equal(key, totalsKey):
		c.totals = bytes.Clone(value)
	}
}

// Err returns the first damage. A newer format comes first, because it explains all other damage.
func (c *census) Err() error {
	if c.format == nil {
		return boltfile.Damagef("it is a bbolt file, but not one of brim's, or its bucket %q is missing; "+
			"to add buckets to an application's database use New", c.layout.meta)
	}
	if err := checkFormat(c.format); err != nil {
		return err
	}
	if c.damage != nil {
		return c.damage
	}
	t, err := decodeTotals(c.totals)
	if err != nil {
		return err
	}
	if t.count != c.found.count || t.sum != c.found.sum {
		return boltfile.Damagef("%d buckets were found where %d with other contents belong", c.found.count, t.count)
	}
	return nil
}
