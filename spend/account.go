package spend

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/brimgo/brim/spend/ledger"
	"github.com/brimgo/brim/store"
)

// account is the working set of an account during one decision: the figures
// that its rules need, so that the rules do not read the account's entries
// again.
type account struct {
	key     string
	budget  *checkedBudget
	snap    ledger.Snapshot
	time    int64          // of the last decision; of this one after advance
	seq     int64          // number of the last entry
	next    int64          // first expiry of an open hold, or an earlier time; 0 without holds
	tallies []*tally       // one for each rule of the budget, in the same order
	unknown []*tally       // of rules that the budget lacks; other processes may have them
	added   []ledger.Entry // by this decision
	opened  []ledger.Hold  // by this decision
	closed  []ledger.Hold  // by this decision
}

// tally contains the running figures of one rule in one account.
//
// The tally of a rule that counts by date holds the sums of the entries dated
// after its edge. When the edge moves, the tally subtracts the entries that the
// edge passes. It ignores a correction dated before the edge: the corrected
// entry has left the sums already. So a decision reads the entries that leave
// the window, and no entry in the window.
type tally struct {
	name        string
	fingerprint uint64 // of the rule that counted
	rule        *Rule  // nil if the budget has no such rule
	known       bool   // read from the ledger; otherwise the entries are counted first
	countedSeq  int64  // number of the last entry that was counted
	countedAt   int64  // time of the last decision with this rule
	edge        int64  // entries dated after it count
	used        int64  // spends, for a Count rule
	held        int64

	// Of a Leaky rule:
	firstSeq int64 // entries from this number on count
	bucket   store.Record
}

// Dates before and after all entries.
const (
	minTime = math.MinInt64
	maxTime = math.MaxInt64
)

// anySkew is the MaxSkew of a Leaky rule's bucket. It allows any skew, because
// the bucket goes by the account's time, which never runs back.
const anySkew = time.Duration(math.MaxInt64)

// load reads an account. An account that the ledger does not have is empty.
func (b *checkedBudget) load(snap ledger.Snapshot, key string) (*account, error) {
	stored, err := snap.Account(key)
	if err != nil {
		return nil, err
	}
	a := &account{key: key, budget: b, snap: snap}
	var known []*tally
	if stored.State != nil {
		if known, err = a.decode(stored.State); err != nil {
			return nil, err
		}
	}
	for i := range b.Rules {
		r := &b.Rules[i]
		at := slices.IndexFunc(known, func(u *tally) bool { return u.name == r.name && u.fingerprint == b.fingerprints[i] })
		if at < 0 {
			a.tallies = append(a.tallies, &tally{name: r.name, fingerprint: b.fingerprints[i], rule: r})
			continue
		}
		known[at].rule = r
		a.tallies = append(a.tallies, known[at])
		known = slices.Delete(known, at, at+1)
	}
	a.unknown = known
	return a, nil
}

// open adds a hold.
func (a *account) open(expires int64, spendID string) {
	a.opened = append(a.opened, ledger.Hold{Account: a.key, Expires: expires, SpendID: spendID})
	if a.next == 0 || expires < a.next {
		a.next = expires
	}
}

// close removes the hold of a spend.
func (a *account) close(sp *spend) {
	a.closed = append(a.closed, ledger.Hold{Account: a.key, Expires: sp.expires, SpendID: sp.id})
}

// holds reads the spends whose holds expire up to a time, in that order, and
// the earliest expiry after it, or 0.
func (a *account) holds(upto int64) (held []*spend, next int64, err error) {
	requests, next, err := a.snap.Holds(a.key, upto)
	if err != nil {
		return nil, 0, err
	}
	for _, r := range requests {
		sp, err := decodeSpend(r.ID, r.Accounts, r.Spend)
		if err != nil {
			return nil, 0, err
		}
		if !slices.Contains(sp.accounts, a.key) {
			return nil, 0, fmt.Errorf("spend: %w: an account has a hold of a spend that it has no part in", store.ErrCorrupt)
		}
		held = append(held, sp)
	}
	return held, next, nil
}

// add appends an entry, completes its fields from the account, and lets the
// rules count it.
func (a *account) add(e ledger.Entry) (seq int64, err error) {
	a.seq++
	e.Account, e.Seq, e.At, e.Currency = a.key, a.seq, a.time, a.budget.Currency
	if e.Part == 0 {
		e.Part, e.Dated = e.Seq, e.At
	}
	a.added = append(a.added, e)
	for _, u := range a.tallies {
		if err := u.count(&e); err != nil {
			return 0, err
		}
	}
	return e.Seq, nil
}

// count counts a new entry.
func (u *tally) count(e *ledger.Entry) error {
	u.countedSeq = e.Seq
	switch {
	case u.rule.kind == leaky:
		return u.fill(e)
	case u.rule.counts() && e.Dated > u.edge:
		return u.sum(e, 1)
	}
	return nil
}

// sum adds an entry to the sums if sign is 1, and subtracts it if sign is -1.
func (u *tally) sum(e *ledger.Entry, sign int64) error {
	if !u.rule.matches(e.Tags) {
		return nil
	}
	ok := true
	plus := func(sum *int64, n int64) {
		s, fits := add(*sum, n*sign)
		if ok = ok && fits; fits {
			*sum = s
		}
	}
	if u.rule.kind == count {
		plus(&u.used, e.Count)
	} else {
		plus(&u.used, e.Used)
		plus(&u.held, e.Held)
	}
	if !ok {
		return fmt.Errorf("spend: %w: the sum of the account's spends would be out of range", ErrAmount)
	}
	return nil
}

// fill changes the bucket of a Leaky rule by an entry.
func (u *tally) fill(e *ledger.Entry) error {
	if e.Part < u.firstSeq || e.Used == 0 && e.Held == 0 || !u.rule.matches(e.Tags) {
		return nil
	}
	op := store.Op{
		Bucket: u.rule.bucket().For(u.name), Mode: store.Always,
		Amount: float64(e.Used), Hold: float64(e.Held),
	}
	_, _, err := u.bucket.Fill(&op, e.At, anySkew)
	return err
}

// room returns the amount that is left of the limit. The amount may be
// negative. If it is out of range, room returns the nearest number.
func (u *tally) room() int64 {
	return subtract(subtract(u.rule.limit.Minor, u.used), u.held)
}

// subtract returns a - b, or the nearest number in range.
func subtract(a, b int64) int64 {
	d := a - b
	switch {
	case b > 0 && d > a:
		return math.MinInt64
	case b < 0 && d < a:
		return math.MaxInt64
	}
	return d
}

// fits reports whether the rule agrees to n more units of a spend, which then
// amounts to total, and to the given number of further spends.
func (u *tally) fits(n, total, spends, now int64, tags map[string]string) bool {
	if !u.rule.matches(tags) {
		return true
	}
	switch u.rule.kind {
	case perTransaction:
		return total <= u.rule.limit.Minor
	case count:
		return spends <= u.room()
	case leaky:
		bucket := u.bucket
		st, _, err := bucket.Fill(&store.Op{Bucket: u.rule.bucket().For(u.name), Amount: float64(n)}, now, anySkew)
		return err == nil && st.Accepted
	}
	return n <= u.room()
}
