package spend

import (
	"math"
	"slices"
	"time"

	"github.com/brimgo/brim/store"
)

// Decision is the answer to a request. It is a value and never changes.
type Decision struct {
	Approved bool `json:"approved"`
	// Amount is the money that the request has moved: the amount that it asked for, or the part of
	// it that [Budgets.UpTo] approved. It is the zero Money for a decline and for a void.
	Amount Money `json:"amount,omitzero"`
	// Replayed reports that the ID had been decided before. The other fields
	// repeat that first decision and ignore all later ones.
	Replayed bool `json:"replayed,omitempty"`
	// Canceled reports that [Budgets.Cancel] has canceled the ID. Every other request with the ID
	// is declined.
	Canceled bool `json:"canceled,omitempty"`
	// Declines has every rule that refused, in every account.
	Declines []Decline `json:"declines,omitempty"`
	// Remaining has every rule of every account concerned, after the decision. If
	// only the ledger's entries can tell a GrowsAt, it is zero; see
	// [Budgets.Remaining]. A rule with [Rule.Per] has the figures of the request's value; the
	// answers to SetLimits, Freeze and Unfreeze leave such rules out.
	Remaining []Usage `json:"remaining"`
	// Crossed has the shares of limits that the accounts have reached by this decision;
	// see [Rule.Thresholds]. A retry has those of its first decision. [Budgets.AbleToAccept]
	// tells none.
	Crossed []Crossing `json:"crossed,omitempty"`
	// RetryAfter is the time until all rules would approve the amount, if nobody else spent. It is
	// 0 if the amount is approved, and [store.Never] if waiting does not help. A raised limit of
	// the account may end before another rule has room, or the decline may take the last room of a
	// rule with [Rule.CountsDeclines]; RetryAfter is then longer than that of each Decline.
	RetryAfter time.Duration `json:"-"`
	// AtLeast tells that RetryAfter may be too short; see [Decline.AtLeast]. No Decline may say
	// so: that of a rule which the decline itself has filled is missing.
	AtLeast bool `json:"at_least,omitempty"`
	// At is the time of the decision on the ledger's clock, read when nobody else could change the
	// accounts. If the last decision on one of them has a later time, At is that time. Decisions
	// that share a transaction have one time.
	At time.Time `json:"at"`
}

// Decline is a rule that refused, with its figures at the decision, or an account that is frozen.
type Decline struct {
	Usage
	// Frozen is the reason for which the account is frozen; see [Budgets.Freeze]. The decline is
	// then that of the account, and its Usage has nothing but the account.
	Frozen string `json:"frozen,omitempty"`
	// RetryAfter is the time until this rule would approve the amount, or
	// [store.Never].
	RetryAfter time.Duration `json:"-"`
	// AtLeast tells that RetryAfter may be too short. A decision looks at the first 32 entries
	// to leave the window. Declines, and entries that the rule does not count, are among these
	// entries. If they make too little room, RetryAfter is the time at which the last of them has
	// gone; a request at that time learns more.
	AtLeast bool `json:"at_least,omitempty"`
}

// Usage is the figures of one rule in one account. Amounts of a [Count] rule are
// numbers of spends, without a currency. A [PerTransaction] rule never uses or
// holds anything. For a [Leaky] rule Used is rounded up and Remaining down.
type Usage struct {
	Account
	Rule string `json:"rule"`
	// Tag is the tag of a rule with [Rule.Per], and Value the value to which the figures belong.
	// Value may be empty: that of requests without the tag.
	Tag   string `json:"tag,omitempty"`
	Value string `json:"value,omitempty"`
	Limit Money  `json:"limit"` // the amount of the rule, or the account's own limit
	Used  Money  `json:"used"`  // without held money
	Held  Money  `json:"held"`  // by open holds, as far as the rule counts them
	// Remaining is Limit less Used and Held. It may be negative after Record, a
	// forced capture or a lowered limit.
	Remaining Money `json:"remaining"`
	// GrowsAt is the time at which Remaining grows if nobody spends, or the zero
	// time if waiting does not help.
	GrowsAt time.Time `json:"grows_at,omitzero"`
}

// answer returns the decision in the form for the caller.
func (t *attempt) answer() (Decision, error) {
	out := Decision{Approved: len(t.refusals) == 0, Amount: t.moved, At: time.UnixMicro(t.now).UTC()}
	first := make([]int, len(t.accounts)) // where the figures of each account begin
	for i, a := range t.accounts {
		first[i] = len(out.Remaining)
		for j, u := range a.tallies {
			if u.rule.each && t.upkeeps() {
				continue // the request has no value, and no rule refuses it
			}
			out.Remaining = append(slices.Grow(out.Remaining, len(a.tallies)-j), u.of(t.tags).report(a))
		}
	}
	asked, at := t.ending, t.clock
	for _, r := range t.refusals {
		a := t.accounts[r.account]
		if r.rule == frozen {
			d := Decline{Usage: Usage{Account: accountOf(a.key)}, RetryAfter: store.Never, Frozen: a.frozen}
			out.Declines, at = append(out.Declines, d), maxTime
			continue
		}
		w, err := a.tallies[r.rule].of(t.tags).wait(a, r.n, a.time, horizon)
		if err != nil {
			return Decision{}, err
		}
		// The caller waits by the ledger's clock, which the account's time may be ahead of.
		d := Decline{Usage: out.Remaining[first[r.account]+r.rule], RetryAfter: w.after(t.clock), AtLeast: w.atLeast}
		out.Declines, out.AtLeast = append(out.Declines, d), out.AtLeast || w.atLeast
		asked, at = append(asked, r), max(at, w.at)
	}
	for _, r := range t.filled {
		a := t.accounts[r.account]
		w, err := a.tallies[r.rule].of(t.tags).wait(a, r.n, a.time, horizon)
		if err != nil {
			return Decision{}, err
		}
		asked, at, out.AtLeast = append(asked, r), max(at, w.at), out.AtLeast || w.atLeast
	}
	if !out.Approved {
		w, err := t.waitForAll(asked, wait{at, out.AtLeast})
		if err != nil {
			return Decision{}, err
		}
		out.RetryAfter, out.AtLeast = w.after(t.clock), w.atLeast
	}
	return out, nil
}

// report returns the figures of the rule at the time of the account. If only the entries or the
// holds can tell GrowsAt, it stays zero.
func (u *tally) report(a *account) Usage {
	r, now := u.rule, a.time
	in := func(n int64) Money { return Money{n, r.limit.Currency} }
	usage := Usage{
		Account: accountOf(a.key), Rule: r.name, Tag: r.per, Value: u.value, Limit: in(u.amounts.now),
		Used: in(u.used), Held: in(u.held), Remaining: in(u.room()),
	}
	if r.spends() { // a spend counts also while it is held
		usage.Used, usage.Held = in(u.used+u.held), in(0)
	}
	switch r.kind {
	case leaky:
		st := u.bucket.State(u.bucket.Limit, now, anySkew)
		usage.Used, usage.Held = in(int64(math.Ceil(st.Level))), in(int64(st.Held))
		usage.Remaining = in(leakyRoom(&st))
		if st.Level > 0 && st.Held == 0 && u.amounts.until == maxTime {
			op := store.Op{Bucket: u.bucket.For(u.name), Amount: float64(usage.Remaining.Minor + 1)}
			usage.GrowsAt = timeAfter(now, u.bucket.Refusal(&op, now, anySkew).RetryAfter)
		}
	case calendar, countPer:
		if u.used > 0 && u.held == 0 && u.amounts.until == maxTime {
			_, end := r.periodAt(now)
			usage.GrowsAt = time.UnixMicro(end).UTC()
		}
	}
	return usage
}

// leakyRoom returns the largest amount that fits into a bucket. The sum that [store.Record.Fill]
// compares with the capacity decides: the difference may be rounded to another whole number. See
// overfills for the last case.
func leakyRoom(st *store.State) int64 {
	n := math.Floor(st.Capacity - st.Level - st.Held)
	switch used := st.Level + st.Held; {
	case used+n > st.Capacity:
		n--
	case used+(n+1) <= st.Capacity:
		n++
	}
	return min(int64(n), store.MaxAmount-int64(math.Ceil(st.Level))-int64(st.Held))
}

// timeAfter returns the time d after now, or the zero time for [store.Never].
func timeAfter(now int64, d time.Duration) time.Time {
	if d >= store.Never {
		return time.Time{}
	}
	return time.UnixMicro(now).Add(d).UTC()
}
