package spend

import (
	"math"
	"time"

	"github.com/brimgo/brim/store"
)

// Decision is the answer to a request. It is a value and never changes.
type Decision struct {
	Approved bool `json:"approved"`
	// Replayed reports that the ID had been decided before. The other fields
	// repeat that first decision and ignore all later ones.
	Replayed bool `json:"replayed,omitempty"`
	// Declines has every rule that refused, in every account.
	Declines []Decline `json:"declines,omitempty"`
	// Remaining has every rule of every account concerned, after the decision. If
	// only the ledger's entries can tell a GrowsAt, it is zero; see
	// [Budgets.Remaining].
	Remaining []Usage `json:"remaining"`
	// RetryAfter is the time until all rules would approve the amount, if nobody
	// else spent. It is 0 if the amount is approved, and [store.Never] if waiting
	// does not help.
	RetryAfter time.Duration `json:"-"`
	// At is the time of the decision: the ledger's clock, or the time of the last
	// decision on one of the accounts if the clock is behind it.
	At time.Time `json:"at"`
}

// Decline is a rule that refused, with its figures at the decision.
type Decline struct {
	Usage
	// RetryAfter is the time until this rule would approve the amount, or
	// [store.Never].
	RetryAfter time.Duration `json:"-"`
}

// Usage is the figures of one rule in one account. Amounts of a [Count] rule are
// numbers of spends, without a currency. A [PerTransaction] rule never uses or
// holds anything. For a [Leaky] rule Used is rounded up and Remaining down.
type Usage struct {
	Account
	Rule  string `json:"rule"`
	Limit Money  `json:"limit"`
	Used  Money  `json:"used"`
	Held  Money  `json:"held"`
	// Remaining is Limit less Used and Held. It may be negative after Record, a
	// forced capture or a lowered limit.
	Remaining Money `json:"remaining"`
	// GrowsAt is the time at which Remaining grows if nobody spends, or the zero
	// time if waiting does not help.
	GrowsAt time.Time `json:"grows_at,omitzero"`
}

// answer returns the decision in the form for the caller.
func (t *attempt) answer() (Decision, error) {
	out := Decision{Approved: len(t.refusals) == 0, At: time.UnixMicro(t.now).UTC()}
	shown := make([][]Usage, len(t.accounts))
	for i, a := range t.accounts {
		for _, u := range a.tallies {
			shown[i] = append(shown[i], u.report(a.key, t.now))
		}
		out.Remaining = append(out.Remaining, shown[i]...)
	}
	for _, r := range t.refusals {
		a := t.accounts[r.account]
		wait, err := a.tallies[r.rule].wait(a, r.n, t.now)
		if err != nil {
			return Decision{}, err
		}
		out.Declines = append(out.Declines, Decline{Usage: shown[r.account][r.rule], RetryAfter: wait})
		out.RetryAfter = max(out.RetryAfter, wait)
	}
	return out, nil
}

// report returns the figures of the rule at now. If only the entries or the holds
// can tell GrowsAt, it stays zero.
func (u *tally) report(key string, now int64) Usage {
	r := u.rule
	in := func(n int64) Money { return Money{n, r.limit.Currency} }
	show := Usage{
		Account: accountOf(key), Rule: r.name, Limit: r.limit,
		Used: in(u.used), Held: in(u.held), Remaining: in(u.room()),
	}
	switch r.kind {
	case perTransaction:
		show.Used, show.Held, show.Remaining = in(0), in(0), r.limit
	case leaky:
		st := u.bucket.State(r.bucket(), now, anySkew)
		show.Used, show.Held = in(int64(math.Ceil(st.Level))), in(int64(st.Held))
		show.Remaining = in(int64(math.Floor(st.Capacity - st.Level - st.Held)))
		if st.Level > 0 && st.Held == 0 {
			op := store.Op{Bucket: r.bucket().For(u.name), Amount: float64(show.Remaining.Minor + 1)}
			show.GrowsAt = timeAfter(now, u.bucket.Refusal(&op, now, anySkew).RetryAfter)
		}
	case calendar:
		if u.used > 0 && u.held == 0 {
			_, end := r.periodAt(now)
			show.GrowsAt = time.UnixMicro(end).UTC()
		}
	}
	return show
}

// timeAfter returns the time d after now, or the zero time for [store.Never].
func timeAfter(now int64, d time.Duration) time.Time {
	if d == store.Never {
		return time.Time{}
	}
	return time.UnixMicro(now).Add(d).UTC()
}
