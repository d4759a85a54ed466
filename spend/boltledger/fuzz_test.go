package boltledger

import (
	"bytes"
	"errors"
	"math"
	"testing"

	"github.com/brimgo/brim/spend/internal/book"
	"github.com/brimgo/brim/spend/ledger"
	"github.com/brimgo/brim/store"
)

// FuzzValue decodes arbitrary values as each kind. A value is damage, or its content survives an
// encoding.
func FuzzValue(f *testing.F) {
	key := entryKey(7, ofEntries, 5, 1)
	entry := ledger.Entry{
		Account: "cards/a", Seq: 1, At: 5, Dated: 4, Kind: "capture", RequestID: "r", SpendID: "s", Part: 1,
		Amount: math.MaxInt64, Asked: 8, Least: 7, TTL: 6, Currency: "EUR", Used: 3, Held: -3, Count: 1, Expires: 99, Pending: -1,
		Tags: map[string]string{"a": "1", "b": ""}, Refused: []string{"month"},
	}
	request := ledger.Request{
		ID: string(key), At: -1,
		Content: []byte{1}, Answer: []byte{2, 3}, Spend: []byte{4},
	}
	account := ledger.Account{Key: "cards/a", Rules: []byte("rules"), State: []byte("state")}
	rules := ledger.Rules{Budget: "cards", Revision: 3, At: -1, By: "ops", Reason: "fraud", Held: true, Digest: []byte{1}, Text: []byte("{}")}
	for _, e := range []*book.Encoder{
		encodeEntry(&entry), encodeRequest(&request, []int64{7, 8}), encodeAccount(&account), encodeNumber(7), encodeName("cards/a"),
		encodeRules(&rules),
	} {
		f.Add(key, e.B)
		f.Add(rulesKey("cards", 1), e.B)
	}
	f.Add(key, []byte{format, 255, 255, 255, 255, 15})
	f.Add([]byte("short"), []byte{format, 0, 0, 0, 0, 0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, key, value []byte) {
		for kind, decode := range map[string]func([]byte) ([]byte, error){
			"account": func(b []byte) ([]byte, error) {
				a, err := decodeAccount("cards/a", b)
				return encodeAccount(&a).B, err
			},
			"request": func(b []byte) ([]byte, error) {
				r, accounts, err := decodeRequest(key, b)
				return encodeRequest(r, accounts).B, err
			},
			"number": func(b []byte) ([]byte, error) {
				n, err := decodeNumber(b)
				return encodeNumber(n).B, err
			},
			"name": func(b []byte) ([]byte, error) {
				name, err := decodeName(b)
				return encodeName(name).B, err
			},
			"rules": func(b []byte) ([]byte, error) {
				r, err := decodeRules("cards", key, b)
				return encodeRules(&r).B, err
			},
			"entry": func(b []byte) ([]byte, error) {
				e, err := decodeEntry("cards/a", key, b)
				return encodeEntry(&e).B, err
			},
		} {
			first, err := decode(value)
			if err != nil {
				if !errors.Is(err, store.ErrCorrupt) {
					t.Errorf("%s: %v; want ErrCorrupt", kind, err)
				}
				continue
			}
			if again, err := decode(first); err != nil || !bytes.Equal(again, first) {
				t.Errorf("%s: %x is encoded as %x, which is decoded and encoded as %x, %v", kind, value, first, again, err)
			}
			if _, err := decode(append(bytes.Clone(value), 0)); !errors.Is(err, store.ErrCorrupt) {
				t.Errorf("%s: a byte more than %x: %v; want ErrCorrupt", kind, value, err)
			}
		}
	})
}
