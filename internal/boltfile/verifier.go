package boltfile

import (
	"bytes"
	"slices"
)

// Verifier compares every [Table] that it visits with the totals of the table. It is a [Check].
type Verifier struct {
	tables []*counted
	last   *counted // the table of the last visit
}

// counted is a table as a verifier finds it.
type counted struct {
	*Table
	totals  []byte // stored; nil if the table has no meta bucket, or no totals in it
	inMeta  bool   // the meta bucket has a value
	badMeta bool   // one of them is damaged
	found   Totals
	damaged []Sum    // of the damaged values, as they are stored
	keys    []string // of the damaged values
}

// of returns the table with that name.
func (c *Verifier) of(name []byte) *counted {
	if c.last != nil && bytes.Equal(c.last.name, name) {
		return c.last
	}
	i := slices.IndexFunc(c.tables, func(t *counted) bool { return bytes.Equal(t.name, name) })
	if i < 0 {
		i = len(c.tables)
		c.tables = append(c.tables, &counted{Table: NewTable(string(name))})
	}
	c.last = c.tables[i]
	return c.last
}

// Visit counts a value of a table, or takes a value of a meta bucket.
func (c *Verifier) Visit(bucket, key, value []byte) {
	if name, ok := bytes.CutSuffix(bucket, []byte(metaSuffix)); ok {
		t := c.of(name)
		t.inMeta = true
		if _, ok := t.OpenMeta(key, value); !ok {
			t.badMeta = true
		}
		if bytes.Equal(key, totalsKey) {
			t.totals = bytes.Clone(value)
		}
		return
	}
	t := c.of(bucket)
	_, s, ok := t.Open(key, value)
	if !ok {
		s = t.Part(key, value)
		t.damaged = append(t.damaged, s)
		t.keys = append(t.keys, string(key))
	}
	t.found.Add(s)
}

// Err returns the first damage that can hide a value: a table is not the one that its totals
// describe. A bucket without a meta bucket is not a table, and is not judged.
func (c *Verifier) Err() error {
	for _, t := range c.tables {
		if !t.inMeta {
			continue
		}
		if err := t.judge(); err != nil {
			return err
		}
	}
	return nil
}

// judge returns an error if the totals of the table do not agree with the values that were found.
func (t *counted) judge() error {
	totals, err := t.DecodeTotals(t.totals)
	if err != nil {
		return err
	}
	if t.badMeta {
		return Damagef("a value of the bucket %q does not match its checksum", t.meta)
	}
	if _, _, ok := totals.compare(&t.found, t.damaged); !ok {
		return Damagef("in the bucket %q, %d values were found where %d with other contents belong",
			t.name, t.found.count, totals.count)
	}
	return nil
}

// Damaged returns the number of damaged values.
func (c *Verifier) Damaged() (n int) {
	for _, t := range c.tables {
		if t.inMeta {
			n += len(t.damaged)
		}
	}
	return n
}

// DamagedKeys calls f with the key of each damaged value, and the name of its table.
func (c *Verifier) DamagedKeys(f func(table, key string)) {
	for _, t := range c.tables {
		if !t.inMeta {
			continue
		}
		for _, key := range t.keys {
			f(string(t.name), key)
		}
	}
}

// Values returns the number of intact values of each table by its name.
func (c *Verifier) Values() map[string]uint64 {
	values := make(map[string]uint64)
	for _, t := range c.tables {
		if t.inMeta {
			values[string(t.name)] = t.found.count - uint64(len(t.damaged))
		}
	}
	return values
}
