package boltrecord

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/brimgo/brim/internal/differ"
	"github.com/brimgo/brim/internal/docpage"
	"github.com/brimgo/brim/store"
)

var sampleRecord = store.Record{
	Level: 1.5, Held: 2, Time: 1767323045000000,
	Limit:        store.Limit{Capacity: 100, LeakRate: 0.25},
	BlockedUntil: 1767323046000000,
}

// TestRecordRoundTrip encodes valid records and decodes them again, with every field that there is.
func TestRecordRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var want store.Record
		draw(t, reflect.ValueOf(&want).Elem())
		got, err := Decode(Encode(&want), 0)
		if d := differ.Fields(got, want); err != nil || d != "" {
			t.Fatalf("%v\n%s", err, d)
		}
	})
}

// draw gives each field a number, which is not 0.
func draw(t *rapid.T, fields reflect.Value) {
	for i := range fields.NumField() {
		f, name := fields.Field(i), fields.Type().Field(i).Name
		if !f.CanSet() { // it is no part of the bucket
			continue
		}
		switch f.Kind() {
		case reflect.Float64:
			f.SetFloat(rapid.Float64Range(store.MinLeakRate, store.MaxAmount).Draw(t, name))
		case reflect.Int64:
			f.SetInt(rapid.Int64Range(1, store.MaxTime).Draw(t, name) * rapid.SampledFrom([]int64{1, -1}).Draw(t, "sign"))
		case reflect.Struct:
			draw(t, f)
		default:
			t.Fatalf("draw has no number for the field %s of the kind %v", name, f.Kind())
		}
	}
}

// TestRecordOnThePage compares the size of a record with docs/internals/files.md.
func TestRecordOnThePage(t *testing.T) {
	says := fmt.Sprintf("A record of `brim` has %d bytes before its checksums: %d; level, held units, time, capacity, leak rate "+
		"and end of the block, %d bytes each.", len(Encode(&sampleRecord)), recordFormat, (recordSize-1)/6)
	if lacks := docpage.Lacks("../../docs/internals/files.md", says); lacks != "" {
		t.Error(lacks)
	}
}

func TestRecordDamage(t *testing.T) {
	sound := Encode(&sampleRecord)
	for _, c := range []struct {
		name, why string
		value     []byte
		says      string
	}{
		{"empty", "an empty value is no absent bucket", []byte{}, "has 0 bytes instead of 49"},
		{"short", "a write that was cut short", sound[:recordSize-1], "has 48 bytes instead of 49"},
		{"long", "two records run together", append(sound[:recordSize:recordSize], 0), "has 50 bytes instead of 49"},
		{
			"another format", "a later format may give the same bytes another meaning",
			append([]byte{2}, sound[1:]...), "has format 2 instead of 1",
		},
		{
			"infinite", "the checksums hold, and no call can have written the number",
			Encode(&store.Record{Held: math.Inf(-1), Limit: sampleRecord.Limit}), "held amount -Inf",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, err := Decode(c.value, 0)
			if !errors.Is(err, store.ErrCorrupt) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("error %v, want ErrCorrupt and %q: %s", err, c.says, c.why)
			}
			if d := differ.Fields(r, store.Record{}); d != "" {
				t.Errorf("beside the error: %s", d)
			}
		})
	}
}

// FuzzRecord decodes arbitrary values. A value is damage, or it is exactly the encoding of the
// record, which is valid.
func FuzzRecord(f *testing.F) {
	for _, r := range []store.Record{
		{},
		{Level: 3, Held: 2, Time: 1, Limit: store.Limit{Capacity: 10, LeakRate: 0.5}, BlockedUntil: 7},
		{Level: math.MaxFloat64, Time: math.MaxInt64, BlockedUntil: math.MinInt64},
		{Level: math.NaN(), Held: -1, Time: -1, Limit: store.Limit{Capacity: math.Inf(1)}},
	} {
		f.Add(Encode(&r))
	}
	f.Add([]byte{recordFormat})
	f.Fuzz(func(t *testing.T, value []byte) {
		if value == nil {
			return
		}
		r, err := Decode(value, 0)
		if err != nil {
			if d := differ.Fields(r, store.Record{}); d != "" || !errors.Is(err, store.ErrCorrupt) {
				t.Errorf("%v; want no record and ErrCorrupt\n%s", err, d)
			}
			return
		}
		if err := r.Validate(); err != nil {
			t.Errorf("%+v was decoded: %v", r, err)
		}
		if again := Encode(&r); !bytes.Equal(again, value) {
			t.Errorf("%+v is stored as %x; it was read from %x", r, again, value)
		}
	})
}
