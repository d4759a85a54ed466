package spend

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/brimgo/brim/spend/internal/book"
	"github.com/brimgo/brim/spend/ledger"
	"github.com/brimgo/brim/store"
)

// changes returns the decision in the form that the ledger stores.
func (t *attempt) changes(out *Decision) *ledger.Changes {
	c := &ledger.Changes{}
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
	case t.act.kind == kindCancel:
		r.Content, r.Spend = canceledContent, t.spend.encode()
	case t.begins:
		r.Spend = t.spend.encode()
	case t.spend != nil:
		c.Spends = append(c.Spends, ledger.Request{ID: t.spend.id, Spend: t.spend.encode()})
	}
	if t.prior != nil {
		c.Replaced = append(c.Replaced, r)
	} else {
		c.Requests = append(c.Requests, r)
	}
	return c
}

// stored returns the account in the form that the ledger keeps.
func (a *account) stored() ledger.Account {
	acc := ledger.Account{Key: a.key, Due: sooner(sooner(a.due, a.expiresAt()), ending(a.time+a.keepIDs))}
	if a.pruned != minTime {
		acc.Pruned = a.pruned
	}
	acc.Rules, acc.State = a.encode()
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

// encode returns the two parts in which a ledger stores an account. Rules has everything that most
// decisions leave as it is. Times in state are differences, which are short.
func (a *account) encode() (rules, state []byte) {
	r, e := newEncoder(), newEncoder()
	r.String(a.frozen)
	r.String(a.plan)
	r.String(a.unit)
	r.Int(int64(len(a.mends)))
	for _, m := range a.mends {
		r.Int(m.date)
		r.Int(m.top)
		r.Int(m.seq)
	}
	r.Int(int64(len(a.own)))
	for _, l := range a.own {
		r.String(l.rule)
		r.Bool(l.set)
		r.Int(l.amount)
		r.Int(l.until)
		r.Int(l.raised)
	}
	e.Int(a.time)
	e.Int(a.seq)
	first := a.time // of the ends
	e.Int(int64(len(a.ends)))
	for i, x := range a.ends {
		before := a.time
		if i > 0 {
			before = a.ends[i-1].at
		} else {
			first = x.at
		}
		e.Int(x.at - before)
		e.Int(a.time - x.since)
		e.Int(x.holds)
	}
	if e.Bool(a.next != 0); a.next != 0 {
		e.Int(first - a.next)
	}
	r.Int(int64(len(a.tallies) + len(a.unknown)))
	for _, tallies := range [...][]*tally{a.tallies, a.unknown} {
		for _, u := range tallies {
			r.String(u.name)
			r.Fixed(u.fingerprint)
			r.Int(u.reach)
			r.Int(u.begun)
			r.Int(u.firstSeq)
			r.Int(u.limit)
			e.Int(a.seq - u.countedSeq)
			e.Int(a.time - u.countedAt)
			rolls := u.edge == u.countedAt-u.reach
			if r.Bool(rolls); !rolls {
				r.Int(u.edge)
			}
			e.Int(u.quiet - u.edge)
			e.sums(&u.sums, first)
			e.values(u.values, first)
			if !u.based() {
				continue
			}
			r.Int(u.baseSeq)
			r.sums(&u.opening, 0)
			r.values(u.openValues, 0)
			if u.firstSeq == 0 {
				continue // the rule is not Leaky
			}
			r.limit(u.bucket.Limit)
			if r.Int(u.until); u.until != 0 {
				r.limit(u.later)
			}
			r.record(&u.base)
			e.record(&u.bucket)
		}
	}
	return r.B, e.B
}

func (a *account) decode(rules, state []byte) ([]*tally, error) {
	r, d := newDecoder("an account", rules), newDecoder("an account", state)
	a.frozen, a.plan, a.unit = r.String(), r.String(), r.String()
	for range r.Count() {
		a.mends = append(a.mends, mend{r.Int(), r.Int(), r.Int()})
	}
	for range r.Count() {
		a.own = append(a.own, ownLimit{rule: r.String(), set: r.Bool(), amount: r.Int(), until: r.Int(), raised: r.Int()})
	}
	a.time, a.seq = d.Int(), d.Int()
	first := a.time
	before := a.time
	for range d.Count() {
		before += d.Int()
		a.ends = append(a.ends, end{before, a.time - d.Int(), d.Int()})
		first = a.ends[0].at
	}
	if d.Bool() {
		a.next = first - d.Int()
	}
	var tallies []*tally
	for range r.Count() {
		u := &tally{
			name: r.String(), fingerprint: r.Fixed(), reach: r.Int(), begun: r.Int(), firstSeq: r.Int(), limit: r.Int(),
			countedSeq: a.seq - d.Int(), countedAt: a.time - d.Int(),
		}
		u.known = u.countedSeq != anew
		if u.edge = u.countedAt - u.reach; !r.Bool() {
			u.edge = r.Int()
		}
		u.quiet, u.sums, u.values = u.edge+d.Int(), d.sums(first), d.values(first)
		if u.based() {
			u.baseSeq, u.opening, u.openValues = r.Int(), r.sums(0), r.values(0)
		}
		if u.firstSeq != 0 {
			limit := r.limit()
			if u.until = r.Int(); u.until != 0 {
				u.later = r.limit()
			}
			u.base, u.bucket = r.record(limit), d.record(limit)
			u.bucket.Held = float64(u.held)
		}
		tallies = append(tallies, u)
	}
	return tallies, cmp.Or(r.End(), d.End())
}

// ends are the kinds that end a hold, by number.
var ends = []string{"", kindCapture, kindVoid, kindExpire, kindCancel}

func (sp *spend) encode() []byte {
	e := newEncoder()
	e.String(sp.currency)
	e.Int(sp.amount)
	e.Int(sp.expires)
	e.Int(sp.total - sp.amount)
	e.Bool(sp.counted)
	e.Bool(sp.pending)
	e.Bool(sp.spends)
	e.Int(int64(slices.Index(ends, sp.ended)))
	e.Map(sp.tags)
	e.Int(int64(len(sp.parts)))
	for _, p := range sp.parts {
		e.Int(p.held)
		e.Int(p.taken)
		e.Int(p.refunded)
		before := sp.expires
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
		currency: d.String(), amount: d.Int(), expires: d.Int(), total: d.Int(), counted: d.Bool(), pending: d.Bool(), spends: d.Bool(),
	}
	sp.total += sp.amount
	if n := d.Int(); n >= 0 && n < int64(len(ends)) {
		sp.ended = ends[n]
	} else {
		d.Damaged("a hold has the end %d", n)
	}
	sp.tags = d.Map()
	for range d.Count() {
		p := part{held: d.Int(), taken: d.Int(), refunded: d.Int()}
		date := sp.expires
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

// The parts of a usage in an answer, beside its amounts.
const (
	isCount    = 1 << iota // its amounts are numbers of spends
	hasTag                 // it has a tag and a value
	hasGrows               // it has a GrowsAt
	hasRest                // Remaining is not the rest of the limit
	newAccount             // it is of another account than the usage before
	newRule                // no usage before has the name of its rule
)

// encodeAnswer returns a decision in the form that the ledger keeps, for a
// request that is sent again. The request has the time of the decision.
func encodeAnswer(out *Decision, keys []string) []byte {
	e := newEncoder()
	at := out.At.UnixMicro()
	of := func(a Account) int64 {
		return int64(slices.IndexFunc(keys, func(key string) bool { return accountOf(key) == a }))
	}
	e.Bool(out.Approved)
	currency := out.Amount.Currency
	for _, u := range out.Remaining {
		currency = cmp.Or(currency, u.Limit.Currency) // all amounts of money have the same
	}
	e.String(currency)
	e.Int(out.Amount.Minor)
	e.Bool(out.Amount == Money{})
	e.Int(int64(len(out.Remaining)))
	account := int64(0)
	var names []string
	for _, u := range out.Remaining {
		name := slices.Index(names, u.Rule)
		var has int64
		set := func(flag int64, is bool) {
			if is {
				has |= flag
			}
		}
		set(isCount, u.Limit.Currency == "")
		set(hasTag, u.Tag != "")
		set(hasGrows, !u.GrowsAt.IsZero())
		set(hasRest, u.Remaining.Minor != u.Limit.Minor-u.Used.Minor-u.Held.Minor)
		set(newAccount, of(u.Account) != account)
		set(newRule, name < 0)
		e.Int(has)
		if has&newAccount != 0 {
			account = of(u.Account)
			e.Int(account)
		}
		if has&newRule != 0 {
			names = append(names, u.Rule)
			e.String(u.Rule)
		} else {
			e.Int(int64(name))
		}
		if has&hasTag != 0 {
			e.String(u.Tag)
			e.String(u.Value)
		}
		for _, m := range [...]Money{u.Limit, u.Used, u.Held} {
			e.Int(m.Minor)
		}
		if has&hasRest != 0 {
			e.Int(u.Remaining.Minor)
		}
		if has&hasGrows != 0 {
			e.Int(u.GrowsAt.UnixMicro() - at)
		}
	}
	e.Int(int64(len(out.Declines)))
	for _, d := range out.Declines {
		if d.Frozen != "" {
			e.Int(-1 - of(d.Account))
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
		e.Bool(out.AtLeast)
	}
	e.Int(int64(len(out.Crossed)))
	for _, c := range out.Crossed {
		e.Int(int64(slices.Index(out.Remaining, c.Usage)))
		e.Int(int64(c.Share))
	}
	return e.B
}

func decodeAnswer(r *ledger.Request) (Decision, error) {
	d := newDecoder("an answer", r.Answer)
	of := func(i int64) (a Account) {
		if i >= 0 && i < int64(len(r.Accounts)) {
			return accountOf(r.Accounts[i])
		}
		d.Damaged("an answer names account %d of %d", i, len(r.Accounts))
		return a
	}
	out := Decision{Approved: d.Bool(), At: time.UnixMicro(r.At).UTC()}
	currency := d.String()
	if out.Amount = (Money{d.Int(), currency}); d.Bool() {
		out.Amount = Money{}
	}
	account := int64(0)
	var names []string
	for range d.Count() {
		var u Usage
		has := d.Int()
		if has < 0 || has >= 2*newRule {
			d.Damaged("an answer has a rule with %#x", has)
		}
		if has&newAccount != 0 {
			account = d.Int()
		}
		u.Account = of(account)
		if has&newRule != 0 {
			u.Rule = d.String()
			names = append(names, u.Rule)
		} else if i := d.Int(); i >= 0 && i < int64(len(names)) {
			u.Rule = names[i]
		} else {
			d.Damaged("an answer repeats rule %d of %d", i, len(names))
		}
		if has&hasTag != 0 {
			u.Tag, u.Value = d.String(), d.String()
		}
		c := currency
		if has&isCount != 0 {
			c = ""
		}
		u.Limit, u.Used, u.Held = Money{d.Int(), c}, Money{d.Int(), c}, Money{d.Int(), c}
		if u.Remaining = (Money{u.Limit.Minor - u.Used.Minor - u.Held.Minor, c}); has&hasRest != 0 {
			u.Remaining.Minor = d.Int()
		}
		if has&hasGrows != 0 {
			u.GrowsAt = time.UnixMicro(r.At + d.Int()).UTC()
		}
		out.Remaining = append(out.Remaining, u)
	}
	for range d.Count() {
		i := d.Int()
		if i < 0 {
			frozen := Decline{Usage: Usage{Account: of(-1 - i)}, RetryAfter: store.Never, Frozen: d.String()}
			out.Declines = append(out.Declines, frozen)
			continue
		}
		wait, atLeast := time.Duration(d.Int()), d.Bool()
		if i >= int64(len(out.Remaining)) {
			d.Damaged("an answer names rule %d of %d", i, len(out.Remaining))
			break
		}
		out.Declines = append(out.Declines, Decline{Usage: out.Remaining[i], RetryAfter: wait, AtLeast: atLeast})
	}
	if len(out.Declines) > 0 {
		out.RetryAfter, out.AtLeast = time.Duration(d.Int()), d.Bool()
	}
	for range d.Count() {
		i, share := d.Int(), int(d.Int())
		if i < 0 || i >= int64(len(out.Remaining)) {
			d.Damaged("an answer names rule %d of %d", i, len(out.Remaining))
			break
		}
		out.Crossed = append(out.Crossed, Crossing{out.Remaining[i], share})
	}
	return out, d.End()
}

// format is the first byte of all data that this package gives to a ledger.
// Integers are varints, and strings begin with their length.
const format = 4

type encoder struct{ *book.Encoder }

func newEncoder() encoder { return encoder{book.NewEncoder(format)} }

func (e encoder) limit(l store.Limit) {
	e.Float(l.Capacity)
	e.Float(l.LeakRate)
}

// record writes the level and the time of a bucket.
func (e encoder) record(r *store.Record) {
	e.Float(r.Level)
	e.Int(r.Time)
}

type decoder struct{ *book.Decoder }

func newDecoder(kind string, b []byte) decoder { return decoder{book.NewDecoder(kind, format, b)} }

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
