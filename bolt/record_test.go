package bolt

import (
	"errors"
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/brimgo/brim/internal/boltfile"
	"github.com/brimgo/brim/store"
)

var sampleRecord = store.Record{
	Level: 1.5, Held: 2, Time: 1767323045000000,
	Limit:        store.Limit{Capacity: 100, LeakRate: 0.25},
	BlockedUntil: 1767323046000000,
}

func TestRecordRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		number := rapid.Float64Range(0, math.MaxFloat64)
		want := store.Record{
			Level: number.Draw(t, "level"), Held: number.Draw(t, "held"), Time: rapid.Int64().Draw(t, "time"),
			Limit:        store.Limit{Capacity: number.Draw(t, "capacity"), LeakRate: number.Draw(t, "rate")},
			BlockedUntil: rapid.Int64().Draw(t, "blocked"),
		}
		key := []byte(rapid.StringN(1, 64, 512).Draw(t, "key"))
		var buf [recordSize]byte
		sum := encodeRecord(&buf, key, &want)
		got, gotSum, err := decodeRecord(key, buf[:])
		if err != nil || got != want || gotSum != sum || storedSum(buf[:]) != sum {
			t.Fatalf("%+v became %+v, sum %x and %x, %v", want, got, sum, gotSum, err)
		}
	})
}

func TestRecordDamage(t *testing.T) {
	key := []byte("key")
	sound := func() []byte {
		var buf [recordSize]byte
		encodeRecord(&buf, key, &sampleRecord)
		return buf[:]
	}
	// resum makes the checksum right again, so that decodeRecord has to look at the content.
	resum := func(b []byte) []byte {
		sum := boltfile.Checksum(key, b[:49])
		return append(b[:49:49], byte(sum), byte(sum>>8), byte(sum>>16), byte(sum>>24))
	}
	number := func(r store.Record) []byte {
		var buf [recordSize]byte
		encodeRecord(&buf, key, &r)
		return buf[:]
	}
	for _, c := range []struct {
		name, why string
		key       string
		value     []byte
	}{
		{"empty", "an empty value is no absent bucket", "key", nil},
		{"short", "a write that was cut short", "key", sound()[:recordSize-1]},
		{"long", "two records run together", "key", append(sound(), 0)},
		{"another key", "an intact record under a wrong key is another bucket's level", "kez", sound()},
		{
			"another format", "a later format may give the same bytes another meaning",
			"key", resum(append([]byte{2}, sound()[1:]...)),
		},
		{"zeros", "a page of zeros passes a checksum that starts at 0", "key", make([]byte, recordSize)},
		{"NaN", "NaN is neither full nor empty", "key", number(store.Record{Level: math.NaN(), Limit: steady})},
		{"negative", "a negative level mints capacity", "key", number(store.Record{Held: -1, Limit: steady})},
		{
			"infinite", "an infinite level never leaks",
			"key", number(store.Record{Limit: store.Limit{Capacity: math.Inf(1)}}),
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, _, err := decodeRecord([]byte(c.key), c.value); !errors.Is(err, store.ErrCorrupt) {
				t.Errorf("error %v, want ErrCorrupt: %s", err, c.why)
			}
		})
	}
	for bit := range recordSize * 8 {
		b := sound()
		b[bit/8] ^= 1 << (bit % 8)
		if _, _, err := decodeRecord(key, b); !errors.Is(err, store.ErrCorrupt) {
			t.Errorf("bit %d flipped: error %v, want ErrCorrupt", bit, err)
		}
	}
	if storedSum(nil) != 0 {
		t.Error("a record of a wrong length has no sum")
	}
}

func TestTotals(t *testing.T) {
	want := totals{time: 1, count: 2, sum: 3}
	var buf [totalsSize]byte
	want.encode(&buf)
	if got, err := decodeTotals(buf[:]); err != nil || got != want {
		t.Errorf("%+v, %v; want %+v", got, err, want)
	}
	buf[3] ^= 1
	for _, b := range [][]byte{nil, buf[:], buf[:5]} {
		if _, err := decodeTotals(b); !errors.Is(err, store.ErrCorrupt) {
			t.Errorf("error %v, want ErrCorrupt", err)
		}
	}
}

func TestFormat(t *testing.T) {
	format := func(v byte) []byte {
		b := []byte{v, 0, 0, 0}
		sum := boltfile.Checksum(formatKey, b)
		return append(b, byte(sum), byte(sum>>8), byte(sum>>16), byte(sum>>24))
	}
	for _, c := range []struct {
		name  string
		value []byte
		want  error
	}{
		{"ours", format(fileFormat), nil},
		{"newer", format(fileFormat + 1), errors.ErrUnsupported},
		{"never written", format(0), store.ErrCorrupt},
		{"damaged", append(format(1)[:7], 0x55), store.ErrCorrupt},
		{"missing", nil, store.ErrCorrupt},
	} {
		if err := checkFormat(c.value); !errors.Is(err, c.want) {
			t.Errorf("%s: error %v, want %v", c.name, err, c.want)
		}
	}
}
