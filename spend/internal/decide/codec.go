package decide

import (
	"cmp"
	"slices"

	"github.com/brimgo/brim/spend/internal/book"
	"github.com/brimgo/brim/spend/internal/figures"
	"github.com/brimgo/brim/spend/ledger"
)

// format is the first byte of all data that this package gives to a ledger.
// Integers are varints, and strings begin with their length.
const format = 6

func newEncoder() *book.Encoder { return book.NewEncoder(format) }

// stored returns the account in the form that the ledger keeps, once all entries of the decision
// are as they will be stored.
func (a *account) stored() ledger.Account {
	for i := range a.added {
		a.sum = chained(a.sum, &a.added[i])
	}
	acc := ledger.Account{Key: a.key, Due: sooner(sooner(a.due, a.expiresAt()), ending(a.time+a.keepIDs))}
	if a.pruned != minTime {
		acc.Pruned = a.pruned
	}
	rules, state := a.encode()
	acc.Rules = rules
	for _, u := range a.all() {
		if w, ok := u.Watch(a.time); ok && !slices.Contains(acc.Watch, w) {
			acc.Watch = append(acc.Watch, w)
		}
	}
	return sealed(acc, state)
}

// sealed returns an account with a state that is sealed together with all that is stored beside it.
func sealed(acc ledger.Account, state []byte) ledger.Account {
	acc.State = book.Seal(state, besideState(&acc))
	return acc
}

// Resealed returns a stored account of which something beside the state has changed.
func Resealed(acc ledger.Account) ledger.Account { return sealed(acc, book.Unsealed(acc.State)) }

// besideState leaves Watch out: it only tells a ledger to read entries ahead.
func besideState(acc *ledger.Account) uint32 {
	e := book.Scratch()
	e.String(acc.Key)
	e.Int(acc.Pruned)
	e.Int(acc.Due)
	return e.SumUp(book.Sum(0, acc.Rules))
}

// encode returns the two parts in which a ledger stores an account. Rules has everything that most
// decisions leave as it is. Times in state are differences, which are short.
func (a *account) encode() (rules, state []byte) {
	r, e := newEncoder(), newEncoder()
	r.String(a.frozen)
	r.String(a.plan)
	r.String(a.currency)
	r.Int(int64(len(a.mends)))
	for _, m := range a.mends {
		r.Int(m.date)
		r.Int(m.top)
		r.Int(m.seq)
	}
	r.Int(int64(len(a.own)))
	for _, l := range a.own {
		r.String(l.rule)
		r.Bool(l.spends)
		r.Bool(l.set)
		r.Int(l.amount)
		r.Int(l.until)
		r.Int(l.raised)
	}
	r.Int(int64(a.gone))
	e.Int(a.time)
	e.Int(a.seq)
	e.Int(int64(a.sum))
	var ends book.Ends
	a.holdings.encode(e, &ends, a.time)
	figures.Encode(a.all(), r, e, &ends, a.time)
	return r.B, e.B
}

// decode reads the account, and returns the tallies that it has kept, which have no rule yet.
func (a *account) decode(stored *ledger.Account) ([]*figures.Tally, error) {
	const kind = "an account"
	r, d := book.NewDecoder(kind, format, stored.Rules), book.NewSealed(kind, format, stored.State, besideState(stored))
	if d.Err != nil {
		return nil, d.Err
	}
	a.frozen, a.plan, a.currency = r.String(), r.String(), r.String()
	for range r.Count() {
		a.mends = append(a.mends, mend{r.Int(), r.Int(), r.Int()})
	}
	for range r.Count() {
		a.own = append(a.own, ownLimit{rule: r.String(), spends: r.Bool(), set: r.Bool(), amount: r.Int(), until: r.Int(), raised: r.Int()})
	}
	a.gone = uint32(r.Int())
	a.time, a.seq, a.sum = d.Int(), d.Int(), uint32(d.Int())
	var ends book.Ends
	a.holdings.decode(d, &ends, a.time)
	kept := figures.Decode(r, d, &ends, a.seq, a.time)
	return kept, cmp.Or(r.End(), d.End())
}

// encode writes the ends of the holds of an account at a time.
func (h *holdings) encode(e *book.Encoder, ends *book.Ends, now int64) {
	ends.Write(e, len(h.ends), func(i int) book.End {
		x := h.ends[i]
		return book.End{At: x.at, X: x.at - x.since, Y: x.holds}
	})
	if e.Bool(h.next != 0); h.next != 0 {
		e.Int(now - h.next)
	}
}

func (h *holdings) decode(d *book.Decoder, ends *book.Ends, now int64) {
	n := d.Count()
	if n > 0 {
		h.ends = make([]end, n, n+1) // a decision adds one
	}
	ends.Read(n, func(i int, x book.End) { h.ends[i] = end{x.At, x.At - x.X, x.Y} })
	if d.Bool() {
		h.next = now - d.Int()
	}
}

// ends are the kinds that end a hold, by number.
var ends = []string{"", figures.KindCapture, figures.KindVoid, figures.KindExpire, figures.KindCancel}

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
	return book.Seal(e.B, besideSpend(sp.id, sp.accounts))
}

// besideSpend is the checksum of the request of a spend. The keys of its accounts are not part of
// it: an account may get another one.
func besideSpend(id string, accounts []string) uint32 {
	e := book.Scratch()
	e.String(id)
	e.Int(int64(len(accounts)))
	return e.SumUp(0)
}

// spendOf reads the spend that a request began. A request that rules of several accounts declined,
// and that was canceled then, has its spend in the first of them.
func spendOf(r *ledger.Request) (*spend, error) {
	accounts := r.Accounts
	if len(accounts) > 1 && isCanceled(r) {
		canceled, err := decodeCanceled(r)
		if err != nil {
			return nil, err
		}
		if canceled.Before != nil {
			accounts = accounts[:1]
		}
	}
	return decodeSpend(r.ID, accounts, r.Spend)
}

func decodeSpend(id string, accounts []string, b []byte) (*spend, error) {
	d := book.NewSealed("a spend", format, b, besideSpend(id, accounts))
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
