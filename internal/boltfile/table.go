package boltfile

import (
	"encoding/binary"
	"hash/crc32"
	"math"

	"go.etcd.io/bbolt"
)

// Table is a bbolt bucket of brim. bbolt has no checksums of its own, so each value of a table ends
// with two:
//
//	check of the key    4 bytes: CRC-32C of the table's name, a NUL and the key
//	check of the value  4 bytes: CRC-32C of the same and of the value's body
//
// both little-endian. The first tells a damaged value under an intact key, which harms that
// value alone, from a damaged key, which may hide a value. The second covers the key, so that an
// intact value under a wrong key is found. Both cover the name, so that a page of another table is
// found.
//
// A second bbolt bucket, the name followed by ".meta", holds the [Totals] of the table under the
// key "state". bbolt keeps so small a bucket inside the page of its parent, which every commit
// writes anyway. The totals tell if a page of the table is missing or older than the rest, which
// the checksums of the values cannot tell.
type Table struct {
	name, meta []byte
	seed       uint32 // checksum of the name
	metaSeed   uint32 // checksum of the name of the meta bucket
}

const (
	// SealSize is the number of bytes that both checksums add to a value.
	SealSize = 8
	// TotalsSize is the size of the stored totals.
	TotalsSize = 4*8 + SealSize

	metaSuffix = ".meta"
)

var (
	castagnoli = crc32.MakeTable(crc32.Castagnoli)
	totalsKey  = []byte("state")
)

// NewTable returns the table of that name.
func NewTable(name string) *Table {
	meta := name + metaSuffix
	return &Table{name: []byte(name), meta: []byte(meta), seed: seedOf(name), metaSeed: seedOf(meta)}
}

func seedOf(name string) uint32 { return crc32.Checksum(append([]byte(name), 0), castagnoli) }

// Name returns the name of the table's bucket.
func (t *Table) Name() []byte { return t.name }

// MetaName returns the name of the table's meta bucket.
func (t *Table) MetaName() []byte { return t.meta }

// Sum is the part that a key and its value have in the totals of their table.
type Sum struct{ key, value uint32 } // the two checksums

// sum computes the checksums of a key and the body of its value.
func sum(seed uint32, key, body []byte) Sum {
	k := crc32.Update(seed, castagnoli, key)
	return Sum{k, crc32.Update(k, castagnoli, body)}
}

// put writes the checksums to the first SealSize bytes of b.
func (s Sum) put(b []byte) {
	binary.LittleEndian.PutUint32(b, s.key)
	binary.LittleEndian.PutUint32(b[4:], s.value)
}

// storedSum returns the checksums at the end of a value, which may be damaged.
func storedSum(value []byte) (s Sum, body []byte) {
	if len(value) < SealSize {
		return Sum{}, nil
	}
	end := len(value) - SealSize
	return Sum{binary.LittleEndian.Uint32(value[end:]), binary.LittleEndian.Uint32(value[end+4:])}, value[:end]
}

// Seal writes the checksums of key and of the rest of value to the last SealSize bytes of value.
func (t *Table) Seal(key, value []byte) Sum { return seal(t.seed, key, value) }

// SealMeta seals a value of the meta bucket.
func (t *Table) SealMeta(key, value []byte) { seal(t.metaSeed, key, value) }

func seal(seed uint32, key, value []byte) Sum {
	end := len(value) - SealSize
	s := sum(seed, key, value[:end])
	s.put(value[end:])
	return s
}

// Open returns the body of a value of the table, and its part in the totals. ok is false if the
// value or the key is damaged.
func (t *Table) Open(key, value []byte) (body []byte, s Sum, ok bool) {
	return unseal(t.seed, key, value)
}

// OpenMeta returns the body of a value of the meta bucket.
func (t *Table) OpenMeta(key, value []byte) (body []byte, ok bool) {
	body, _, ok = unseal(t.metaSeed, key, value)
	return body, ok
}

func unseal(seed uint32, key, value []byte) (body []byte, s Sum, ok bool) {
	stored, body := storedSum(value)
	s = sum(seed, key, body)
	if body == nil || s != stored {
		return nil, s, false
	}
	return body, s, true
}

// weight spreads the checksum of a key over 64 bits. It is odd, so that it has an inverse modulo
// 2^64. The mixing is that of SplitMix64 (Steele, Lea and Flood, 2014).
func (s Sum) weight() uint64 {
	z := uint64(s.key) + 0x9E3779B97F4A7C15
	z = (z ^ z>>30) * 0xBF58476D1CE4E5B9
	z = (z ^ z>>27) * 0x94D049BB133111EB
	return z ^ z>>31 | 1
}

// inverse returns the inverse of an odd w modulo 2^64, by Newton's method: each step doubles the
// number of bits that are right.
func inverse(w uint64) uint64 {
	x := w
	for range 5 {
		x *= 2 - w*x
	}
	return x
}

// Totals sums up the values of a table. Two sums modulo 2^64 stand for all of its content: one for
// the keys, and one for the keys with their values. If a single value has lost its checksum, the
// second sum tells it, and proves all other values at once; see [Totals.compare].
type Totals struct {
	Time   int64  // highest time written, in microseconds since the Unix epoch; 0 if there is none
	count  uint64 // of values
	keys   uint64 // sum of the weights of all keys
	values uint64 // sum of the values' checksums, each multiplied by the weight of its key
}

// Count returns the number of values.
func (t *Totals) Count() uint64 { return t.count }

// Add counts a value.
func (t *Totals) Add(s Sum) {
	w := s.weight()
	t.count, t.keys, t.values = t.count+1, t.keys+w, t.values+w*uint64(s.value)
}

// Remove undoes an Add.
func (t *Totals) Remove(s Sum) {
	w := s.weight()
	t.count, t.keys, t.values = t.count-1, t.keys-w, t.values-w*uint64(s.value)
}

// compare compares totals with the values that were found. found counts every damaged value with
// the checksum that is stored with it, which may itself be damaged. ok is true if the found values
// are those of the totals, apart from the content of damaged ones. The value whose stored checksum
// is wrong, if there is one, is damaged[lost] and belongs into the totals as was.
//
// If one checksum is lost, any difference could be its own. But it must be a number of 32 bits
// after the division by its weight, which is a number of 64 bits. An older page, which another
// process or a lost write of the disk has left, therefore passes once in 2^32 times. If more
// than one checksum is lost, nothing proves the rest.
func (t *Totals) compare(found *Totals, damaged []Sum) (lost int, was Sum, ok bool) {
	if t.count != found.count || t.keys != found.keys {
		return 0, Sum{}, false
	}
	missing := t.values - found.values
	if missing == 0 {
		return -1, Sum{}, true
	}
	for i, s := range damaged {
		w := s.weight()
		if value := (missing + w*uint64(s.value)) * inverse(w); value <= math.MaxUint32 {
			return i, Sum{s.key, uint32(value)}, true
		}
	}
	return 0, Sum{}, false
}

// Part returns the part that a value has in the totals. Of a damaged value it is right if the
// stored checksum of the value is intact.
func (t *Table) Part(key, value []byte) Sum {
	stored, _ := storedSum(value)
	return Sum{sum(t.seed, key, nil).key, stored.value}
}

// Damaged returns the parts that the damaged values of b, the table's bucket, have in the totals.
// Whoever replaces or removes a damaged value removes its part from the totals, so that they stay
// right. Damaged reads the whole table.
func (t *Table) Damaged(b *bbolt.Bucket, totals *Totals) map[string]Sum {
	var found Totals
	var keys []string
	var sums []Sum
	c := b.Cursor()
	for key, value := c.First(); key != nil; key, value = c.Next() {
		_, s, ok := t.Open(key, value)
		if !ok {
			s = t.Part(key, value)
			keys, sums = append(keys, string(key)), append(sums, s)
		}
		found.Add(s)
	}
	if lost, was, ok := totals.compare(&found, sums); ok && lost >= 0 {
		sums[lost] = was
	}
	parts := make(map[string]Sum, len(keys))
	for i, key := range keys {
		parts[key] = sums[i]
	}
	return parts
}

// EncodeTotals writes totals as PutTotals stores them.
func (t *Table) EncodeTotals(buf *[TotalsSize]byte, totals *Totals) {
	for i, v := range [...]uint64{uint64(totals.Time), totals.count, totals.keys, totals.values} {
		binary.LittleEndian.PutUint64(buf[8*i:], v)
	}
	t.SealMeta(totalsKey, buf[:])
}

// PutTotals stores totals in the table's meta bucket. bbolt refers to buf until the transaction
// ends.
func (t *Table) PutTotals(meta *bbolt.Bucket, buf *[TotalsSize]byte, totals *Totals) error {
	t.EncodeTotals(buf, totals)
	return meta.Put(totalsKey, buf[:])
}

// Totals reads the totals in the table's meta bucket.
func (t *Table) Totals(meta *bbolt.Bucket) (Totals, error) {
	return t.DecodeTotals(meta.Get(totalsKey))
}

// DecodeTotals decodes stored totals.
func (t *Table) DecodeTotals(value []byte) (totals Totals, err error) {
	body, ok := t.OpenMeta(totalsKey, value)
	if !ok || len(value) != TotalsSize {
		return totals, Damagef("the totals of the bucket %q are missing or do not match their checksum", t.name)
	}
	le := binary.LittleEndian
	return Totals{
		Time: int64(le.Uint64(body)), count: le.Uint64(body[8:]), keys: le.Uint64(body[16:]), values: le.Uint64(body[24:]),
	}, nil
}

// Create makes the table in a database that does not have it.
func (t *Table) Create(tx *bbolt.Tx) (meta *bbolt.Bucket, err error) {
	if _, err := tx.CreateBucket(t.name); err != nil {
		return nil, err
	}
	if meta, err = tx.CreateBucket(t.meta); err != nil {
		return nil, err
	}
	return meta, t.PutTotals(meta, new([TotalsSize]byte), &Totals{})
}

// Find returns the table's buckets in tx. Both are nil if tx has neither; if tx has only one of the
// two, the error is [store.ErrCorrupt].
func (t *Table) Find(tx *bbolt.Tx) (values, meta *bbolt.Bucket, err error) {
	values, meta = tx.Bucket(t.name), tx.Bucket(t.meta)
	if (values == nil) != (meta == nil) {
		return nil, nil, Damagef("one of the two buckets %q and %q is missing", t.name, t.meta)
	}
	return values, meta, nil
}
