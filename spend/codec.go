package spend

import (
	"math"
	"slices"
	"time"

	"github.com/brimgo/brim/spend/internal/book"
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
	e.Int(a.time)
	e.Int(a.seq)
	e.Int(a.next)
	e.optional(a.pruned)
	e.Int(int64(len(a.mends)))
	for _, m := range a.mends {
		e.Int(m.date)
		e.Int(m.top)
		e.Int(m.seq)
	}
	e.String(a.frozen)
	e.String(a.unit)
	e.Int(int64(len(a.ends)))
	before := a.time
	for _, x := range a.ends {
		e.Int(x.at - before)
		e.Int(a.time - x.since)
		e.Int(x.holds)
		before = x.at
	}
	e.Int(int64(len(a.own)))
	for _, l := range a.own {
		e.String(l.rule)
		e.Bool(l.set)
		e.Int(l.amount)
		e.Int(l.until)
		e.Int(l.raised)
	}
	e.Int(int64(len(a.tallies) + len(a.unknown)))
	for _, tallies := range [...][]*tally{a.tallies, a.unknown} {
		for _, u := range tallies {
			e.String(u.name)
			e.Fixed(u.fingerprint)
			e.Int(u.countedSeq)
			e.Int(u.countedAt)
			e.Int(u.reach)
			e.Int(u.edge)
			e.Int(u.quiet)
			e.sums(&u.sums)
			e.Int(u.begun)
			e.values(u.values)
			e.Int(u.firstSeq)
			if u.firstSeq == 0 {
				continue // the rule is not Leaky
			}
			e.limit(u.bucket.Limit)
			if e.Int(u.until); u.until != 0 {
				e.limit(u.later)
			}
			e.Int(u.baseSeq)
			e.open(u.baseOpen)
			for _, r := range [...]*store.Record{&u.bucket, &u.base} {
				e.Float(r.Level)
				e.Int(r.Time)
			}
		}
	}
	return e.B
}

func (a *account) decode(state []byte) ([]*tally, error) {
	d := newDecoder("an account", state)
	a.time, a.seq, a.next = d.Int(), d.Int(), d.Int()
	a.pruned = d.optional()
	for range d.Count() {
		a.mends = append(a.mends, mend{d.Int(), d.Int(), d.Int()})
	}
	a.frozen, a.unit = d.String(), d.String()
	before := a.time
	for range d.Count() {
		before += d.Int()
		a.ends = append(a.ends, end{before, a.time - d.Int(), d.Int()})
	}
	for range d.Count() {
		a.own = append(a.own, ownLimit{rule: d.String(), set: d.Bool(), amount: d.Int(), until: d.Int(), raised: d.Int()})
	}
	var tallies []*tally
	for range d.Count() {
		u := &tally{
			name: d.String(), fingerprint: d.Fixed(), countedSeq: d.Int(), countedAt: d.Int(), reach: d.Int(),
			edge: d.Int(), quiet: d.Int(), sums: d.sums(), begun: d.Int(),
		}
		u.known = u.countedSeq != anew
		u.values = d.values()
		if u.firstSeq = d.Int(); u.firstSeq != 0 {
			limit := d.limit()
			if u.until = d.Int(); u.until != 0 {
				u.later = d.limit()
			}
			u.baseSeq, u.baseOpen, u.bucket, u.base = d.Int(), d.open(), d.record(limit), d.record(limit)
			u.bucket.Held = float64(u.held)
		}
		tallies = append(tallies, u)
	}
	return tallies, d.End()
}

func (sp *spend) encode() []byte {
	e := newEncoder()
	e.String(sp.currency)
	e.Int(sp.amount)
	e.Int(sp.expires)
	e.Int(sp.total)
	e.Bool(sp.counted)
	e.Bool(sp.pending)
	e.String(sp.ended)
	e.Map(sp.tags)
	e.Int(int64(len(sp.parts)))
	for _, p := range sp.parts {
		e.Int(p.held)
		e.Int(p.taken)
		e.Int(p.refunded)
		before := int64(0)
		for i, seq := range p.seqs {
			e.Int(seq)
			e.Int(p.dates[i] - before) // the dates are mostly equal
			before = p.dates[i]
		}
	}
	return e.B
}

func decodeSpend(id string, accounts []string, b []byte) (*spend, error) {
	d := newDecoder("a spend", b)
	sp := &spend{
		id: id, accounts: accounts,
		currency: d.String(), amount: d.Int(), expires: d.Int(), total: d.Int(), counted: d.Bool(), pending: d.Bool(), ended: d.String(),
	}
	sp.tags = d.Map()
	for range d.Count() {
		p := part{held: d.Int(), taken: d.Int(), refunded: d.Int()}
		date := int64(0)
		for range accounts {
			p.seqs = append(p.seqs, d.Int())
			date += d.Int()
			p.dates = append(p.dates, date)
		}
		sp.parts = append(sp.parts, p)
	}
	if len(accounts) == 0 || len(sp.parts) == 0 {
		d.Damaged("a spend has no account or no amount")
	}
	return sp, d.End()
}

// encodeAnswer returns a decision in the form that the ledger keeps, for a
// request that is sent again.
func encodeAnswer(out *Decision, keys []string) []byte {
	e := newEncoder()
	e.Bool(out.Approved)
	e.Int(out.At.UnixMicro())
	e.Int(int64(len(out.Remaining)))
	currency := "" // all amounts of money have the same
	for _, u := range out.Remaining {
		if u.Limit.Currency != "" {
			currency = u.Limit.Currency
		}
	}
	e.String(currency)
	e.Int(out.Amount.Minor)
	e.String(out.Amount.Currency)
	for _, u := range out.Remaining {
		at := slices.IndexFunc(keys, func(key string) bool { return accountOf(key) == u.Account })
		e.Int(int64(at))
		e.String(u.Rule)
		e.String(u.Tag)
		if u.Tag != "" {
			e.String(u.Value)
		}
		e.Bool(u.Limit.Currency == "")
		for _, m := range [...]Money{u.Limit, u.Used, u.Held, u.Remaining} {
			e.Int(m.Minor)
		}
		grows := int64(minTime)
		if !u.GrowsAt.IsZero() {
			grows = u.GrowsAt.UnixMicro()
		}
		e.optional(grows)
	}
	e.Int(int64(len(out.Declines)))
	for _, d := range out.Declines {
		if d.Frozen != "" {
			at := slices.IndexFunc(keys, func(key string) bool { return accountOf(key) == d.Account })
			e.Int(int64(-1 - at))
			e.String(d.Frozen)
			continue
		}
		at := slices.IndexFunc(out.Remaining, func(u Usage) bool { return u.Account == d.Account && u.Rule == d.Rule })
		e.Int(int64(at))
		e.Int(int64(d.RetryAfter))
		e.Bool(d.AtLeast)
	}
	if len(out.Declines) > 0 {
		e.Int(int64(out.RetryAfter))
	}
	return e.B
}

func decodeAnswer(r *ledger.Request) (Decision, error) {
	d := newDecoder("an answer", r.Answer)
	out := Decision{Approved: d.Bool(), At: time.UnixMicro(d.Int()).UTC()}
	n := d.Count()
	currency := d.String()
	out.Amount = Money{d.Int(), d.String()}
	for range n {
		var u Usage
		if i := d.Int(); i >= 0 && i < int64(len(r.Accounts)) {
			u.Account = accountOf(r.Accounts[i])
		} else {
			d.Damaged("an answer names account %d of %d", i, len(r.Accounts))
		}
		u.Rule = d.String()
		if u.Tag = d.String(); u.Tag != "" {
			u.Value = d.String()
		}
		c := currency
		if d.Bool() {
			c = ""
		}
		for _, m := range [...]*Money{&u.Limit, &u.Used, &u.Held, &u.Remaining} {
			*m = Money{d.Int(), c}
		}
		if grows := d.optional(); grows != minTime {
			u.GrowsAt = time.UnixMicro(grows).UTC()
		}
		out.Remaining = append(out.Remaining, u)
	}
	for range d.Count() {
		i := d.Int()
		if at := -1 - i; at >= 0 && at < int64(len(r.Accounts)) {
			frozen := Decline{Usage: Usage{Account: accountOf(r.Accounts[at])}, RetryAfter: store.Never, Frozen: d.String()}
			out.Declines = append(out.Declines, frozen)
			continue
		}
		wait, atLeast := time.Duration(d.Int()), d.Bool()
		if i < 0 || i >= int64(len(out.Remaining)) {
			d.Damaged("an answer names rule %d of %d", i, len(out.Remaining))
			break
		}
		out.Declines = append(out.Declines, Decline{Usage: out.Remaining[i], RetryAfter: wait, AtLeast: atLeast})
	}
	if len(out.Declines) > 0 {
		out.RetryAfter = time.Duration(d.Int())
	}
	return out, d.End()
}

// format is the first byte of all data that this package gives to a ledger.
// Integers are varints, and strings begin with their length.
const format = 3

type encoder struct{ *book.Encoder }

func newEncoder() encoder { return encoder{book.NewEncoder(format)} }

func (e encoder) limit(l store.Limit) {
	e.Float(l.Capacity)
	e.Float(l.LeakRate)
}

// optional writes a time, or minTime for none.
func (e encoder) optional(t int64) {
	if e.Bool(t != minTime); t != minTime {
		e.Int(t)
	}
}

type decoder struct{ *book.Decoder }

func newDecoder(kind string, b []byte) decoder { return decoder{book.NewDecoder(kind, format, b)} }

// optional reads a time, or minTime for none.
func (d decoder) optional() int64 {
	if d.Bool() {
		return d.Int()
	}
	return minTime
}

// limit reads the limit of a bucket. Its capacity may be 0.
func (d decoder) limit() store.Limit {
	l := store.Limit{Capacity: d.Float(), LeakRate: d.Float()}
	if !(l.Capacity >= 0 && l.Capacity <= math.MaxFloat64 && l.LeakRate > 0 && l.LeakRate <= math.MaxFloat64) {
		d.Damaged("a bucket has a capacity of %v and leaks %v a second", l.Capacity, l.LeakRate)
	}
	return l
}

// record reads the level and the time of a bucket. The sums have its held units.
func (d decoder) record(limit store.Limit) store.Record {
	r := store.Record{Level: d.Float(), Time: d.Int(), Limit: limit}
	if !(r.Level >= 0 && r.Level <= math.MaxFloat64) { // a comparison with NaN is false
		d.Damaged("a bucket holds %v units", r.Level)
	}
	return r
}
