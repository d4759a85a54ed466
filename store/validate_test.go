package store

import (
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/brimgo/brim/internal/differ"
)

// checkKey compares the validator, which tests eight bytes at a time, with the plain rule.
func checkKey(t *testing.T, key string) {
	t.Helper()
	valid := key != "" && len(key) <= 512 && utf8.ValidString(key) && !strings.Contains(key, "\x00")
	if err := ValidateKey(key); (err == nil) != valid || err != nil && !errors.Is(err, ErrInvalidKey) {
		t.Fatalf("%q: %v, want valid = %v", key, err, valid)
	}
}

// TestValidateKey has every byte at every place of short keys.
func TestValidateKey(t *testing.T) {
	for length := range 18 {
		for at := range length {
			for b := range 256 {
				key := []byte(strings.Repeat("k", length))
				key[at] = byte(b)
				checkKey(t, string(key))
			}
		}
	}
}

func FuzzValidateKey(f *testing.F) {
	for _, key := range []string{
		"", "a", strings.Repeat("k", 512), strings.Repeat("k", 513),
		strings.Repeat("é", 256), strings.Repeat("é", 256) + "k", // 512 bytes, and 513
		"\x00", "abc\x00defgh", "abcdefghijk\x00", "é\x00", "\x01\n\r\t\x1f\x7f", "    ",
		strings.Repeat("\x7f", 8), "\xff", "abcdefg\x80hijk", "\x01\x80\x00\x7f",
		"\xc3", "\xc0\x80", "\xed\xa0\x80", // half a rune, an overlong one, a surrogate
		"\U0010ffff", "\ufffd",
	} {
		f.Add(key)
	}
	f.Fuzz(checkKey)
}

func TestErrorsContainNoKey(t *testing.T) {
	secret := "4111-1111-1111-1111"
	long := strings.Repeat(secret, 30)
	limit := Limit{Capacity: 10, LeakRate: 1}
	for _, err := range []error{
		ValidateKey(long), ValidateKey(secret + "\x00"), ValidateKey(secret + "\xff"), Limit{}.For(secret).Validate(),
		(&Op{Bucket: limit.For(secret), Amount: -1, Mode: Clamp}).Validate(),
		Txn{{Bucket: limit.For(secret)}, {Bucket: Limit{Capacity: 11}.For(secret)}}.Validate(),
	} {
		if err == nil || strings.Contains(err.Error(), secret) {
			t.Errorf("%v; want an error without the key, which may be personal data", err)
		}
	}
}

func TestLimitValidate(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	for _, c := range []struct {
		capacity, rate float64
		valid          bool
	}{
		{1, 0, true},
		{1 << 53, 1 << 53, true},
		{math.SmallestNonzeroFloat64, 1e-12, true},
		{0, 1, true},
		{0, 0, false},
		{-1, 1, false},
		{1<<53 + 2, 1, false},
		{nan, 1, false},
		{inf, 1, false},
		{1, -1, false},
		{1, 9e-13, false},
		{1, 1<<53 + 2, false},
		{1, nan, false},
		{1, inf, false},
		{1, -inf, false},
	} {
		err := Limit{Capacity: c.capacity, LeakRate: c.rate}.Validate()
		if (err == nil) != c.valid || err != nil && !errors.Is(err, ErrInvalidLimit) {
			t.Errorf("capacity %v, leak rate %v: %v, want valid = %v", c.capacity, c.rate, err, c.valid)
		}
	}
}

func TestValidateAmount(t *testing.T) {
	for _, c := range []struct {
		capacity, n float64
		valid       bool
	}{
		{10, 0, true},
		{10, 10, true},
		{10, 11, true}, // more than the capacity is a refusal, not an error
		{10, 1 << 53, true},
		{10, 1<<53 + 2, false},
		{10, -1, false},
		{10, math.Copysign(0, -1), true},
		{10, math.NaN(), false},
		{10, math.Inf(1), false},
		{10, math.Inf(-1), false},
		{10, 1e-15, true},
		{10, 1e-16, false}, // lost: 10 + 1e-16 is 10
		{1 << 53, 1, false},
		{1 << 53, 2, true},
		{1 << 52, 1, true},
	} {
		err := Limit{Capacity: c.capacity}.ValidateAmount(c.n)
		if (err == nil) != c.valid || err != nil && !errors.Is(err, ErrInvalidAmount) {
			t.Errorf("%v of capacity %v: %v, want valid = %v", c.n, c.capacity, err, c.valid)
		}
	}
}

func TestOpValidate(t *testing.T) {
	b := Limit{Capacity: 10, LeakRate: 1}.For("k")
	for _, c := range []struct {
		name string
		op   Op
		want error
	}{
		{"try", Op{Bucket: b, Amount: 1}, nil},
		{"zero", Op{Bucket: b}, nil},
		{"drain", Op{Bucket: b, Amount: -1, Mode: Always}, nil},
		{"hold", Op{Bucket: b, Hold: 1}, nil},
		{"capture", Op{Bucket: b, Amount: 1, Hold: -2, Mode: Always}, nil},
		{"cancel", Op{Bucket: b, Amount: -1, Ceiling: 3, CeilingAt: time.Now()}, nil},
		{"penalty", Op{Bucket: b, Amount: 1, BlockFor: time.Microsecond}, nil},
		{"penalty until empty", Op{Bucket: b, Amount: 1, BlockFor: UntilEmpty}, nil},
		{"no key", Op{Bucket: Limit{Capacity: 1}.For("")}, ErrInvalidKey},
		{"the longest key", Op{Bucket: b.Limit.For(strings.Repeat("k", MaxKeyLen))}, nil},
		{"a key that is too long", Op{Bucket: b.Limit.For(strings.Repeat("k", MaxKeyLen+1))}, ErrInvalidKey},
		{"no limit", Op{Bucket: Bucket{Key: "k"}}, ErrInvalidLimit},
		{"amount NaN", Op{Bucket: b, Amount: math.NaN(), Mode: Always}, ErrInvalidAmount},
		{"drain of more than 2^53", Op{Bucket: b, Amount: -1<<53 - 2, Mode: Always}, ErrInvalidAmount},
		{"hold NaN", Op{Bucket: b, Hold: math.NaN()}, ErrInvalidAmount},
		{"infinite hold", Op{Bucket: b, Hold: math.Inf(1)}, ErrInvalidAmount},
		{"clamped zero", Op{Bucket: b, Mode: Clamp}, nil},
		{"less than a unit, clamped", Op{Bucket: b, Amount: 0.5, Mode: Clamp}, nil},
		{"the highest ceiling", Op{Bucket: b, Amount: 1, Ceiling: math.MaxFloat64}, nil},
		{"clamped drain", Op{Bucket: b, Amount: -1, Mode: Clamp}, ErrInvalidAmount},
		{"clamped hold", Op{Bucket: b, Hold: 1, Mode: Clamp}, ErrInvalidAmount},
		{"release in mode IfFits", Op{Bucket: b, Hold: -1}, ErrInvalidAmount},
		{"negative ceiling", Op{Bucket: b, Amount: 1, Ceiling: -1}, ErrInvalidLimit},
		{"ceiling NaN", Op{Bucket: b, Amount: 1, Ceiling: math.NaN()}, ErrInvalidLimit},
		{"infinite ceiling", Op{Bucket: b, Amount: 1, Ceiling: math.Inf(1)}, ErrInvalidLimit},
		{"CeilingAt without Ceiling", Op{Bucket: b, Amount: 1, CeilingAt: time.Now()}, ErrInvalidLimit},
		{"negative penalty", Op{Bucket: b, Amount: 1, BlockFor: -time.Second}, ErrInvalidLimit},
		{"penalty below a microsecond", Op{Bucket: b, Amount: 1, BlockFor: time.Nanosecond}, ErrInvalidLimit},
		{"ask", Op{Bucket: b, Amount: 1, Mode: Ask}, nil},
		{"ask for a hold under a ceiling", Op{Bucket: b, Hold: 1, Ceiling: 3, Mode: Ask}, nil},
		{"ask with a penalty", Op{Bucket: b, Amount: 1, BlockFor: time.Second, Mode: Ask}, ErrInvalidLimit},
		{"ask for a release", Op{Bucket: b, Hold: -1, Mode: Ask}, ErrInvalidAmount},
		{"ask NaN", Op{Bucket: b, Amount: math.NaN(), Mode: Ask}, ErrInvalidAmount},
		{"ask without a limit", Op{Bucket: Bucket{Key: "k"}, Amount: 1, Mode: Ask}, ErrInvalidLimit},
		{"up to", Op{Bucket: b, Amount: 20, Least: 1, Mode: UpTo}, nil},
		{"up to the least, with a penalty", Op{Bucket: b, Amount: 2, Least: 2, BlockFor: UntilEmpty, Mode: UpTo}, nil},
		{"up to less than the least", Op{Bucket: b, Amount: 1, Least: 2, Mode: UpTo}, ErrInvalidAmount},
		{"up to, without a least", Op{Bucket: b, Amount: 1, Mode: UpTo}, ErrInvalidAmount},
		{"up to, from a fraction", Op{Bucket: b, Amount: 3, Least: 1.5, Mode: UpTo}, ErrInvalidAmount},
		{"up to a fraction", Op{Bucket: b, Amount: 2.5, Least: 1, Mode: UpTo}, ErrInvalidAmount},
		{"up to, from NaN", Op{Bucket: b, Amount: 3, Least: math.NaN(), Mode: UpTo}, ErrInvalidAmount},
		{"up to, with a hold", Op{Bucket: b, Amount: 3, Least: 1, Hold: 1, Mode: UpTo}, ErrInvalidAmount},
		{"up to, under a ceiling", Op{Bucket: b, Amount: 3, Least: 1, Ceiling: 2, Mode: UpTo}, ErrInvalidAmount},
		{"up to, without a limit", Op{Bucket: Bucket{Key: "k"}, Amount: 3, Least: 1, Mode: UpTo}, ErrInvalidLimit},
		{"a least in mode IfFits", Op{Bucket: b, Amount: 3, Least: 1}, ErrInvalidAmount},
		{"block with a least", Op{Bucket: b, Least: 1, BlockFor: time.Second, Mode: Block}, ErrInvalidAmount},
		{"block", Op{Bucket: b, BlockFor: time.Microsecond, Mode: Block}, nil},
		{"block until empty", Op{Bucket: b, BlockFor: UntilEmpty, Mode: Block}, nil},
		{"block for no time", Op{Bucket: b, Mode: Block}, ErrInvalidLimit},
		{"block for less than a microsecond", Op{Bucket: b, BlockFor: time.Nanosecond, Mode: Block}, ErrInvalidLimit},
		{"block for a negative time", Op{Bucket: b, BlockFor: -time.Second, Mode: Block}, ErrInvalidLimit},
		{"block with an amount", Op{Bucket: b, Amount: 1, BlockFor: time.Second, Mode: Block}, ErrInvalidAmount},
		{"block with a hold", Op{Bucket: b, Hold: 1, BlockFor: time.Second, Mode: Block}, ErrInvalidAmount},
		{"block with a ceiling", Op{Bucket: b, Ceiling: 1, BlockFor: time.Second, Mode: Block}, ErrInvalidLimit},
		{"block without a limit", Op{Bucket: Bucket{Key: "k"}, BlockFor: 1e9, Mode: Block}, nil},
		{"block without a key", Op{Bucket: Bucket{Limit: b.Limit}, BlockFor: 1e9, Mode: Block}, ErrInvalidKey},
		{"unblock", Op{Bucket: b, Mode: Unblock}, nil},
		{"unblock without a limit", Op{Bucket: Bucket{Key: "k"}, Mode: Unblock}, nil},
		{"unblock without a key", Op{Mode: Unblock}, ErrInvalidKey},
		{"unblock by half a limit", Op{Bucket: Limit{LeakRate: -1}.For("k"), Mode: Unblock}, ErrInvalidLimit},
		{"unblock with an amount", Op{Bucket: Bucket{Key: "k"}, Amount: 1, Mode: Unblock}, ErrInvalidAmount},
		{"unblock with CeilingAt", Op{Bucket: b, CeilingAt: time.Now(), Mode: Unblock}, ErrInvalidLimit},
		{"release without a limit", Op{Bucket: Bucket{Key: "k"}, Hold: -1, Mode: Always}, nil},
		{"capture without a limit", Op{Bucket: Bucket{Key: "k"}, Hold: -1, Amount: 2, Mode: Always}, nil},
		{"drain without a limit", Op{Bucket: Bucket{Key: "k"}, Amount: -2, Mode: Always}, nil},
		{"drain of NaN without a limit", Op{Bucket: Bucket{Key: "k"}, Amount: -math.NaN(), Mode: Always}, ErrInvalidAmount},
		{"drain without a key or a limit", Op{Amount: -2, Mode: Always}, ErrInvalidKey},
		{"hold without a limit", Op{Bucket: Bucket{Key: "k"}, Hold: 1, Mode: Always}, ErrInvalidLimit},
		{"fill without a limit", Op{Bucket: Bucket{Key: "k"}, Amount: 1}, ErrInvalidLimit},
		{"fill by Nobody", Op{Bucket: Nobody.For("k"), Amount: 1}, ErrInvalidLimit},
		{"fill by Unlimited", Op{Bucket: Unlimited.For("k"), Amount: 1}, ErrInvalidLimit},
		{"the smallest hold", Op{Bucket: Limit{Capacity: 1 << 40}.For("k"), Hold: 4}, nil},
		{"a smaller hold", Op{Bucket: Limit{Capacity: 1 << 40}.For("k"), Hold: 3.99}, ErrInvalidAmount},
		{"the end of a smaller hold", Op{Bucket: Limit{Capacity: 1 << 40}.For("k"), Hold: -3.99, Mode: Always}, nil},
		{"unblock for a time", Op{Bucket: b, BlockFor: time.Second, Mode: Unblock}, ErrInvalidLimit},
	} {
		if err := c.op.Validate(); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
	}
}

func TestTxnValidate(t *testing.T) {
	one, other := Limit{Capacity: 10}, Limit{Capacity: 11}
	for _, c := range []struct {
		name string
		txn  Txn
		want error
	}{
		{"empty", nil, nil},
		{"one", Txn{{Bucket: one.For("a"), Amount: 1}}, nil},
		{"two limits, two keys", Txn{{Bucket: one.For("a")}, {Bucket: other.For("b")}}, nil},
		{"one key twice", Txn{{Bucket: one.For("a")}, {Bucket: other.For("b")}, {Bucket: one.For("a")}}, nil},
		{
			"one key with two limits",
			Txn{{Bucket: one.For("a")}, {Bucket: one.For("b")}, {Bucket: other.For("a")}},
			ErrInvalidLimit,
		},
		{
			"invalid operation",
			Txn{{Bucket: one.For("a")}, {Bucket: one.For("b"), Amount: math.NaN()}},
			ErrInvalidAmount,
		},
		{"invalid key", Txn{{Bucket: one.For("\xff")}}, ErrInvalidKey},
		{"all ask", Txn{{Bucket: one.For("a"), Mode: Ask}, {Bucket: other.For("b"), Mode: Ask}}, nil},
		{"ask beside a fill", Txn{{Bucket: one.For("a"), Mode: Ask}, {Bucket: one.For("a"), Amount: 1}}, nil},
		{"ask about a drain beside a fill", Txn{{Bucket: one.For("a"), Amount: -1, Mode: Ask}, {Bucket: one.For("a")}}, ErrInvalidAmount},
		{"up to beside an ask", Txn{{Bucket: one.For("a"), Mode: Ask}, {Bucket: one.For("b"), Amount: 2, Least: 1, Mode: UpTo}}, nil},
		{"up to beside a fill of the key", Txn{{Bucket: one.For("a"), Amount: 1}, {Bucket: one.For("a"), Amount: 2, Least: 1, Mode: UpTo}}, ErrInvalidAmount},
		{"a fill of the key beside up to", Txn{{Bucket: one.For("a"), Amount: 2, Least: 1, Mode: UpTo}, {Bucket: one.For("a"), Amount: 1}}, ErrInvalidAmount},
		{"ask beside a clamp", Txn{{Bucket: one.For("a"), Mode: Clamp}, {Bucket: one.For("b"), Mode: Ask}}, ErrInvalidAmount},
		{"ask beside a drain", Txn{{Bucket: one.For("a"), Mode: Ask}, {Bucket: one.For("b"), Mode: Always}}, ErrInvalidAmount},
		{
			"a release without a limit beside a fill",
			Txn{{Bucket: one.For("a"), Amount: 1}, {Bucket: Bucket{Key: "a"}, Mode: Always, Hold: -1}},
			nil,
		},
		{
			"unblock and fill",
			Txn{{Bucket: one.For("a")}, {Bucket: Bucket{Key: "a"}, Mode: Unblock}, {Bucket: one.For("a")}},
			nil,
		},
		{
			"unblock by another limit",
			Txn{{Bucket: one.For("a")}, {Bucket: other.For("a"), Mode: Unblock}},
			ErrInvalidLimit,
		},
	} {
		if err := c.txn.Validate(); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
	}
}

// TestRecordRanges: the lowest and the highest value of each field's type are out of its range.
func TestRecordRanges(t *testing.T) {
	r := Record{Level: 1, Held: 1, Time: noon, Limit: Limit{Capacity: 10, LeakRate: 1}, BlockedUntil: noon}
	if err := r.Validate(); err != nil {
		t.Fatal(err)
	}
	for name, field := range differ.Leaves(&r) {
		before := reflect.ValueOf(field.Interface())
		var extremes []any
		switch field.Kind() {
		case reflect.Float64:
			extremes = []any{-math.MaxFloat64, math.MaxFloat64}
		case reflect.Int64:
			extremes = []any{int64(math.MinInt64), int64(math.MaxInt64)}
		default:
			t.Errorf("this test knows no values of the type of %s, %v", name, field.Type())
		}
		for _, x := range extremes {
			field.Set(reflect.ValueOf(x))
			if err := r.Validate(); !errors.Is(err, ErrCorrupt) {
				t.Errorf("%s %v: %v; want ErrCorrupt", name, x, err)
			}
		}
		field.Set(before)
	}
}

func TestRecordValidate(t *testing.T) {
	limit := Limit{Capacity: 10, LeakRate: 1}
	nan, inf := math.NaN(), math.Inf(1)
	for _, c := range []struct {
		name, why string
		record    Record
		says      string // of the error, or nothing
	}{
		{"new", "the bucket that a transaction creates first", NewRecord(noon), ""},
		{"a block without a limit", "Block of a bucket that does not exist", Record{Time: noon, BlockedUntil: noon}, ""},
		{"largest", "Always is not refused", Record{Level: 0x1p106, Held: 0x1p106, Limit: Limit{Capacity: MaxAmount, LeakRate: MaxAmount}}, ""},
		{"smallest", "", Record{Level: 5e-324, Held: 5e-324, Limit: Limit{Capacity: 0, LeakRate: MinLeakRate}}, ""},
		{"year 1", "an injected clock may read the zero time", Record{Time: time.Time{}.UnixMicro(), Limit: limit}, ""},
		{
			"year 9999", "an injected clock may",
			Record{Time: time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC).UnixMicro() - 1, BlockedUntil: MaxTime, Limit: limit},
			"",
		},
		{"level NaN", "NaN is neither full nor empty", Record{Level: nan, Limit: limit}, "level NaN"},
		{"level infinite", "it never leaks", Record{Level: inf, Limit: limit}, "level +Inf"},
		{"level too large", "", Record{Level: 1e33, Limit: limit}, "level 1e+33"},
		{"level negative", "it mints room", Record{Level: -1, Limit: limit}, "level -1"},
		{"held NaN", "", Record{Held: nan, Limit: limit}, "held amount NaN"},
		{"held infinite", "everything fits", Record{Held: -inf, Limit: limit}, "held amount -Inf"},
		{"held too large", "", Record{Held: 1e33, Limit: limit}, "held amount 1e+33"},
		{"capacity NaN", "", Record{Limit: Limit{Capacity: nan, LeakRate: 1}}, "capacity NaN"},
		{"capacity negative", "", Record{Limit: Limit{Capacity: -1, LeakRate: 1}}, "capacity -1"},
		{"capacity too large", "", Record{Limit: Limit{Capacity: 0x1p54, LeakRate: 1}}, "capacity 1.8"},
		{"leak rate NaN", "", Record{Limit: Limit{Capacity: 1, LeakRate: nan}}, "leak rate NaN"},
		{"leak rate negative", "the level rises", Record{Limit: Limit{Capacity: 1, LeakRate: -1}}, "leak rate -1"},
		{"leak rate too small", "", Record{Limit: Limit{Capacity: 1, LeakRate: 1e-13}}, "leak rate 1e-13"},
		{"leak rate too large", "", Record{Limit: Limit{Capacity: 1, LeakRate: 0x1p54}}, "leak rate 1.8"},
		{"level without a limit", "it never leaks", Record{Level: 1, Time: noon}, "no limit, and level"},
		{"held without a limit", "no call could end the hold", Record{Held: 1, Time: noon, BlockedUntil: 1}, "no limit, and level"},
		{"time before the year 1", "", Record{Time: math.MinInt64, Limit: limit}, "time in"},
		{"time after the year 9999", "", Record{Time: math.MaxInt64, Limit: limit}, "time in"},
		{"block before the year 1", "", Record{BlockedUntil: math.MinInt64, Limit: limit}, "block in"},
		{"block after never", "", Record{BlockedUntil: MaxTime + 1, Limit: limit}, "block in"},
	} {
		err := c.record.Validate()
		if (err == nil) != (c.says == "") || err != nil && (!errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("%s: %v; want %q; why: %s", c.name, err, c.says, c.why)
		}
	}
}
