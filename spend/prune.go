package spend

import (
	"context"

	"github.com/brimgo/brim/spend/internal/decide"
)

// PruneResult counts the work of one [Budgets.Prune].
type PruneResult struct {
	Expired  int64 // expired holds that were ended
	Requests int64 // IDs that were removed
}

// Prune ends the expired holds of accounts that no decision has touched since,
// and removes data that is no longer needed: entries older than every window and
// than [Options.KeepIDs], and IDs older than KeepIDs that have no open hold. A hold
// that has expired in an account of another budget keeps its ID until that budget is
// pruned, or the account decides. It
// keeps the entries of open holds, and all that follow them. It visits the accounts
// on which there may be something to do. If it finds that old entries of an account
// are still needed, it looks at the account again after a sixteenth of KeepIDs, or of
// the age of the oldest entry if that is longer.
//
// Prune covers the accounts of the main budget. It goes by the newest rules: it keeps the entries
// that a rule of any plan may still need. Those of an account on which a Lifetime rule of its plan
// has not decided yet all stay. A Lifetime rule keeps the sums of the entries that go, and
// [Budgets.Verify] begins with them.
//
// A later decision is the same with and without Prune, with four exceptions. An account that Prune
// has changed has the time of the clock, also if the clock runs back afterwards. A request that is
// sent again after its ID was removed is a new request, and a spend whose ID was removed can no
// longer be captured or refunded, nor can money be recorded at a date whose entries were removed. A
// rule that is new to an account counts the entries that are dated after the removed ones. Prune
// drops the figures of a rule that no plan has any more, as each decision does.
//
// Prune works in parts, of at most about 512 entries or 64 holds. It rests twelve times as long as
// each part has worked, so that callers keep most of their throughput.
//
// Copy the entries that you want to archive before you call Prune. After an
// error the result counts the part that was done; call Prune again to continue.
// If single accounts are damaged, Prune prunes all others first, and then returns
// an error that is [store.ErrCorrupt].
func (b *Budgets) Prune(ctx context.Context) (done PruneResult, err error) {
	c := b.begin(ctx, "prune")
	defer c.end(&err)
	pruned, err := b.decider.Prune(c.ctx, b.main, func(holds []decide.Hold) { c.held(holds) })
	return PruneResult{Expired: pruned.Expired, Requests: pruned.Requests}, err
}
