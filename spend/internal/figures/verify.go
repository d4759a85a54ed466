package figures

import (
	"fmt"

	"github.com/brimgo/brim/spend/ledger"
	"github.com/brimgo/brim/store"
)

// Spare returns the date up to which the rule needs no entry of the account any more.
func (u *Tally) Spare() int64 {
	switch {
	case u.Rule.Windowed() && u.known:
		return max(u.edge, u.quiet)
	case u.Rule.Span() == Forever && !u.known:
		return MinTime
	}
	return MaxTime
}

// Fold adds entries that go, at least one, to the opening of a Lifetime rule.
func (u *Tally) Fold(gone []ledger.Entry, now int64) error {
	if u.Rule.Span() != Forever {
		return nil
	}
	p := replay(u, now)
	for i := range gone {
		if err := p.Count(&gone[i]); err != nil {
			return err
		}
	}
	u.opening, u.baseSeq = p.plain.all, max(u.baseSeq, gone[len(gone)-1].Seq)
	return nil
}

// Proof counts the entries of an account once more, to compare the figures of a rule with them.
type Proof struct {
	u, plain *Tally
	now      int64 // time of the account
	credited bool  // an entry has a credit that the rule has counted
}

// Prove returns a proof that is to count all entries of the account that there are, the first of
// which has a number, up to the time of the account. It is nil if the entries cannot prove the
// figures.
func (u *Tally) Prove(first, now int64) *Proof {
	if !u.known || u.leaks() && first > u.baseSeq+1 {
		return nil
	}
	return replay(u, now)
}

// replay returns a proof that begins with the base of the rule.
func replay(u *Tally, now int64) *Proof {
	plain := &Tally{counter: u.counter, edge: u.edge, quiet: u.quiet}
	if u.ground != nil {
		plain.all = u.opening.clone()
		plain.ground = &ground{firstSeq: u.firstSeq, bucket: bucket{Record: u.base}, baseSeq: u.baseSeq}
	}
	return &Proof{u: u, now: now, plain: plain}
}

// Count counts the next entry, if the rule has.
func (p *Proof) Count(e *ledger.Entry) error {
	if p.u.ground != nil && e.Seq <= p.u.baseSeq || e.Seq > p.u.countedSeq {
		return nil
	}
	p.credited = p.credited || p.u.credited(e) > 0
	return p.plain.Count(e, min(e.At, p.now))
}

// Check compares the figures of the rule with those of the entries. In an account that was mended,
// it does not compare the used amount of a rule that has counted credits: the entries do not tell
// when they happened.
func (p *Proof) Check(mended bool) error {
	u, plain := p.u, p.plain
	if u.Rule.Counts() && plain.quiet < u.quiet {
		return fmt.Errorf("spend: %w: the figures of rule %q are without an entry of the window", store.ErrCorrupt, u.Name)
	}
	plain.expire(p.now)
	if mended && p.credited && u.Rule.Counts() {
		plain.unused()
		one := *u
		one.all = u.all.clone()
		one.unused()
		u = &one
	}
	if u.ground != nil && plain.bucket.Level != u.bucket.Level || !plain.equal(&u.all) {
		return fmt.Errorf("spend: %w: the figures of rule %q differ from the sum of its entries", store.ErrCorrupt, u.Name)
	}
	return nil
}
