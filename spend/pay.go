package spend

import (
	"cmp"
	"slices"

	"github.com/brimgo/brim/spend/ledger"
)

// A counted credit pays for used units of the rule. Paid units are always the oldest ones in the
// window, so they leave it first. While they leave, the unpaid units stay as they are. So the
// used amount that a rule shows never grows because time passes.

// pay lets a credit pay for the units that the rule has counted of it.
func (u *tally) pay(e *ledger.Entry) {
	n := u.credited(e)
	if n == 0 || e.Seq <= u.begun {
		return
	}
	if s := u.sumsOf(e.Tags[u.rule.per]); s != nil {
		s.paid = min(s.used, s.paid+n)
	}
}

// sumsOf returns the sums of a value, or nil if they are zero. A rule without Per has one value.
func (u *tally) sumsOf(value string) *sums {
	if !u.rule.each {
		return &u.sums
	}
	if i, found := u.find(value); found {
		return &u.values[i].sums
	}
	return nil
}

// spentOfPaid returns the sums of the values that have paid units, or nil if none has.
func (u *tally) spentOfPaid() (list []valueSums) {
	if u.paid > 0 { // of a rule without Per
		list = append(list, valueSums{sums: u.sums})
	}
	for _, s := range u.values {
		if s.paid > 0 {
			list = append(list, s)
		}
	}
	return list
}

// leavePaid takes as many paid units away as units have left the window since before, the result of
// spentOfPaid. Where fewer were paid, none is left.
func (u *tally) leavePaid(before []valueSums) {
	for i := range before {
		if s := u.sumsOf(before[i].value); s != nil {
			s.paid = max(0, s.used-before[i].spent())
		}
	}
}

// leaveHeld takes the units of a hold out of before, the result of spentOfPaid: the units left the
// window while they were held, and the expiry of the hold has made them used since.
func (u *tally) leaveHeld(before []valueSums, e *ledger.Entry) {
	if !u.rule.matches(e.Tags, e.SpendAmount) {
		return
	}
	for i := range before {
		if b := &before[i]; !u.rule.each || b.value == e.Tags[u.rule.per] {
			b.used -= u.units(e, e.Expires-1).held
		}
	}
}

// payments replay the credits of one value of a rule. Without the entries that were pruned, the
// paid units are known only to be from least to most.
type payments struct {
	leaves      []eviction // units in the window, by date
	used        int64
	least, most int64
	known       bool // all entries in the window are among the leaves
}

// move lets units leave the window. All entries dated after whole are among the entries of the
// replay.
func (p *payments) move(edge, whole int64) {
	left := int64(0)
	for len(p.leaves) > 0 && p.leaves[0].date <= edge {
		left += p.leaves[0].used
		p.leaves = p.leaves[1:]
	}
	p.used -= left
	p.least, p.most = max(0, p.least-left), max(0, p.most-left)
	if !p.known {
		p.least, p.most, p.known = 0, p.used, edge >= whole
	}
}

// count adds used units of a date, and units for which a credit has paid.
func (p *payments) count(date, used, paid int64) {
	if used != 0 {
		i, found := slices.BinarySearchFunc(p.leaves, date, func(l eviction, date int64) int { return cmp.Compare(l.date, date) })
		if !found {
			p.leaves = slices.Insert(p.leaves, i, eviction{date: date})
		}
		p.leaves[i].used += used
		p.used += used
	}
	p.least, p.most = min(p.used, p.least+paid), min(p.used, p.most+paid)
}

// verifyPaid reports whether the paid units of every value can follow from the entries, which are
// all of the account's, or those that Prune has kept. The periods of a Calendar rule may have been
// others, in another zone, entries of a mended account do not tell when they happened, and an
// expiry that spends has no entry at its time; the paid units are then only compared with the sum
// of the counted credits.
func (u *tally) verifyPaid(a *account, entries []ledger.Entry) bool {
	summed := u.rule.periodic() || len(a.mends) > 0 || slices.ContainsFunc(entries, func(e ledger.Entry) bool { return e.Spends })
	all := make(map[string]*payments)
	whole := int64(minTime)
	if len(entries) > 0 && entries[0].Seq > 1 {
		whole = entries[0].At
	}
	credited := make(map[string]int64)
	for i := range entries {
		e := &entries[i]
		if e.Seq > u.countedSeq {
			break
		}
		if !u.rule.matches(e.Tags, e.SpendAmount) {
			continue
		}
		value := ""
		if u.rule.each {
			value = e.Tags[u.rule.per]
		}
		p := all[value]
		if p == nil {
			p = &payments{}
			all[value] = p
		}
		paid := u.credited(e)
		if e.Seq <= u.begun {
			paid = 0
		}
		credited[value] += paid
		if summed {
			continue
		}
		edge := u.edgeAt(min(e.At, u.countedAt)) // the ends that Prune has added may be later
		if p.move(edge, whole); e.Dated > edge {
			p.count(e.Dated, e.Used, paid)
		}
		if e.Seq <= u.begun && p.known {
			p.least, p.most = 0, 0
		}
	}
	values := u.values
	if !u.rule.each {
		values = []valueSums{{sums: u.sums}}
	}
	for _, s := range values {
		p := all[s.value]
		if p == nil {
			p = &payments{}
		}
		least, most := int64(0), min(s.used, credited[s.value])
		if !summed {
			p.move(u.edge, whole)
			least, most = p.least, p.most
		}
		if s.paid < least || s.paid > most {
			return false
		}
	}
	return true
}
