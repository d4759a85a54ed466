package spend

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"math"
	"testing"
	"time"

	"github.com/brimgo/brim/spend/ledger"
	"github.com/brimgo/brim/store"
)

// FuzzCodec decodes arbitrary data as an account, as a spend and as an answer. It is damage, or its
// content survives an encoding, and no number is out of range.
func FuzzCodec(f *testing.F) {
	keys := []string{"cards/a", "team/b"}
	a := account{time: 5, seq: 3, next: 9, tallies: []*tally{{
		name: "month", fingerprint: 7, countedSeq: 3, countedAt: 5, edge: minTime, sums: sums{used: math.MaxInt64, held: -1},
		values:   []valueSums{{"m1", sums{used: 5, held: 1}}, {"m2", sums{used: -5}}},
		firstSeq: 1, bucket: store.Record{Level: 2.5, Held: 1, Time: 4},
	}}}
	parts := func(rules, state []byte) []byte { // of an account, as one value
		e := newEncoder()
		e.Bytes(rules)
		e.Bytes(state)
		return e.B
	}
	f.Add(parts(a.encode()))
	a.tallies[0].bucket.Level = math.NaN()
	f.Add(parts(a.encode()))
	a.tallies[0].bucket.Level = -1
	f.Add(parts(a.encode()))
	sp := spend{
		id: "id", accounts: keys, currency: "EUR", expires: 9, total: 5, counted: true, ended: kindVoid,
		tags:  map[string]string{"a": "1", "b": ""},
		parts: []part{{dates: []int64{1, 1}, held: 2, taken: 3, refunded: 1, seqs: []int64{1, 2}}},
	}
	f.Add(sp.encode())
	f.Add(append(sp.encode(), 0))
	usage := Usage{
		Account: Account{Budget: "cards", Name: "a"}, Rule: "month", Limit: Money{100, "EUR"}, Used: Money{60, "EUR"},
		Held: Money{0, "EUR"}, Remaining: Money{40, "EUR"}, GrowsAt: time.UnixMicro(8), Tag: "merchant", Value: "m1",
	}
	f.Add(encodeAnswer(&Decision{
		At: time.UnixMicro(5), Remaining: []Usage{usage}, Declines: []Decline{{Usage: usage, RetryAfter: time.Hour}},
	}, keys))
	f.Add([]byte{format, 0, 0, 0, 255, 255, 255, 255, 255, 255, 255, 255, 255, 1})
	decoders := map[string]func(t *testing.T, b []byte) (again []byte, err error){
		"account": func(t *testing.T, b []byte) ([]byte, error) {
			var a account
			whole := newDecoder("an account", b)
			tallies, err := a.decode(whole.Bytes(), whole.Bytes())
			err = cmp.Or(err, whole.End())
			for _, u := range tallies {
				if l, h := u.bucket.Level, u.bucket.Held; err == nil && !(min(l, h) >= 0 && max(l, h) <= math.MaxFloat64) {
					t.Errorf("a bucket holds %v and %v", l, h)
				}
			}
			a.tallies = tallies
			return parts(a.encode()), err
		},
		"spend": func(_ *testing.T, b []byte) ([]byte, error) {
			sp, err := decodeSpend("id", keys, b)
			return sp.encode(), err
		},
		"answer": func(_ *testing.T, b []byte) ([]byte, error) {
			d, err := decodeAnswer(&ledger.Request{Accounts: keys, Answer: b})
			return encodeAnswer(&d, keys), err
		},
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		for kind, decode := range decoders {
			first, err := decode(t, b)
			if err != nil {
				if !errors.Is(err, store.ErrCorrupt) {
					t.Errorf("%s: %v; want ErrCorrupt", kind, err)
				}
				continue
			}
			if again, err := decode(t, first); err != nil || !bytes.Equal(again, first) {
				t.Errorf("%s: %x is encoded as %x, which is decoded and encoded as %x, %v", kind, b, first, again, err)
			}
			if _, err := decode(t, append(bytes.Clone(b), 0)); !errors.Is(err, store.ErrCorrupt) {
				t.Errorf("%s: a byte more than %x: %v; want ErrCorrupt", kind, b, err)
			}
		}
	})
}

// FuzzMoneyJSON reads arbitrary JSON as money. It is an error, or the money is written and read
// again as the same.
func FuzzMoneyJSON(f *testing.F) {
	for _, s := range []string{
		`{"amount":"12.34","currency":"EUR"}`, `{"amount":"-0.01","currency":"EUR"}`, `{"amount":"7"}`,
		`{"amount":"92233720368547758.07","currency":"EUR"}`, `{"amount":"5","currency":"JPY"}`,
		`{"amount":"1.2.3","currency":"EUR"}`, `{"amount":12}`, `null`, `{}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		before := Money{42, "CHF"}
		m := before
		if err := json.Unmarshal(b, &m); err != nil {
			if m != before {
				t.Errorf("%q is %v, and changed the money to %v", b, err, m)
			}
			return
		}
		text, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		var again Money
		if err := json.Unmarshal(text, &again); err != nil || again != m {
			t.Errorf("%q reads as %v; that is written %s and reads as %v, %v", b, m, text, again, err)
		}
	})
}
