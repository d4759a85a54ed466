package spendtest

import (
	"fmt"
	"slices"
	"time"

	"github.com/brimgo/brim/spend"
	"github.com/brimgo/brim/store"
)

// judge checks a decision about n more units of a spend, which then amounts to
// total, and about so many more spends. If it is an attempt, a decline is noted.
func (s *sequence) judge(d spend.Decision, sp *modelSpend, n, total, spends int64, attempt bool) error {
	now := s.now()
	if d.Replayed || d.At.UnixMicro() != now {
		return fmt.Errorf("a first decision is replayed, or has another time than the clock: %+v", d)
	}
	refused, wait := 0, time.Duration(0)
	agree := func(r modelRule, account string, t int64) bool {
		return s.model.fits(r, account, t, n, sp.first, total, spends, sp.tags)
	}
	agreed := make(map[string]bool)
	for _, account := range sp.accounts {
		for _, r := range s.rules {
			agreed[account+" "+r.name] = agree(r, account, now)
		}
	}
	for _, account := range sp.accounts {
		if attempt && !d.Approved {
			s.model.refused = append(s.model.refused, modelDecline{account, sp.tags, sp.first, now})
		}
	}
	for _, account := range sp.accounts {
		if reason := s.model.frozen[account]; reason != "" {
			refused++
			wait = store.Never
			if !slices.ContainsFunc(d.Declines, func(x spend.Decline) bool {
				return x.Frozen == reason && x.Account.Name == account && x.Rule == "" && x.RetryAfter >= store.Never
			}) {
				return fmt.Errorf("account %s is frozen: %q; the declines are %+v", account, reason, d.Declines)
			}
		}
		for _, r := range s.rules {
			at := slices.IndexFunc(d.Declines, func(x spend.Decline) bool {
				return x.Rule == r.name && x.Account.Name == account
			})
			fits := func(t int64) bool { return agree(r, account, t) }
			if agreed[account+" "+r.name] != (at < 0) {
				return fmt.Errorf("rule %s of %s: it refused is %t; want the opposite", r.name, account, at >= 0)
			}
			if at < 0 {
				continue
			}
			refused++
			after := d.Declines[at].RetryAfter
			if value := d.Declines[at].Value; value != r.of(sp.tags).one {
				return fmt.Errorf("rule %s of %s: the decline names value %q", r.name, account, value)
			}
			if d.Declines[at].AtLeast {
				return fmt.Errorf("rule %s of %s: RetryAfter is not exact after a few entries", r.name, account)
			}
			wait = max(wait, after)
			switch {
			case after >= store.Never:
				if fits(now + year) {
					return fmt.Errorf("rule %s of %s: RetryAfter is Never; the amount fits within a year", r.name, account)
				}
			case !s.model.first(r, account, now, now+after.Microseconds(), fits):
				return fmt.Errorf("rule %s of %s: RetryAfter is %v; that is not the first time at which the amount fits",
					r.name, account, after)
			}
		}
	}
	if d.Approved != (refused == 0) || len(d.Declines) != refused || d.RetryAfter < wait {
		return fmt.Errorf("approved is %t with %d declines and RetryAfter %v; want %d declines and %v or more",
			d.Approved, len(d.Declines), d.RetryAfter, refused, wait)
	}
	if d.AtLeast {
		return fmt.Errorf("RetryAfter %v is not exact after a few entries", d.RetryAfter)
	}
	return s.retry(d.RetryAfter, wait, sp.accounts, func(t int64) bool {
		return s.model.fitsAll(s.rules, sp, t, n, total, spends)
	})
}

// retry checks the RetryAfter of a decline. The largest of its rules is least. It is longer where a
// raised limit ends before the other rules have room.
func (s *sequence) retry(after, least time.Duration, accounts []string, fits func(t int64) bool) error {
	now := s.now()
	at := now + after.Microseconds()
	if after >= store.Never {
		if after != least && fits(now+year) {
			return fmt.Errorf("RetryAfter is Never; the amount fits within a year")
		}
		return nil
	}
	for _, account := range accounts {
		for _, r := range s.rules {
			if (after != least || !fits(at)) && !s.model.first(r, account, now, at, fits) {
				return fmt.Errorf("RetryAfter is %v, and %v for its rules; the amount fits at another time first", after, least)
			}
		}
	}
	return nil
}
