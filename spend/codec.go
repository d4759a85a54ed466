package spend

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/brimgo/brim/store"
)

// format is the first byte of everything that this package has a ledger keep.
// Integers are varints, and strings begin with their length.
const format = 1

type encoder struct{ b []byte }

func newEncoder() *encoder { return &encoder{b: []byte{format}} }

func (e *encoder) int(v int64)     { e.b = binary.AppendVarint(e.b, v) }
func (e *encoder) float(v float64) { e.b = binary.BigEndian.AppendUint64(e.b, math.Float64bits(v)) }
func (e *encoder) fixed(v uint64)  { e.b = binary.BigEndian.AppendUint64(e.b, v) }
func (e *encoder) string(s string) {
	e.int(int64(len(s)))
	e.b = append(e.b, s...)
}

func (e *encoder) bool(v bool) {
	n := byte(0)
	if v {
		n = 1
	}
	e.b = append(e.b, n)
}

// decoder reads the output of an encoder. After the first value that is missing
// it returns zeros, and err is set.
type decoder struct {
	b   []byte
	err error
}

func newDecoder(name string, b []byte) *decoder {
	d := &decoder{b: b}
	switch {
	case len(b) == 0:
		d.fail()
	case b[0] != format:
		d.err = fmt.Errorf("spend: %w: %s has format %d; this version of brim reads format %d",
			store.ErrCorrupt, name, b[0], format)
		d.b = nil
	default:
		d.b = b[1:]
	}
	return d
}

func (d *decoder) fail() {
	if d.err == nil {
		d.err = fmt.Errorf("spend: %w: a stored value ends too early", store.ErrCorrupt)
	}
	d.b = nil
}

func (d *decoder) int() int64 {
	v, n := binary.Varint(d.b)
	if n <= 0 {
		d.fail()
		return 0
	}
	d.b = d.b[n:]
	return v
}

func (d *decoder) fixed() uint64 {
	if len(d.b) < 8 {
		d.fail()
		return 0
	}
	v := binary.BigEndian.Uint64(d.b)
	d.b = d.b[8:]
	return v
}

func (d *decoder) float() float64 { return math.Float64frombits(d.fixed()) }

func (d *decoder) string() string {
	n := d.int()
	if n < 0 || n > int64(len(d.b)) {
		d.fail()
		return ""
	}
	s := string(d.b[:n])
	d.b = d.b[n:]
	return s
}

func (d *decoder) bool() bool {
	if len(d.b) == 0 {
		d.fail()
		return false
	}
	v := d.b[0]
	d.b = d.b[1:]
	return v == 1
}

// count reads the number of the elements that follow. Each takes at least a
// byte, so a larger number than the rest of the bytes is damage.
func (d *decoder) count() int {
	n := d.int()
	if n < 0 || n > int64(len(d.b)) {
		d.fail()
		return 0
	}
	return int(n)
}
