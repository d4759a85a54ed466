package bolt

import (
	"errors"
	"math"
	"strings"
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

var testLayout = layoutOf(defaultName)

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
		sum := testLayout.encodeRecord(&buf, key, &want)
		got, gotSum, err := testLayout.decodeRecord(key, buf[:])
		if err != nil || got != want || gotSum != sum {
			t.Fatalf("%+v became %+v, sum %x and %x, %v", want, got, sum, gotSum, err)
		}
	})
}

// TestLargestRecord: the largest numbers that a record can have are no damage.
func TestLargestRecord(t *testing.T) {
	const most = math.MaxFloat64
	want := store.Record{
		Level: most, Held: most, Time: math.MaxInt64,
		Limit: store.Limit{Capacity: most, LeakRate: most}, BlockedUntil: math.MaxInt64,
	}
	var buf [recordSize]byte
	testLayout.encodeRecord(&buf, []byte("k"), &want)
	if got, _, err := testLayout.decodeRecord([]byte("k"), buf[:]); err != nil || got != want {
		t.Errorf("%+v, %v; want %+v", got, err, want)
	}
}

func TestRecordDamage(t *testing.T) {
	key := []byte("key")
	sound := func() []byte {
		var buf [recordSize]byte
		testLayout.encodeRecord(&buf, key, &sampleRecord)
		return buf[:]
	}
	// resum makes the checksum right again, so that decodeRecord has to look at the content.
	resum := func(b []byte) []byte {
		testLayout.table.Seal(key, b)
		return b
	}
	number := func(r store.Record) []byte {
		var buf [recordSize]byte
		testLayout.encodeRecord(&buf, key, &r)
		return buf[:]
	}
	for _, c := range []struct {
		name, why string
		key       string
		value     []byte
		says      string
	}{
		{"empty", "an empty value is no absent bucket", "key", nil, "has 0 bytes instead of 57"},
		{"short", "a write that was cut short", "key", sound()[:recordSize-1], "has 56 bytes instead of 57"},
		{"long", "two records run together", "key", append(sound(), 0), "has 58 bytes instead of 57"},
		{
			"another key", "an intact record under a wrong key is another bucket's level",
			"kez", sound(), "does not match its checksums",
		},
		{
			"another format", "a later format may give the same bytes another meaning",
			"key", resum(append([]byte{2}, sound()[1:]...)), "has format 2 instead of 1",
		},
		{
			"zeros", "a page of zeros passes a checksum that starts at 0",
			"key", make([]byte, recordSize), "does not match its checksums",
		},
		{
			"NaN", "NaN is neither full nor empty",
			"key", number(store.Record{Level: math.NaN(), Limit: steady}), "holds NaN",
		},
		{
			"negative", "a negative level mints capacity",
			"key", number(store.Record{Held: -1, Limit: steady}), "holds -1",
		},
		{
			"infinite", "an infinite level never leaks",
			"key", number(store.Record{Limit: store.Limit{Capacity: math.Inf(1)}}), "holds +Inf",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, _, err := testLayout.decodeRecord([]byte(c.key), c.value)
			if !errors.Is(err, store.ErrCorrupt) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("error %v, want ErrCorrupt and %q: %s", err, c.says, c.why)
			}
			if r != (store.Record{}) {
				t.Errorf("%+v beside the error; want nothing", r)
			}
		})
	}
	for bit := range recordSize * 8 {
		b := sound()
		b[bit/8] ^= 1 << (bit % 8)
		if _, _, err := testLayout.decodeRecord(key, b); !errors.Is(err, store.ErrCorrupt) {
			t.Errorf("bit %d flipped: error %v, want ErrCorrupt", bit, err)
		}
	}
}

func TestFormat(t *testing.T) {
	format := func(v byte) []byte {
		b := append([]byte{v, 0, 0, 0}, make([]byte, boltfile.SealSize)...)
		testLayout.table.SealMeta(formatKey, b)
		return b
	}
	for _, c := range []struct {
		name  string
		value []byte
		want  error
	}{
		{"ours", format(fileFormat), nil},
		{"newer", format(fileFormat + 1), errors.ErrUnsupported},
		{"never written", format(0), store.ErrCorrupt},
		{"damaged", append(format(1)[:formatSize-1], 0x55), store.ErrCorrupt},
		{"missing", nil, store.ErrCorrupt},
	} {
		if err := testLayout.checkFormat(c.value); !errors.Is(err, c.want) {
			t.Errorf("%s: error %v, want %v", c.name, err, c.want)
		}
	}
}
