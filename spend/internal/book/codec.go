package book

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"
	"slices"
	"sync"

	"github.com/brimgo/brim/store"
)

// Encoder writes a value: a byte that tells the format, integers of variable length, and strings
// after their length.
type Encoder struct{ B []byte }

// NewEncoder returns an encoder that has written the format. It has room for most values, so that
// they are not copied while they grow.
func NewEncoder(format byte) *Encoder { return &Encoder{append(make([]byte, 0, 256), format)} }

// Int writes an integer.
func (e *Encoder) Int(v int64) { e.B = binary.AppendVarint(e.B, v) }

// Fixed writes 8 bytes.
func (e *Encoder) Fixed(v uint64) { e.B = binary.BigEndian.AppendUint64(e.B, v) }

// Float writes a double.
func (e *Encoder) Float(v float64) { e.Fixed(math.Float64bits(v)) }

// Bool writes a truth value.
func (e *Encoder) Bool(v bool) {
	n := byte(0)
	if v {
		n = 1
	}
	e.B = append(e.B, n)
}

// String writes a string.
func (e *Encoder) String(s string) {
	e.Int(int64(len(s)))
	e.B = append(e.B, s...)
}

// Bytes writes bytes. Nil and no bytes are the same.
func (e *Encoder) Bytes(b []byte) {
	e.Int(int64(len(b)))
	e.B = append(e.B, b...)
}

// Strings writes a list of strings.
func (e *Encoder) Strings(list []string) {
	e.Int(int64(len(list)))
	for _, s := range list {
		e.String(s)
	}
}

// Map writes the tags of a spend in the order of their names.
func (e *Encoder) Map(m map[string]string) {
	e.Int(int64(len(m)))
	names := make([]string, 0, 8) // without memory of its own if there are few
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		e.String(name)
		e.String(m[name])
	}
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Sum returns the checksum of bytes that follow those of another checksum, or none if that is 0.
func Sum(before uint32, b []byte) uint32 { return crc32.Update(before, castagnoli, b) }

var scratch = sync.Pool{New: func() any { return new(Encoder) }}

// Scratch returns an encoder of values that are only to be summed up, by [Encoder.SumUp].
func Scratch() *Encoder { return scratch.Get().(*Encoder) }

// SumUp returns the checksum of the values after those of another checksum. The encoder must not be
// used any more.
func (e *Encoder) SumUp(before uint32) uint32 {
	sum := Sum(before, e.B)
	e.B = e.B[:0]
	scratch.Put(e)
	return sum
}

// A seal stands behind the format, so that two versions of a value may have the same end.
const sealed = 1 + crc32.Size

// Seal puts into a value, behind its format, the checksum of it and of that which is stored beside
// it. The value must not be used any more.
func Seal(value []byte, beside uint32) []byte {
	var seal [crc32.Size]byte
	binary.BigEndian.PutUint32(seal[:], Sum(beside, value))
	return slices.Insert(value, min(1, len(value)), seal[:]...)
}

// Unsealed returns a copy of a value as it was before [Seal], or nil if it has no seal.
func Unsealed(value []byte) []byte {
	if len(value) < sealed {
		return nil
	}
	return slices.Concat(value[:1], value[sealed:])
}

// Decoder reads the values of an [Encoder], and copies them. After the first value that is missing
// it returns zeros, and Err is set.
type Decoder struct {
	B   []byte
	Err error
}

// NewDecoder begins to decode a value. Errors are [store.ErrCorrupt] and name the kind of the
// value. A value without a byte is one whose checksums are wrong.
func NewDecoder(kind string, format byte, b []byte) *Decoder {
	d := &Decoder{}
	switch {
	case len(b) == 0:
		d.Damaged("%s does not match its checksums, or ends too early", kind)
	case b[0] != format:
		d.Damaged("%s has format %d; this version of brim reads format %d", kind, b[0], format)
	default:
		d.B = b[1:]
	}
	return d
}

// NewSealed begins to decode a value that [Seal] has sealed.
func NewSealed(kind string, format byte, b []byte, beside uint32) *Decoder {
	d := NewDecoder(kind, format, b)
	switch {
	case d.Err != nil:
	case len(b) < sealed || binary.BigEndian.Uint32(b[1:]) != Sum(Sum(beside, b[:1]), b[sealed:]):
		d.Damaged("%s, or a value beside it, does not match its checksum", kind)
	default:
		d.B = b[sealed:]
	}
	return d
}

// Damaged sets Err, unless it is set.
func (d *Decoder) Damaged(format string, args ...any) {
	if d.Err == nil {
		d.Err = fmt.Errorf("spend: %w: "+format, append([]any{store.ErrCorrupt}, args...)...)
	}
	d.B = nil
}

// End returns Err. Bytes that are left over are damage: a format has no further values.
func (d *Decoder) End() error {
	if len(d.B) > 0 {
		d.Damaged("%d bytes follow a stored value", len(d.B))
	}
	return d.Err
}

// take returns the next n bytes. If there are fewer, it returns none.
func (d *Decoder) take(n int64) []byte {
	if n < 0 || n > int64(len(d.B)) {
		d.Damaged("a stored value ends too early")
		return nil
	}
	b := d.B[:n]
	d.B = d.B[n:]
	return b
}

// Int reads an integer.
func (d *Decoder) Int() int64 {
	if len(d.B) > 0 && d.B[0] < 0x80 { // most integers of a value take one byte
		v := int64(d.B[0]>>1) ^ -int64(d.B[0]&1)
		d.B = d.B[1:]
		return v
	}
	v, n := binary.Varint(d.B)
	if n <= 0 {
		d.take(-1)
		return 0
	}
	d.B = d.B[n:]
	return v
}

// Fixed reads 8 bytes.
func (d *Decoder) Fixed() uint64 {
	if b := d.take(8); b != nil {
		return binary.BigEndian.Uint64(b)
	}
	return 0
}

// Float reads a double.
func (d *Decoder) Float() float64 { return math.Float64frombits(d.Fixed()) }

// Bool reads a truth value.
func (d *Decoder) Bool() bool {
	b := d.take(1)
	if b != nil && b[0] > 1 {
		d.Damaged("a stored truth value is %d", b[0])
	}
	return b != nil && b[0] == 1
}

// Count reads the number of the elements that follow, or the length of a string. Each element takes
// at least a byte, so a number above that of the remaining bytes is damage.
func (d *Decoder) Count() int {
	n := d.Int()
	if n < 0 || n > int64(len(d.B)) {
		d.Damaged("a stored value ends too early")
		return 0
	}
	return int(n)
}

// String reads a string.
func (d *Decoder) String() string { return string(d.take(d.Int())) }

// Bytes reads bytes, or nil if there are none.
func (d *Decoder) Bytes() []byte { return append([]byte(nil), d.take(d.Int())...) }

// Strings reads a list of strings.
func (d *Decoder) Strings() (list []string) {
	for range d.Count() {
		list = append(list, d.String())
	}
	return list
}

// Map reads the tags of a spend, or nil if there are none.
func (d *Decoder) Map() (m map[string]string) {
	for range d.Count() {
		if m == nil {
			m = make(map[string]string)
		}
		name := d.String()
		m[name] = d.String()
	}
	return m
}
