package boltledger

import (
	"encoding/binary"

	"github.com/brimgo/brim/spend/internal/book"
	"github.com/brimgo/brim/spend/ledger"
)

// The first byte of every value.
const format = 3

func newEncoder() *book.Encoder { return book.NewEncoder(format) }

// open begins to decode a value, which is empty if it was damaged. An error names its kind.
func open(kind string, value []byte) *book.Decoder { return book.NewDecoder(kind, format, value) }

// The table of accounts has two kinds of keys. A name leads to the number of its account, which
// stands for the account everywhere else, so a new name is a change of two values.
const (
	ofName   = 'a' // name: the number of the account
	ofNumber = 'n' // number, letter ...
)

// The keys under the number of an account go on with one of these letters, and numbers that sort as
// bytes. The working set sorts after the newest entry, so a decision mostly changes one page.
const (
	ofDates   = 'd' // date, number of a correction: the time of the correction
	ofEntries = 'e' // time, number: an entry
	ofKey     = 'k' // the name
	ofState   = 's' // the working set
	ofHolds   = 't' // expiry, ID: an empty value
	ofNone    = 'z' // sorts after all keys of an account
)

// numbered is the size of the key of an account's part.
const numbered = 10

func nameKey(account string) []byte { return append([]byte{ofName}, account...) }

func encodeNumber(n int64) *book.Encoder {
	e := newEncoder()
	e.Int(n)
	return e
}

func decodeNumber(value []byte) (int64, error) {
	d := open("the name of an account", value)
	n := d.Int()
	return n, d.End()
}

func encodeName(name string) *book.Encoder {
	e := newEncoder()
	e.String(name)
	return e
}

func decodeName(value []byte) (string, error) {
	d := open("the name of an account", value)
	name := d.String()
	return name, d.End()
}

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

func prefix(account int64, letter byte) []byte {
	return append(number([]byte{ofNumber}, account), letter)
}

// number appends v to key so that keys sort by v.
func number(key []byte, v int64) []byte {
	return binary.BigEndian.AppendUint64(key, uint64(v)^1<<63)
}

func numberAt(key []byte) int64 { return int64(binary.BigEndian.Uint64(key) ^ 1<<63) }

func entryKey(account int64, letter byte, at, seq int64) []byte {
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

// rulesKey is the key of a revision of rules: the budget, which has no zero, a zero, and the
// number.
func rulesKey(budget string, seq int64) []byte { return number(append([]byte(budget), 0), seq) }

func encodeRules(r *ledger.Rules) *book.Encoder {
	e := newEncoder()
	e.Int(r.Revision)
	e.Int(r.At)
	e.String(r.By)
	e.String(r.Reason)
	e.Bool(r.Held)
	e.Bytes(r.Digest)
	e.Bytes(r.Text)
	return e
}

// decodeRules reads a revision of the rules of a budget. The key ends with its number.
func decodeRules(budget string, key, value []byte) (ledger.Rules, error) {
	d := open("a revision of rules", value)
	start := len(budget) + 1
	if len(key) != start+8 {
		d.Damaged("the key of a revision has %d bytes", len(key))
	}
	if d.Err != nil {
		return ledger.Rules{}, d.Err
	}
	r := ledger.Rules{
		Budget: budget, Seq: numberAt(key[start:]), Revision: d.Int(), At: d.Int(), By: d.String(), Reason: d.String(),
		Held: d.Bool(), Digest: d.Bytes(), Text: d.Bytes(),
	}
	return r, d.End()
}

// encodeRequest writes a request whose accounts have these numbers.
func encodeRequest(r *ledger.Request, accounts []int64) *book.Encoder {
	e := newEncoder()
	e.Int(r.At)
	e.Int(int64(len(accounts)))
	for _, n := range accounts {
		e.Int(n)
	}
	e.Bytes(r.Content)
	e.Bytes(r.Answer)
	e.Bytes(r.Spend)
	return e
}

// decodeRequest reads a request, and the numbers of its accounts.
func decodeRequest(key, value []byte) (r *ledger.Request, accounts []int64, err error) {
	d := open("a request", value)
	r = &ledger.Request{ID: string(key), At: d.Int()}
	for range d.Count() {
		accounts = append(accounts, d.Int())
	}
	r.Content, r.Answer, r.Spend = d.Bytes(), d.Bytes(), d.Bytes()
	return r, accounts, d.End()
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

// decodeEntry reads an entry of an account. The key ends with its time and its number.
func decodeEntry(account string, key, value []byte) (ledger.Entry, error) {
	d := open("an entry", value)
	if len(key) != numbered+16 {
		d.Damaged("the key of an entry has %d bytes", len(key))
	}
	if d.Err != nil {
		return ledger.Entry{}, d.Err
	}
	e := ledger.Entry{Account: account, At: numberAt(key[numbered:]), Seq: numberAt(key[numbered+8:])}
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
