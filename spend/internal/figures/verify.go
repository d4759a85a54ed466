package figures

import (
	"fmt"
	"slices"

	"github.com/brimgo/brim/spend/ledger"
	"github.com/brimgo/brim/store"
)

// Forgotten reports whether a rule that the process lacks has not decided on the account for a time,
// and can be dropped. If such a rule returns, it counts the ledger's entries anew. A Lifetime rule
// stays, because Prune may have removed entries that it has counted.
func (u *Tally) Forgotten(now, keep int64) bool { return now-u.countedAt > keep && u.reach != MaxTime }

// Window returns how far back a rule with a window needs entries that has decided on the account
// within a time, or 0.
func (u *Tally) Window(now, keep int64) int64 {
	if !u.Windowed() || now-u.countedAt > keep {
		return 0
	}
	return u.reach
}

// Pass lets a rule pass the entries from last to seq of a job that has used no rule, if it has counted
// all others. These entries change no figure. A rule that had yet to count them would keep them, and
// all entries before them, in an account that nobody uses any more.
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

// Fold adds entries that go, at least one, to the opening of a Lifetime rule. Without a rule it cannot
// tell which of them the rule has counted, so the opening has all that it has counted.
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
	plain, err := replay(&one, gone)
	if err == nil {
		u.opening, u.baseSeq = plain.all, max(u.baseSeq, gone[len(gone)-1].Seq)
	}
	return err
}

// replay returns the figures of the rule after those of the entries that it has counted, from its base
// on.
func replay(u *Tally, entries []ledger.Entry) (*Tally, error) {
	plain := &Tally{
		counter: u.counter, edge: u.edge, quiet: u.quiet, firstSeq: u.firstSeq,
		bucket: bucket{Record: u.base}, baseSeq: u.baseSeq, all: u.opening.clone(),
	}
	for i := range entries {
		if entries[i].Seq > u.countedSeq {
			break
		}
		if entries[i].Seq <= u.baseSeq {
			continue
		}
		if err := plain.Count(&entries[i], min(entries[i].At, u.countedAt)); err != nil {
			return nil, err
		}
	}
	return plain, nil
}

// Verify compares the figures of the rule with the entries that it has counted. In an account that was
// mended, it does not compare the used amount of a rule that has counted credits: the entries do not
// tell when they happened. The entries are those from the number first on.
func (u *Tally) Verify(entries []ledger.Entry, first int64, mended bool) error {
	if !u.known || u.firstSeq != 0 && first > u.baseSeq+1 {
		return nil
	}
	plain, err := replay(u, entries)
	if err != nil {
		return err
	}
	if u.Rule.Counts() && plain.quiet < u.quiet {
		return fmt.Errorf("spend: %w: the figures of rule %q are without an entry of the window", store.ErrCorrupt, u.Name)
	}
	plain.expire(u.countedAt)
	if mended && slices.ContainsFunc(entries, func(e ledger.Entry) bool { return u.credited(&e) > 0 }) && u.Rule.Counts() {
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
