package boltfile

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"go.etcd.io/bbolt"

	"github.com/brimgo/brim/internal/differ"
	"github.com/brimgo/brim/store"
)

// sealed returns a value of a table.
func sealed(t *Table, key, body string) []byte {
	value := append([]byte(body), make([]byte, SealSize)...)
	t.Seal([]byte(key), value)
	return value
}

// TestSeal pins the checksums: files hold them.
func TestSeal(t *testing.T) {
	const name, key, body = "1234", "567", "89"
	value := sealed(NewTable(name), key, body)
	if got := binary.LittleEndian.Uint32(value[2:]); got != 0x5f3eda47 {
		t.Errorf("the check of the key is %#x, want CRC-32C", got)
	}
	if got := binary.LittleEndian.Uint32(value[6:]); got != 0x5921ad78 {
		t.Errorf("the check of the value is %#x, want CRC-32C", got)
	}
}

// TestFlippedValue flips every bit of a key and of its value.
func TestFlippedValue(t *testing.T) {
	table := NewTable("brim")
	key, value := []byte("tenant:42"), sealed(table, "tenant:42", "a body of some bytes")
	if _, _, ok := table.Open(key, value); !ok {
		t.Fatal("an intact value is refused")
	}
	if _, _, ok := NewTable("other").Open(key, value); ok {
		t.Error("a value of another table is taken")
	}
	for bit := range 8 * (len(key) + len(value)) {
		k, v := bytes.Clone(key), bytes.Clone(value)
		if bit/8 < len(k) {
			k[bit/8] ^= 1 << (bit % 8)
		} else {
			v[bit/8-len(k)] ^= 1 << (bit % 8)
		}
		if _, _, ok := table.Open(k, v); ok {
			t.Errorf("bit %d: the value is taken for intact", bit)
		}
	}
	for n := range SealSize {
		if _, _, ok := table.Open(key, value[:n]); ok {
			t.Errorf("a value of %d bytes is taken", n)
		}
	}
}

func TestTotals(t *testing.T) {
	table := NewTable("brim")
	want := Totals{Time: -1, count: 2, keys: 3, values: 4}
	var buf [TotalsSize]byte
	table.EncodeTotals(&buf, &want)
	got, err := table.DecodeTotals(buf[:])
	if d := differ.Fields(got, want); err != nil || d != "" {
		t.Errorf("%v\n%s", err, d)
	}
	for bit := range 8 * TotalsSize {
		b := bytes.Clone(buf[:])
		b[bit/8] ^= 1 << (bit % 8)
		if _, err := table.DecodeTotals(b); !errors.Is(err, store.ErrCorrupt) {
			t.Errorf("bit %d: error %v, want ErrCorrupt", bit, err)
		}
	}
	long := append(bytes.Clone(buf[:TotalsSize-SealSize]), make([]byte, SealSize+1)...)
	table.SealMeta(totalsKey, long)
	for _, b := range [][]byte{nil, buf[:5], long} {
		if _, err := table.DecodeTotals(b); !errors.Is(err, store.ErrCorrupt) {
			t.Errorf("%x: error %v, want ErrCorrupt", b, err)
		}
	}
	for _, w := range []uint64{1, 3, 0xFFFFFFFFFFFFFFFF, 0x9E3779B97F4A7C15} {
		if w*inverse(w) != 1 {
			t.Errorf("%#x is not the inverse of %#x", inverse(w), w)
		}
	}
}

// values is the content of a table in a test.
type values map[string][]byte

func newValues(t *Table, n int) (values, Totals) {
	m, totals := values{}, Totals{}
	for i := range n {
		key := fmt.Sprintf("key %03d", i)
		m[key] = sealed(t, key, fmt.Sprintf("content %d", i))
		_, s, _ := t.Open([]byte(key), m[key])
		totals.Add(s)
	}
	return m, totals
}

// verify counts the values and compares them with totals.
func (v values) verify(t *Table, totals Totals) (damaged int, err error) {
	var c Verifier
	for key, value := range v {
		c.Visit(t.name, []byte(key), value)
	}
	var buf [TotalsSize]byte
	t.EncodeTotals(&buf, &totals)
	c.Visit(t.meta, totalsKey, buf[:])
	return c.Damaged(), c.Err()
}

// TestVerifier damages a table in several ways. Values that harm themselves alone are counted, and
// all that can hide a value is refused.
func TestVerifier(t *testing.T) {
	table := NewTable("brim")
	garbage := func(n int) []byte {
		b := make([]byte, n)
		r := rand.New(rand.NewPCG(1, uint64(n)))
		for i := range b {
			b[i] = byte(r.Uint32())
		}
		return b
	}
	older := func(v values, key string) { v[key] = sealed(table, key, "older content") }
	for _, c := range []struct {
		name, why string
		change    func(v values)
		damaged   int // -1: refused
	}{
		{"nothing", "", func(values) {}, 0},
		{"one body", "its key and checksums are intact", func(v values) { v["key 001"][0]++ }, 1},
		{"one check of a value", "the totals tell it", func(v values) { v["key 001"][len(v["key 001"])-1]++ }, 1},
		{"one check of a key", "the other check covers the key", func(v values) {
			v["key 001"][len(v["key 001"])-5]++
		}, 1},
		{"a whole value", "the totals prove all keys and all other values", func(v values) { v["key 001"] = garbage(20) }, 1},
		{"no value", "the same", func(v values) { v["key 001"] = nil }, 1},
		{"many bodies", "", func(v values) {
			for i := range 50 {
				v[fmt.Sprintf("key %03d", i)][1]++
			}
		}, 50},
		{"many bodies and one check", "a single checksum is lost", func(v values) {
			for i := range 50 {
				v[fmt.Sprintf("key %03d", i)][1]++
			}
			v["key 070"][len(v["key 070"])-1]++
		}, 51},
		{"two whole values", "nothing proves the others", func(v values) {
			v["key 001"], v["key 002"] = garbage(20), garbage(30)
		}, -1},
		{"an older value", "all checksums are right, and the level is wrong", func(v values) { older(v, "key 001") }, -1},
		{"an older value beside a damaged one", "a lost checksum must not excuse it", func(v values) {
			older(v, "key 001")
			v["key 002"] = garbage(20)
		}, -1},
		{"an older value beside a damaged body", "", func(v values) { older(v, "key 001"); v["key 002"][0]++ }, -1},
		{"a missing value", "it would read as empty", func(v values) { delete(v, "key 001") }, -1},
		{"a further value", "somebody has removed it", func(v values) { older(v, "another key") }, -1},
		{"a changed key", "the value would read as empty", func(v values) {
			v["kez 001"] = v["key 001"]
			delete(v, "key 001")
		}, -1},
		{"a changed key and no value", "", func(v values) { v["kez 001"] = nil; delete(v, "key 001") }, -1},
	} {
		v, totals := newValues(table, 100)
		c.change(v)
		damaged, err := v.verify(table, totals)
		if (err != nil) != (c.damaged < 0) || err == nil && damaged != c.damaged {
			t.Errorf("%s: %d damaged values, %v; want %d: %s", c.name, damaged, err, c.damaged, c.why)
		}
	}
}

// TestVerifierOfOtherBuckets: a bucket without a meta bucket is not a table, and a table that has
// lost its name is missing.
func TestVerifierOfOtherBuckets(t *testing.T) {
	var c Verifier
	c.Visit([]byte("other"), []byte("key"), []byte("value"))
	if err := c.Err(); err != nil || c.Damaged() != 0 {
		t.Errorf("%d damaged values, %v; want none", c.Damaged(), err)
	}
	table := NewTable("brim")
	v, totals := newValues(table, 3)
	for key, value := range v {
		c.Visit([]byte("brhm"), []byte(key), value)
	}
	var buf [TotalsSize]byte
	table.EncodeTotals(&buf, &totals)
	c.Visit(table.meta, totalsKey, buf[:])
	is(t, "without its name", c.Err(), store.ErrCorrupt)
	c = Verifier{}
	c.Visit(table.meta, []byte("another key"), nil)
	is(t, "without totals", c.Err(), store.ErrCorrupt)
}

// TestDamagedParts: whoever removes damaged values keeps the totals right.
func TestDamagedParts(t *testing.T) {
	table := NewTable("brim")
	v, totals := newValues(table, 100)
	for _, key := range []string{"key 010", "key 020", "key 030"} {
		v[key][0]++
	}
	v["key 040"] = []byte("nonsense")
	db := openApp(t)
	err := db.Update(func(tx *bbolt.Tx) error {
		if _, err := table.Create(tx); err != nil {
			return err
		}
		b, meta, err := table.Find(tx)
		for key, value := range v {
			if err == nil {
				err = b.Put([]byte(key), value)
			}
		}
		if err != nil {
			return err
		}
		parts := table.Damaged(b, &totals)
		if len(parts) != 4 {
			t.Errorf("%d damaged values, want 4", len(parts))
		}
		for key, s := range parts {
			totals.Remove(s)
			delete(v, key)
		}
		if damaged, err := v.verify(table, totals); damaged != 0 || err != nil || totals.Count() != 96 {
			t.Errorf("%d damaged values of %d, %v; want none of 96", damaged, totals.Count(), err)
		}
		_, err = table.Totals(meta)
		return err
	})
	must(t, err)
	is(t, "one bucket of two", db.Update(func(tx *bbolt.Tx) error {
		if err := tx.DeleteBucket(table.name); err != nil {
			return err
		}
		_, _, err := table.Find(tx)
		return err
	}), store.ErrCorrupt)
}

// FuzzTotals decodes arbitrary totals.
func FuzzTotals(f *testing.F) {
	table := NewTable("brim")
	var buf [TotalsSize]byte
	table.EncodeTotals(&buf, &Totals{Time: 1, count: 2, keys: 3, values: 4})
	f.Add(buf[:], false)
	f.Add(make([]byte, TotalsSize), true)
	f.Fuzz(func(t *testing.T, value []byte, seal bool) {
		value = bytes.Clone(value)
		if seal && len(value) >= SealSize {
			table.SealMeta(totalsKey, value)
		}
		totals, err := table.DecodeTotals(value)
		var buf [TotalsSize]byte
		table.EncodeTotals(&buf, &totals)
		if err == nil != bytes.Equal(buf[:], value) || err != nil && !errors.Is(err, store.ErrCorrupt) {
			t.Errorf("the totals are %+v, %v", totals, err)
		}
	})
}
