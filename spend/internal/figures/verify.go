package figures

import (
	"fmt"

	"github.com/brimgo/brim/spend/ledger"
	"github.com/brimgo/brim/store"
)

// Forgotten reports whether a rule that the process lacks has not decided on the account for a
// time, and can be dropped. If such a rule returns, it counts the ledger's entries anew. A Lifetime
// rule stays, because Prune may have removed entries that it has counted.
func (u *Tally) Forgotten(now, keep int64) bool { return now-u.countedAt > keep && u.reach != MaxTime }

// Window returns how far back a rule with a window needs entries that has decided on the account
// within a time, or 0.
func (u *Tally) Window(now, keep int64) int64 {
	if !u.Windowed() || now-u.countedAt > keep {
		return 0
	}
	return u.reach
}

// Pass lets a rule pass the entries from last to seq of a job that has used no rule, if it has
// counted all others. These entries change no figure. A rule that had yet to count them would keep
// them, and all entries before them, in an account that nobody uses any more.
func (u *Tally) Pass(last, seq, now int64) {
	if u.countedSeq == last {
		u.countedSeq, u.quiet = seq, min(u.quiet, now-1)
	}
}

// Spare returns the time up to which the rule needs no entry of the account any more, and forgets
// the sums of entries that have left the rule by now. It knows no more of the rule than is stored:
// the process may lack the rule. seq is the number of the account's last entry.
func (u *Tally) Spare(now, seq int64) int64 {
	switch {
	case !u.based() && u.reach == 0: // PerTransaction
		return MaxTime
	case u.based() && u.countedSeq == seq:
		return MaxTime
	case u.based(): // the rule gets the entries that it has missed
		return u.countedAt - 1
	case u.countedAt <= now-u.reach:
		// All that the rule has counted is dated up to its last decision, so it has left. The rule
		// has yet to count the entries that it has missed, and then moves its edge.
		u.all, u.edge, u.quiet = all{}, u.countedAt, u.countedAt
		return now - u.reach
	}
	return min(now-u.reach, max(u.edge, u.quiet))
}

// Fold adds entries that go, at least one, to the opening of a Lifetime rule. Without a rule it
// cannot tell which of them the rule has counted, so the opening has all that it has counted.
func (u *Tally) Fold(r *Rule, gone []ledger.Entry) error {
	switch {
	case u.reach != MaxTime:
		return nil
	case r == nil:
		u.rebase()
		return nil
	}
	one := *u
	one.Rule = r
	p := replay(&one)
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
	credited bool // an entry has a credit that the rule has counted
}

// Prove returns a proof that is to count all entries of the account that there are, the first of
// which has a number. It is nil if the entries cannot prove the figures.
func (u *Tally) Prove(first int64) *Proof {
	if !u.known || u.firstSeq != 0 && first > u.baseSeq+1 {
		return nil
	}
	return replay(u)
}

// replay returns a proof that begins with the base of the rule.
func replay(u *Tally) *Proof {
	return &Proof{u: u, plain: &Tally{
		counter: u.counter, edge: u.edge, quiet: u.quiet, firstSeq: u.firstSeq,
		bucket: bucket{Record: u.base}, baseSeq: u.baseSeq, all: u.opening.clone(),
	}}
}

// Count counts the next entry, if the rule has.
func (p *Proof) Count(e *ledger.Entry) error {
	if e.Seq <= p.u.baseSeq || e.Seq > p.u.countedSeq {
		return nil
	}
	p.credited = p.credited || p.u.credited(e) > 0
	return p.plain.Count(e, min(e.At, p.u.countedAt))
}

// Check compares the figures of the rule with those of the entries. In an account that was mended,
// it does not compare the used amount of a rule that has counted credits: the entries do not tell
// when they happened.
func (p *Proof) Check(mended bool) error {
	u, plain := p.u, p.plain
	if u.Rule.Counts() && plain.quiet < u.quiet {
		return fmt.Errorf("spend: %w: the figures of rule %q are without an entry of the window", store.ErrCorrupt, u.Name)
	}
	plain.expire(u.countedAt)
	if mended && p.credited && u.Rule.Counts() {
		plain.unused()
		one := *u
		one.all = u.clone()
		one.unused()
		u = &one
	}
	if plain.bucket.Level != u.bucket.Level || !plain.equal(&u.all) {
		return fmt.Errorf("spend: %w: the figures of rule %q differ from the sum of its entries", store.ErrCorrupt, u.Name)
	}
	return nil
}
