package boltledger

import (
	"encoding/binary"

	"github.com/brimgo/brim/spend/internal/book"
	"github.com/brimgo/brim/spend/ledger"
)

// The first byte of every value.
const format = 2

func newEncoder() *book.Encoder { return book.NewEncoder(format) }

// open begins to decode a value, which is empty if it was damaged. An error names its kind.
func open(kind string, value []byte) *book.Decoder { return book.NewDecoder(kind, format, value) }

// The keys of an account are its name, a NUL, which is in no name, one of these letters, and
// numbers that sort as bytes. The working set sorts after the newest entry, so a decision mostly
// changes one page.
const (
	ofDates   = 'd' // date, number of a correction: the time of the correction
	ofEntries = 'e' // time, number: an entry
	ofState   = 's' // the working set
	ofHolds   = 't' // expiry, ID: an empty value
	ofNone    = 'z' // sorts after all keys of an account
)

// decodeDate reads the time of a correction.
func decodeDate(value []byte) (at int64, err error) {
	d := open("a date", value)
	at = d.Int()
	return at, d.End()
}

// checkHold checks a hold, all of whose content is in its key.
func checkHold(value []byte) error {
	return open("a hold", value).End()
}

func prefix(account string, letter byte) []byte { return append([]byte(account), 0, letter) }

// number appends v to key so that keys sort by v.
func number(key []byte, v int64) []byte {
	return binary.BigEndian.AppendUint64(key, uint64(v)^1<<63)
}

func numberAt(key []byte) int64 { return int64(binary.BigEndian.Uint64(key) ^ 1<<63) }

func entryKey(account string, letter byte, at, seq int64) []byte {
	return number(number(prefix(account, letter), at), seq)
}

func encodeAccount(a *ledger.Account) *book.Encoder {
	e := newEncoder()
	e.Int(a.Pruned)
	e.Int(a.Due)
	e.Bytes(a.Rules)
	e.Bytes(a.State)
	return e
}

func decodeAccount(name string, value []byte) (ledger.Account, error) {
	d := open("an account", value)
	a := ledger.Account{Key: name, Pruned: d.Int(), Due: d.Int(), Rules: d.Bytes(), State: d.Bytes()}
	return a, d.End()
}

func encodeRequest(r *ledger.Request) *book.Encoder {
	e := newEncoder()
	e.Int(r.At)
	e.Strings(r.Accounts)
	e.Bytes(r.Content)
	e.Bytes(r.Answer)
	e.Bytes(r.Spend)
	return e
}

func decodeRequest(key, value []byte) (*ledger.Request, error) {
	d := open("a request", value)
	r := &ledger.Request{
		ID: string(key), At: d.Int(), Accounts: d.Strings(),
		Content: d.Bytes(), Answer: d.Bytes(), Spend: d.Bytes(),
	}
	return r, d.End()
}

func encodeEntry(n *ledger.Entry) *book.Encoder {
	e := newEncoder()
	e.Int(n.Dated)
	e.String(n.Kind)
	e.String(n.RequestID)
	e.String(n.SpendID)
	e.String(n.Currency)
	for _, v := range [...]int64{n.SpendAmount, n.Part, n.Amount, n.Asked, n.Least, n.TTL, n.Used, n.Held, n.Count, n.Expires, n.Pending} {
		e.Int(v)
	}
	e.Bool(n.Spends)
	e.Map(n.Tags)
	e.Strings(n.Refused)
	e.Int(int64(len(n.Credited)))
	for _, c := range n.Credited {
		e.String(c.Rule)
		e.Int(int64(c.Counts))
		e.Int(c.Amount)
	}
	return e
}

// decodeEntry reads an entry. The key ends with its time and its number, and begins with its
// account.
func decodeEntry(key, value []byte) (ledger.Entry, error) {
	d := open("an entry", value)
	end := len(key) - 18
	if end < 0 {
		d.Damaged("the key of an entry is too short")
	}
	if d.Err != nil {
		return ledger.Entry{}, d.Err
	}
	e := ledger.Entry{Account: string(key[:end]), At: numberAt(key[end+2:]), Seq: numberAt(key[end+10:])}
	e.Dated, e.Kind, e.RequestID, e.SpendID, e.Currency = d.Int(), d.String(), d.String(), d.String(), d.String()
	for _, v := range [...]*int64{&e.SpendAmount, &e.Part, &e.Amount, &e.Asked, &e.Least, &e.TTL, &e.Used, &e.Held, &e.Count, &e.Expires, &e.Pending} {
		*v = d.Int()
	}
	e.Spends, e.Tags, e.Refused = d.Bool(), d.Map(), d.Strings()
	for range d.Count() {
		e.Credited = append(e.Credited, ledger.Credited{Rule: d.String(), Counts: uint64(d.Int()), Amount: d.Int()})
	}
	return e, d.End()
}
