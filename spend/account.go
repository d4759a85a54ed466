package spend

import (
	"fmt"
	"math"
	"slices"

	"github.com/brimgo/brim/spend/ledger"
	"github.com/brimgo/brim/store"
)

// account is the working set of an account while a decision is made: what the rules need to know of its entries without
// reading them again.
type account struct {
	key    string
	budget *budget
	snap   ledger.Snapshot
	time   int64 // of the last decision, then of this one
	seq    int64 // number of the last entry
	next   int64 // no later than the first expiry of an open hold; 0 where there is none
	rules  []*usage
	stale  []*usage       // of rules that the budget does not have (any more): others may have them
	added  []ledger.Entry // by this decision
	opened []ledger.Hold
	closed []ledger.Hold
}

// load reads an account. One that is not there is empty.
func (b *budget) load(snap ledger.Snapshot, key string) (*account, error) {
	stored, err := snap.Account(key)
	if err != nil {
		return nil, err
	}
	a := &account{key: key, budget: b, snap: snap}
	var known []*usage
	if stored.State != nil {
		if known, err = a.decode(stored.State); err != nil {
			return nil, err
		}
	}
	for i := range b.Rules {
		r := &b.Rules[i]
		at := slices.IndexFunc(known, func(u *usage) bool { return u.name == r.name && u.print == b.prints[i] })
		if at < 0 {
			a.rules = append(a.rules, newUsage(r, b.prints[i]))
			continue
		}
		known[at].rule = r
		a.rules = append(a.rules, known[at])
		known = slices.Delete(known, at, at+1)
	}
	a.stale = known
	return a, nil
}

func (a *account) decode(state []byte) ([]*usage, error) {
	d := newDecoder("an account", state)
	a.time, a.seq, a.next = d.int(), d.int(), d.int()
	var rules []*usage
	for range d.count() {
		rules = append(rules, &usage{
			name: d.string(), print: d.fixed(), upto: d.int(), last: d.int(),
			edge: d.int(), used: d.int(), held: d.int(), since: d.int(),
			bucket: store.Record{Level: d.float(), Held: d.float(), Time: d.int()},
			known:  true,
		})
	}
	return rules, d.err
}

func (a *account) encode() []byte {
	e := newEncoder()
	e.int(a.time)
	e.int(a.seq)
	e.int(a.next)
	e.int(int64(len(a.rules) + len(a.stale)))
	for _, rules := range [...][]*usage{a.rules, a.stale} {
		for _, u := range rules {
			e.string(u.name)
			e.fixed(u.print)
			e.int(u.upto)
			e.int(u.last)
			e.int(u.edge)
			e.int(u.used)
			e.int(u.held)
			e.int(u.since)
			e.float(u.bucket.Level)
			e.float(u.bucket.Held)
			e.int(u.bucket.Time)
		}
	}
	return e.b
}

// settle brings the account to now: rules catch up with what they have missed, entries leave their windows, and holds that
// have expired end. It changes nothing that is stored until the decision is.
func (a *account) settle(now int64) error {
	last := a.time
	a.time = now
	for _, u := range a.rules {
		if err := u.settle(a, last, now); err != nil {
			return err
		}
	}
	// A rule that nobody has used for so long is gone for good: it would count anew if it came back.
	a.stale = slices.DeleteFunc(a.stale, func(u *usage) bool { return now-u.last > DefaultKeepIDs.Microseconds() })
	if a.next == 0 || a.next > now {
		return nil
	}
	held, next, err := a.snap.Holds(a.key, now)
	if err != nil {
		return err
	}
	for _, r := range held {
		sp, err := decodeSpend(r.ID, r.Accounts, r.Spend)
		if err != nil {
			return err
		}
		if err := sp.release(a, kindExpire, sp.id); err != nil {
			return err
		}
		a.closed = append(a.closed, ledger.Hold{Account: a.key, Expires: sp.expires, SpendID: sp.id})
	}
	a.next = next
	return nil
}

// add appends an entry and lets the rules count it. What the entry does not say follows from the account.
func (a *account) add(e ledger.Entry) (seq int64, err error) {
	a.seq++
	e.Account, e.Seq, e.At, e.Currency = a.key, a.seq, a.time, a.budget.Currency
	if e.Part == 0 {
		e.Part, e.Dated = e.Seq, e.At
	}
	a.added = append(a.added, e)
	for _, u := range a.rules {
		if err := u.count(&e); err != nil {
			return 0, err
		}
	}
	return e.Seq, nil
}

func (a *account) open(expires int64, spend string) {
	a.opened = append(a.opened, ledger.Hold{Account: a.key, Expires: expires, SpendID: spend})
	if a.next == 0 || expires < a.next {
		a.next = expires
	}
}

func (a *account) end(expires int64, spend string) {
	a.closed = append(a.closed, ledger.Hold{Account: a.key, Expires: expires, SpendID: spend})
}

// stored is the account as the ledger keeps it.
func (a *account) stored() ledger.Account {
	acc := ledger.Account{Key: a.key, NextExpiry: a.next}
	for _, u := range a.rules {
		if u.rule.rolls() {
			acc.Watch = append(acc.Watch, ledger.Watch{After: u.edge, Width: u.rule.length.Microseconds()})
		}
	}
	acc.State = a.encode()
	return acc
}

// page is how many entries are asked for at once.
const page = 256

// dated calls each for the account's entries, those of this decision among them, that are dated after one time and up to
// another, in order of their dates. It ends where each returns false.
func (a *account) dated(after, upto int64, each func(*ledger.Entry) (bool, error)) error {
	var fresh []*ledger.Entry
	for i := range a.added {
		if e := &a.added[i]; e.Dated > after && e.Dated <= upto {
			fresh = append(fresh, e)
		}
	}
	slices.SortStableFunc(fresh, func(x, y *ledger.Entry) int { return int(max(-1, min(1, x.Dated-y.Dated))) })
	for limit := page; after < upto; limit *= 2 {
		entries, through, err := a.snap.Entries(a.key, after, upto, limit)
		if err != nil {
			return err
		}
		if through <= after {
			return fmt.Errorf("%w: the ledger returned no entries and said that there are more", store.ErrCorrupt)
		}
		for i := 0; i < len(entries) || len(fresh) > 0; {
			var e *ledger.Entry
			switch {
			case i < len(entries) && (len(fresh) == 0 || entries[i].Dated <= fresh[0].Dated):
				e = &entries[i]
				i++
			case fresh[0].Dated <= through:
				e, fresh = fresh[0], fresh[1:]
			}
			if e == nil {
				break
			}
			if more, err := each(e); err != nil || !more {
				return err
			}
		}
		after = through
	}
	return nil
}

const (
	forever = math.MaxInt64
	ever    = math.MinInt64
)
