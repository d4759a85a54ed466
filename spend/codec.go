package spend

import (
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/brimgo/brim/spend/ledger"
	"github.com/brimgo/brim/store"
)

// changes returns the decision in the form that the ledger stores.
func (t *attempt) changes(out *Decision) *ledger.Changes {
	// An approved request moves the amount that it asks for, but UpTo may move a part of it.
	c := &ledger.Changes{Declined: !out.Approved || t.moved.Minor < t.act.amount}
	var keys []string
	for _, a := range t.accounts {
		keys = append(keys, a.key)
		c.Accounts = append(c.Accounts, a.stored())
		c.Entries = append(c.Entries, a.added...)
		c.Opened = append(c.Opened, a.opened...)
		c.Closed = append(c.Closed, a.closed...)
	}
	r := ledger.Request{
		ID: t.act.id, At: t.now, Accounts: keys,
		Content: t.act.content, Answer: encodeAnswer(out, keys),
	}
	switch {
	case t.begins:
		r.Spend = t.spend.encode()
	case t.spend != nil:
		c.Spends = append(c.Spends, ledger.Request{ID: t.spend.id, Spend: t.spend.encode()})
	}
	c.Requests = append(c.Requests, r)
	return c
}

// stored returns the account in the form that the ledger keeps.
func (a *account) stored() ledger.Account {
	acc := ledger.Account{Key: a.key, NextExpiry: a.next, State: a.encode()}
	for _, u := range a.tallies {
		if !u.rule.rolls() || u.quiet >= a.time { // without an entry in the window, nothing will leave it
			continue
		}
		if w := (ledger.Watch{After: max(u.edge, u.quiet), Width: u.rule.length.Microseconds()}); !slices.Contains(acc.Watch, w) {
			acc.Watch = append(acc.Watch, w)
		}
	}
	return acc
}

func (a *account) encode() []byte {
	e := newEncoder()
	e.int(a.time)
	e.int(a.seq)
	e.int(a.next)
	e.fixed(a.marks.corrected)
	e.fixed(a.marks.held)
	e.optional(a.pruned)
	e.string(a.frozen)
	e.string(a.unit)
	e.int(int64(len(a.own)))
	for _, l := range a.own {
		e.string(l.rule)
		e.bool(l.set)
		e.int(l.amount)
		e.int(l.until)
		e.int(l.raised)
	}
	e.int(int64(len(a.tallies) + len(a.unknown)))
	for _, tallies := range [...][]*tally{a.tallies, a.unknown} {
		for _, u := range tallies {
			e.string(u.name)
			e.fixed(u.fingerprint)
			e.int(u.countedSeq)
			e.int(u.countedAt)
			e.int(u.reach)
			e.int(u.edge)
			e.int(u.quiet)
			e.int(u.used)
			e.int(u.held)
			e.int(u.paid)
			e.int(u.begun)
			e.values(u.values)
			e.int(u.firstSeq)
			if u.firstSeq == 0 {
				continue // the rule is not Leaky
			}
			e.limit(u.bucket.Limit)
			if e.int(u.until); u.until != 0 {
				e.limit(u.later)
			}
			e.int(u.baseSeq)
			for _, r := range [...]*store.Record{&u.bucket, &u.base} {
				e.float(r.Level)
				e.float(r.Held)
				e.int(r.Time)
			}
		}
	}
	return e.b
}

func (a *account) decode(state []byte) ([]*tally, error) {
	d := newDecoder("an account", state)
	a.time, a.seq, a.next = d.int(), d.int(), d.int()
	a.stands = version{time: a.time, seq: a.seq}
	a.read = marks{corrected: d.fixed(), held: d.fixed()}
	a.marks = a.read
	a.pruned, a.frozen, a.unit = d.optional(), d.string(), d.string()
	for range d.count() {
		a.own = append(a.own, ownLimit{rule: d.string(), set: d.bool(), amount: d.int(), until: d.int(), raised: d.int()})
	}
	var tallies []*tally
	for range d.count() {
		u := &tally{
			name: d.string(), fingerprint: d.fixed(), countedSeq: d.int(), countedAt: d.int(), reach: d.int(),
			edge: d.int(), quiet: d.int(), sums: d.sums(), begun: d.int(), known: true,
		}
		u.values = d.values()
		if u.firstSeq = d.int(); u.firstSeq != 0 {
			limit := d.limit()
			if u.until = d.int(); u.until != 0 {
				u.later = d.limit()
			}
			u.baseSeq, u.bucket, u.base = d.int(), d.record(limit), d.record(limit)
		}
		tallies = append(tallies, u)
	}
	return tallies, d.end()
}

func (sp *spend) encode() []byte {
	e := newEncoder()
	e.string(sp.currency)
	e.int(sp.amount)
	e.int(sp.expires)
	e.int(sp.total)
	e.bool(sp.counted)
	e.string(sp.ended)
	e.int(int64(len(sp.tags)))
	for _, tag := range slices.Sorted(maps.Keys(sp.tags)) {
		e.string(tag)
		e.string(sp.tags[tag])
	}
	e.int(int64(len(sp.parts)))
	for _, p := range sp.parts {
		e.int(p.held)
		e.int(p.taken)
		e.int(p.refunded)
		before := int64(0)
		for i, seq := range p.seqs {
			e.int(seq)
			e.int(p.dates[i] - before) // the dates are mostly equal
			before = p.dates[i]
		}
	}
	return e.b
}

func decodeSpend(id string, accounts []string, b []byte) (*spend, error) {
	d := newDecoder("a spend", b)
	sp := &spend{
		id: id, accounts: accounts,
		currency: d.string(), amount: d.int(), expires: d.int(), total: d.int(), counted: d.bool(), ended: d.string(),
	}
	if n := d.count(); n > 0 {
		sp.tags = make(map[string]string, n)
		for range n {
			tag := d.string()
			sp.tags[tag] = d.string()
		}
	}
	for range d.count() {
		p := part{held: d.int(), taken: d.int(), refunded: d.int()}
		date := int64(0)
		for range accounts {
			p.seqs = append(p.seqs, d.int())
			date += d.int()
			p.dates = append(p.dates, date)
		}
		sp.parts = append(sp.parts, p)
	}
	if len(accounts) == 0 || len(sp.parts) == 0 {
		d.damaged("a spend has no account or no amount")
	}
	return sp, d.end()
}

// encodeAnswer returns a decision in the form that the ledger keeps, for a
// request that is sent again.
func encodeAnswer(out *Decision, keys []string) []byte {
	e := newEncoder()
	e.bool(out.Approved)
	e.int(out.At.UnixMicro())
	e.int(int64(len(out.Remaining)))
	currency := "" // all amounts of money have the same
	for _, u := range out.Remaining {
		if u.Limit.Currency != "" {
			currency = u.Limit.Currency
		}
	}
	e.string(currency)
	e.int(out.Amount.Minor)
	e.string(out.Amount.Currency)
	for _, u := range out.Remaining {
		at := slices.IndexFunc(keys, func(key string) bool { return accountOf(key) == u.Account })
		e.int(int64(at))
		e.string(u.Rule)
		e.string(u.Tag)
		if u.Tag != "" {
			e.string(u.Value)
		}
		e.bool(u.Limit.Currency == "")
		for _, m := range [...]Money{u.Limit, u.Used, u.Held, u.Remaining} {
			e.int(m.Minor)
		}
		grows := int64(minTime)
		if !u.GrowsAt.IsZero() {
			grows = u.GrowsAt.UnixMicro()
		}
		e.optional(grows)
	}
	e.int(int64(len(out.Declines)))
	for _, d := range out.Declines {
		if d.Frozen != "" {
			at := slices.IndexFunc(keys, func(key string) bool { return accountOf(key) == d.Account })
			e.int(int64(-1 - at))
			e.string(d.Frozen)
			continue
		}
		at := slices.IndexFunc(out.Remaining, func(u Usage) bool { return u.Account == d.Account && u.Rule == d.Rule })
		e.int(int64(at))
		e.int(int64(d.RetryAfter))
		e.bool(d.AtLeast)
	}
	if len(out.Declines) > 0 {
		e.int(int64(out.RetryAfter))
	}
	return e.b
}

func decodeAnswer(r *ledger.Request) (Decision, error) {
	d := newDecoder("an answer", r.Answer)
	out := Decision{Approved: d.bool(), At: time.UnixMicro(d.int()).UTC()}
	n := d.count()
	currency := d.string()
	out.Amount = Money{d.int(), d.string()}
	for range n {
		var u Usage
		if i := d.int(); i >= 0 && i < int64(len(r.Accounts)) {
			u.Account = accountOf(r.Accounts[i])
		} else {
			d.damaged("an answer names account %d of %d", i, len(r.Accounts))
		}
		u.Rule = d.string()
		if u.Tag = d.string(); u.Tag != "" {
			u.Value = d.string()
		}
		c := currency
		if d.bool() {
			c = ""
		}
		for _, m := range [...]*Money{&u.Limit, &u.Used, &u.Held, &u.Remaining} {
			*m = Money{d.int(), c}
		}
		if grows := d.optional(); grows != minTime {
			u.GrowsAt = time.UnixMicro(grows).UTC()
		}
		out.Remaining = append(out.Remaining, u)
	}
	for range d.count() {
		i := d.int()
		if at := -1 - i; at >= 0 && at < int64(len(r.Accounts)) {
			frozen := Decline{Usage: Usage{Account: accountOf(r.Accounts[at])}, RetryAfter: store.Never, Frozen: d.string()}
			out.Declines = append(out.Declines, frozen)
			continue
		}
		wait, atLeast := time.Duration(d.int()), d.bool()
		if i < 0 || i >= int64(len(out.Remaining)) {
			d.damaged("an answer names rule %d of %d", i, len(out.Remaining))
			break
		}
		out.Declines = append(out.Declines, Decline{Usage: out.Remaining[i], RetryAfter: wait, AtLeast: atLeast})
	}
	if len(out.Declines) > 0 {
		out.RetryAfter = time.Duration(d.int())
	}
	return out, d.end()
}

// format is the first byte of all data that this package gives to a ledger.
// Integers are varints, and strings begin with their length.
const format = 2

type encoder struct{ b []byte }

// newEncoder has room for most values, so that they are not copied while they grow.
func newEncoder() *encoder { return &encoder{b: append(make([]byte, 0, 192), format)} }

func (e *encoder) int(v int64)     { e.b = binary.AppendVarint(e.b, v) }
func (e *encoder) float(v float64) { e.b = binary.BigEndian.AppendUint64(e.b, math.Float64bits(v)) }
func (e *encoder) fixed(v uint64)  { e.b = binary.BigEndian.AppendUint64(e.b, v) }
func (e *encoder) limit(l store.Limit) {
	e.float(l.Capacity)
	e.float(l.LeakRate)
}

// optional writes a time, or minTime for none.
func (e *encoder) optional(t int64) {
	if e.bool(t != minTime); t != minTime {
		e.int(t)
	}
}

func (e *encoder) string(s string) {
	e.int(int64(len(s)))
	e.b = append(e.b, s...)
}

func (e *encoder) bool(v bool) {
	n := byte(0)
	if v {
		n = 1
	}
	e.b = append(e.b, n)
}

// decoder reads the output of an encoder. After the first value that is missing
// it returns zeros, and err is set.
type decoder struct {
	b   []byte
	err error
}

func newDecoder(name string, b []byte) *decoder {
	d := &decoder{b: b}
	switch {
	case len(b) == 0:
		d.fail()
	case b[0] != format:
		d.err = fmt.Errorf("spend: %w: %s has format %d; this version of brim reads format %d",
			store.ErrCorrupt, name, b[0], format)
		d.b = nil
	default:
		d.b = b[1:]
	}
	return d
}

func (d *decoder) fail() { d.damaged("a stored value ends too early") }

// damaged sets err, unless it is set.
func (d *decoder) damaged(format string, args ...any) {
	if d.err == nil {
		d.err = fmt.Errorf("spend: %w: "+format, append([]any{store.ErrCorrupt}, args...)...)
	}
	d.b = nil
}

// end returns err. Bytes that are left over are damage: this format has no further values.
func (d *decoder) end() error {
	if len(d.b) > 0 {
		d.damaged("%d bytes follow a stored value", len(d.b))
	}
	return d.err
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

func (d *decoder) fixed() uint64 {
	if len(d.b) < 8 {
		d.fail()
		return 0
	}
	v := binary.BigEndian.Uint64(d.b)
	d.b = d.b[8:]
	return v
}

func (d *decoder) float() float64 { return math.Float64frombits(d.fixed()) }

// optional reads a time, or minTime for none.
func (d *decoder) optional() int64 {
	if d.bool() {
		return d.int()
	}
	return minTime
}

// limit reads the limit of a bucket. Its capacity may be 0.
func (d *decoder) limit() store.Limit {
	l := store.Limit{Capacity: d.float(), LeakRate: d.float()}
	if !(l.Capacity >= 0 && l.Capacity <= math.MaxFloat64 && l.LeakRate > 0 && l.LeakRate <= math.MaxFloat64) {
		d.damaged("a bucket has a capacity of %v and leaks %v a second", l.Capacity, l.LeakRate)
	}
	return l
}

// record reads the level, the held units and the time of a bucket.
func (d *decoder) record(limit store.Limit) store.Record {
	r := store.Record{Level: d.float(), Held: d.float(), Time: d.int(), Limit: limit}
	// A comparison with NaN is false.
	if l, h := r.Level, r.Held; !(l >= 0 && h >= 0 && l <= math.MaxFloat64 && h <= math.MaxFloat64) {
		d.damaged("a bucket holds %v units and reserves %v", l, h)
	}
	return r
}

func (d *decoder) string() string {
	n := d.int()
	if n < 0 || n > int64(len(d.b)) {
		d.fail()
		return ""
	}
	s := string(d.b[:n])
	d.b = d.b[n:]
	return s
}

func (d *decoder) bool() bool {
	if len(d.b) == 0 {
		d.fail()
		return false
	}
	v := d.b[0]
	d.b = d.b[1:]
	if v > 1 {
		d.damaged("a stored truth value is %d", v)
	}
	return v == 1
}

// count reads the number of the elements that follow. Each element takes at
// least a byte, so a number above the number of the remaining bytes is damage.
func (d *decoder) count() int {
	n := d.int()
	if n < 0 || n > int64(len(d.b)) {
		d.fail()
		return 0
	}
	return int(n)
}
