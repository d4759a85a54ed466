package book

import (
	"bytes"
	"reflect"
	"testing"
)

// TestDecoder reads every kind of field from bytes that end too early. A decoder then returns zeros
// and keeps its first error.
func TestDecoder(t *testing.T) {
	for _, c := range []struct {
		name string
		b    []byte // after the format
		read func(*Decoder) any
		want any // nil for an error
	}{
		{"an integer", []byte{10}, func(d *Decoder) any { return d.Int() }, int64(5)},
		{"an integer that is too long", bytes.Repeat([]byte{255}, 11), func(d *Decoder) any { return d.Int() }, nil},
		{"no integer", nil, func(d *Decoder) any { return d.Int() }, nil},
		{"eight bytes", []byte{0, 0, 0, 0, 0, 0, 0, 1}, func(d *Decoder) any { return d.Fixed() }, uint64(1)},
		{"seven of eight bytes", []byte{1, 0, 0, 0, 0, 0, 0}, func(d *Decoder) any { return d.Fixed() }, nil},
		{"a text", []byte{4, 'h', 'i'}, func(d *Decoder) any { return d.String() }, "hi"},
		{"a text that is cut off", []byte{6, 'h', 'i'}, func(d *Decoder) any { return d.String() }, nil},
		{"a text of less than nothing", []byte{1, 'h', 'i'}, func(d *Decoder) any { return d.String() }, nil},
		{"true", []byte{1}, func(d *Decoder) any { return d.Bool() }, true},
		{"no truth", nil, func(d *Decoder) any { return d.Bool() }, nil},
		{"more than true", []byte{2}, func(d *Decoder) any { return d.Bool() }, nil},
		{"a count", []byte{2, 0}, func(d *Decoder) any { return d.Count() }, 1},
		{"a count of more than there is", []byte{6, 0, 0}, func(d *Decoder) any { return d.Count() }, nil},
		{"a count of less than nothing", []byte{1, 0}, func(d *Decoder) any { return d.Count() }, nil},
	} {
		d := NewDecoder("a test", 1, append([]byte{1}, c.b...))
		got := c.read(d)
		if c.want != nil {
			if !reflect.DeepEqual(got, c.want) || d.Err != nil {
				t.Errorf("%s: %v, %v; want %v", c.name, got, d.Err, c.want)
			}
			continue
		}
		if !reflect.ValueOf(got).IsZero() || d.Err == nil || len(d.B) != 0 {
			t.Errorf("%s: %v, %v, and %d bytes are left; want a zero, an error, and none", c.name, got, d.Err, len(d.B))
		}
		if first := d.Err; d.Int() != 0 || d.Fixed() != 0 || d.String() != "" || d.Bool() || d.Count() != 0 || d.Err != first {
			t.Errorf("%s: later reads do not return zeros and the first error, but %v", c.name, d.Err)
		}
	}
}
