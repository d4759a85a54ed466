package boltledger

import (
	"encoding/binary"
	"maps"
	"slices"

	"github.com/brimgo/brim/internal/boltfile"
	"github.com/brimgo/brim/spend/ledger"
)

// The first byte of every value.
const format = 1

// encoder writes a value: integers of variable length, and strings after their length.
type encoder struct{ b []byte }

func newEncoder() *encoder { return &encoder{b: append(make([]byte, 0, 256), format)} }

func (e *encoder) int(v int64) { e.b = binary.AppendVarint(e.b, v) }

func (e *encoder) bytes(b []byte) {
	e.int(int64(len(b)))
	e.b = append(e.b, b...)
}

func (e *encoder) string(s string) {
	e.int(int64(len(s)))
	e.b = append(e.b, s...)
}

func (e *encoder) strings(list []string) {
	e.int(int64(len(list)))
	for _, s := range list {
		e.string(s)
	}
}

// decoder reads the values of an encoder. It copies, because bbolt uses the pages again. After an
// error it returns zero values.
type decoder struct {
	b   []byte
	err error
}

// open begins to decode a value, which is empty if it was damaged. An error names its kind.
func open(kind string, value []byte) *decoder {
	d := &decoder{}
	switch {
	case len(value) == 0:
		d.err = boltfile.Damagef("%s does not match its checksums", kind)
	case value[0] != format:
		d.err = boltfile.Damagef("%s has format %d; this version of brim reads format %d", kind, value[0], format)
	default:
		d.b = value[1:]
	}
	return d
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

func (d *decoder) fail() {
	if d.err == nil {
		d.err = boltfile.Damagef("a value ends too early")
	}
	d.b = nil
}

// end returns the error. Bytes that are left over are damage: this format has no further fields.
func (d *decoder) end() error {
	if d.err == nil && len(d.b) > 0 {
		d.err = boltfile.Damagef("%d bytes follow a value", len(d.b))
	}
	return d.err
}

// count reads the number of the elements that follow, or the length of a string. Each element takes
// at least a byte.
func (d *decoder) count() int64 {
	n := d.int()
	if n < 0 || n > int64(len(d.b)) {
		d.fail()
		return 0
	}
	return n
}

func (d *decoder) take() []byte {
	n := d.count()
	b := d.b[:n]
	d.b = d.b[n:]
	return b
}

func (d *decoder) bytes() []byte {
	if b := d.take(); len(b) > 0 {
		return slices.Clone(b)
	}
	return nil
}

func (d *decoder) string() string { return string(d.take()) }

func (d *decoder) strings() (list []string) {
	for range d.count() {
		list = append(list, d.string())
	}
	return list
}

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
	at = d.int()
	return at, d.end()
}

// checkHold checks a hold, all of whose content is in its key.
func checkHold(value []byte) error {
	return open("a hold", value).end()
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

func encodeAccount(a *ledger.Account) *encoder {
	e := newEncoder()
	e.bytes(a.State)
	e.int(a.NextExpiry)
	return e
}

func decodeAccount(name string, value []byte) (ledger.Account, error) {
	d := open("an account", value)
	a := ledger.Account{Key: name, State: d.bytes(), NextExpiry: d.int()}
	return a, d.end()
}

func encodeRequest(r *ledger.Request) *encoder {
	e := newEncoder()
	e.int(r.At)
	e.strings(r.Accounts)
	e.bytes(r.Content)
	e.bytes(r.Answer)
	e.bytes(r.Spend)
	return e
}

func decodeRequest(key, value []byte) (*ledger.Request, error) {
	d := open("a request", value)
	r := &ledger.Request{
		ID: string(key), At: d.int(), Accounts: d.strings(),
		Content: d.bytes(), Answer: d.bytes(), Spend: d.bytes(),
	}
	return r, d.end()
}

func encodeEntry(n *ledger.Entry) *encoder {
	e := newEncoder()
	e.int(n.Dated)
	e.string(n.Kind)
	e.string(n.RequestID)
	e.string(n.SpendID)
	e.string(n.Currency)
	for _, v := range [...]int64{n.SpendAmount, n.Part, n.Amount, n.Used, n.Held, n.Count} {
		e.int(v)
	}
	e.int(int64(len(n.Tags)))
	for _, tag := range slices.Sorted(maps.Keys(n.Tags)) {
		e.string(tag)
		e.string(n.Tags[tag])
	}
	e.strings(n.Refused)
	e.int(int64(len(n.Credited)))
	for _, c := range n.Credited {
		e.string(c.Rule)
		e.int(int64(c.Counts))
		e.int(c.Amount)
	}
	return e
}

// decodeEntry reads an entry. The key ends with its time and its number, and begins with its
// account.
func decodeEntry(key, value []byte) (ledger.Entry, error) {
	d := open("an entry", value)
	end := len(key) - 18
	if d.err != nil || end < 0 {
		d.fail()
		return ledger.Entry{}, d.err
	}
	e := ledger.Entry{Account: string(key[:end]), At: numberAt(key[end+2:]), Seq: numberAt(key[end+10:])}
	e.Dated, e.Kind, e.RequestID, e.SpendID, e.Currency = d.int(), d.string(), d.string(), d.string(), d.string()
	for _, v := range [...]*int64{&e.SpendAmount, &e.Part, &e.Amount, &e.Used, &e.Held, &e.Count} {
		*v = d.int()
	}
	if tags := d.count(); tags > 0 {
		e.Tags = make(map[string]string, tags)
		for range tags {
			tag := d.string()
			e.Tags[tag] = d.string()
		}
	}
	e.Refused = d.strings()
	for range d.count() {
		e.Credited = append(e.Credited, ledger.Credited{Rule: d.string(), Counts: uint64(d.int()), Amount: d.int()})
	}
	return e, d.end()
}
