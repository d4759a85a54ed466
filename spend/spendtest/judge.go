package spendtest

import (
	"fmt"
	"slices"
	"time"

	"github.com/brimgo/brim/internal/differ"
	"github.com/brimgo/brim/spend"
	"github.com/brimgo/brim/store"
)

// judge decides whether the rules approve the request, and compares the declines and the waits of
// an answer. It notes a decline of a request for a new spend.
func (a *attempt) judge(got *Answer) (approved bool, wrong error) {
	s := a.spend
	set := func(n int64) {
		if a.n = n; a.more == 1 {
			s.first = n
		}
	}
	fitsAll := func(t int64) bool { return a.fitsAll(a.rules, s, t, a.n, a.base+a.n, a.more) }
	frozen := slices.ContainsFunc(s.accounts, func(account string) bool { return a.frozen[account] != "" })
	for a.n > a.least && (frozen || !fitsAll(a.now)) {
		set(a.n - 1)
	}
	agree := func(r Rule, account string, t int64) bool {
		return a.fits(r, account, t, a.n, s.first, a.base+a.n, a.more, s.tags)
	}
	approved = true
	agreed := make(map[string]bool)
	for _, account := range s.accounts {
		approved = approved && a.frozen[account] == ""
		for _, r := range a.rules(account) {
			agreed[account+" "+r.Name] = r.Shadow || agree(r, account, a.now)
			approved = approved && agreed[account+" "+r.Name]
		}
	}
	a.shadow()
	if !approved && a.notesDeclines {
		for _, account := range s.accounts {
			a.decline(modelDecline{account, s.tags, s.first, a.now})
		}
	}
	if got == nil {
		return approved, nil
	}
	d, refused, wait := got.Decision, 0, time.Duration(0)
	for _, account := range s.accounts {
		if reason := a.frozen[account]; reason != "" {
			refused++
			wait = store.Never
			if !slices.ContainsFunc(d.Declines, func(x spend.Decline) bool {
				return x.Frozen == reason && x.Account.Name == account && x.Rule == "" && x.RetryAfter >= store.Never
			}) {
				return approved, fmt.Errorf("account %s is frozen: %q; the declines are %+v", account, reason, d.Declines)
			}
		}
		for _, r := range a.rules(account) {
			at := slices.IndexFunc(d.Declines, func(x spend.Decline) bool {
				return x.Rule == r.Name && x.Account.Name == account
			})
			if agreed[account+" "+r.Name] != (at < 0) {
				return approved, fmt.Errorf("rule %s of %s: it refused is %t; want the opposite", r.Name, account, at >= 0)
			}
			if at < 0 {
				continue
			}
			refused++
			wait = max(wait, d.Declines[at].RetryAfter)
			fits := func(t int64) bool { return agree(r, account, t) }
			if wrong := a.declines(r, account, d.Declines[at], fits); wrong != nil {
				return approved, fmt.Errorf("rule %s of %s: %w", r.Name, account, wrong)
			}
		}
	}
	if d.Approved != (refused == 0) || len(d.Declines) != refused || d.RetryAfter < wait {
		return approved, fmt.Errorf("approved is %t with %d declines and RetryAfter %v; want %d declines and %v or more",
			d.Approved, len(d.Declines), d.RetryAfter, refused, wait)
	}
	least := slices.ContainsFunc(d.Declines, func(x spend.Decline) bool { return x.AtLeast })
	switch {
	case approved && (d.RetryAfter != 0 || d.AtLeast):
		return approved, fmt.Errorf("RetryAfter of an approval is %v, and AtLeast is %t", d.RetryAfter, d.AtLeast)
	case d.RetryAfter >= store.Never:
		if d.AtLeast {
			return approved, fmt.Errorf("RetryAfter is Never, and AtLeast is set")
		}
	case d.AtLeast != least && (least || a.few()):
		return approved, fmt.Errorf("AtLeast is %t, and %t for the rules", d.AtLeast, least)
	}
	if approved || d.AtLeast {
		return approved, nil
	}
	return approved, a.retry(d.RetryAfter, wait, fitsAll)
}

// shadow notes the rules that would refuse, and refuse nothing.
func (a *attempt) shadow() {
	for _, account := range a.spend.accounts {
		for _, r := range a.rules(account) {
			if r.Shadow && !a.fits(r, account, a.now, a.n, a.spend.first, a.base+a.n, a.more, a.spend.tags) {
				a.shadows = append(a.shadows, account+" "+r.Name)
			}
		}
	}
}

// shaded returns the figures of the rules in the shadow that would refuse.
func (a *attempt) shaded(figures []spend.Usage) (list []spend.Usage) {
	for _, u := range figures {
		if slices.Contains(a.shadows, u.Account.Name+" "+u.Rule) {
			list = append(list, u)
		}
	}
	return list
}

// few reports whether a decision looks at all entries: a request adds two of them at most, as a
// rule.
func (m *Model) few() bool { return len(m.known) < 16 }

// declines checks the decline of a rule.
func (a *attempt) declines(r Rule, account string, d spend.Decline, fits func(t int64) bool) error {
	u := a.figure(r.of(a.spend.tags), account, a.now)
	if u.GrowsAt, u.Account.Budget = d.GrowsAt, d.Account.Budget; !a.notesDeclines || !r.declines {
		if diff := differ.Fields(d.Usage, u); diff != "" {
			return fmt.Errorf("the decline:\n%s", diff)
		}
	}
	after := d.RetryAfter
	switch {
	case d.AtLeast && a.few():
		return fmt.Errorf("RetryAfter is not exact after a few entries")
	case d.AtLeast:
		if fits(a.clock + after.Microseconds() - 1) {
			return fmt.Errorf("RetryAfter is %v; the amount fits earlier", after)
		}
	case after >= store.Never:
		if fits(a.now + year) {
			return fmt.Errorf("RetryAfter is Never; the amount fits within a year")
		}
	case !a.first(r, account, a.now, a.clock+after.Microseconds(), fits):
		return fmt.Errorf("RetryAfter is %v; that is not the first time at which the amount fits", after)
	}
	return nil
}

// retry checks the RetryAfter of a decline. The largest of its rules is least. It is longer where a
// raised limit ends before the other rules have room.
func (a *attempt) retry(after, least time.Duration, fits func(t int64) bool) error {
	at := a.clock + after.Microseconds()
	if after >= store.Never {
		if after != least && fits(a.now+year) {
			return fmt.Errorf("RetryAfter is Never; the amount fits within a year")
		}
		return nil
	}
	for _, account := range a.spend.accounts {
		for _, r := range a.rules(account) {
			if (after != least || !fits(at)) && !a.first(r, account, a.now, at, fits) {
				return fmt.Errorf("RetryAfter is %v, and %v for its rules; the amount fits at another time first", after, least)
			}
		}
	}
	return nil
}
