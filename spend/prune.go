package spend

import (
	"context"
	"fmt"

	"github.com/brimgo/brim/spend/internal/decide"
)

// PruneResult counts the work of one [Budgets.Prune].
type PruneResult struct {
	Expired  int64 // expired holds that were ended
	Requests int64 // IDs that were removed
}

// Prune ends the expired holds of accounts that no decision has touched since,
// and removes data that is no longer needed: entries older than every window and
// than [Options.KeepIDs], and IDs older than KeepIDs that have no open hold. It
// keeps the entries of open holds, and all that follow them. It visits the accounts
// on which there may be something to do. If it finds that old entries of an account
// are still needed, it looks at the account again after a sixteenth of KeepIDs, or of
// the age of the oldest entry if that is longer.
//
// Prune covers the accounts of the main budget. It reasons from the figures that each account
// stores, and not from the rules of this process alone: an account keeps the entries that any rule
// with figures in it may still need, whichever process knows the rule. These are the entries that
// the rule has counted and that have not left it, and those that it has yet to count. An account
// with a [Leaky] or [Lifetime] rule keeps the entries since the last decision with the rule that
// the rule has not counted. An account on which a rule has not decided yet keeps the entries for
// it, if the rule is of this process, or has a window and has decided on one of the accounts within
// KeepIDs. A Lifetime rule keeps them only if it is in the account's plan.
//
// A Lifetime rule keeps the sums of the entries that go, and [Budgets.Verify] begins with them.
// Only a process with the rule can tell these sums. If another one prunes, Verify begins with all
// that the rule has counted by then.
//
// A later decision is the same with and without Prune, also one of another process with other
// rules, with three exceptions. An account that Prune has changed has the time of the clock, also
// if the clock runs back afterwards. A request that is sent again after its ID was removed is a new
// request, and a spend whose ID was removed can no longer be captured or refunded, nor can money be
// recorded at a date whose entries were removed. A rule that is new to an account counts the
// entries that are dated after the removed ones.
//
// Prune works in parts, of at most about 512 entries or 64 holds. It rests eight times as long as
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

// ForgetRule takes the figures of a retired rule from all accounts of the main budget, and returns
// the number of accounts that had some. Until then [Budgets.Prune] keeps the entries that the rule
// may need: for a [Lifetime] rule, those since its last decision. Call it once no process has the
// rule any more. If the rule comes back, it counts the entries that are left. ForgetRule goes
// by the name: give a Lifetime rule with another filter another name.
//
// Each of these accounts gets an entry of kind forget, whose Tags have the rule and the reason,
// which is 1 to 256 bytes of UTF-8 without control characters. A rule of this budget is
// [ErrBudget]. After an error, call ForgetRule again to continue. If single accounts are damaged,
// ForgetRule goes through all others first, and then returns an error that is [store.ErrCorrupt].
func (b *Budgets) ForgetRule(ctx context.Context, rule, reason string) (accounts int64, err error) {
	c := b.begin(ctx, "forget_rule")
	defer c.end(&err)
	switch {
	case b.main.HasRule(rule):
		return 0, fmt.Errorf("spend: %w: budget %q has rule %q; take the rule away from every process first",
			ErrBudget, b.main.Name, rule)
	case !validName(rule):
		return 0, requestErr("the name of a rule must be 1 to 64 bytes of UTF-8 without control characters")
	case reason == "":
		return 0, requestErr("ForgetRule needs a reason")
	}
	if err := checkReason(reason); err != nil {
		return 0, err
	}
	return b.decider.ForgetRule(c.ctx, b.main, rule, reason)
}
