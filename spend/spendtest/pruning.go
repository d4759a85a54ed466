package spendtest

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/brimgo/brim/spend"
)

// prunes reports whether a sequence prunes. To prune, some ledgers go through the requests of all
// sequences before, so later ones do not prune.
func prunes(number int64) bool { return number%4 == 0 && number <= 2000 }

// beginPruning lets a sequence prune: its IDs live for seconds.
func (s *sequence) beginPruning() error {
	if !s.prunes {
		return nil
	}
	s.keep = tick * (64 + s.r.Int64N(64*40))
	if err := s.use(); err != nil {
		return err
	}
	for _, account := range s.accounts { // Prune sees the accounts that the ledger has
		r := spend.FreezeRequest{ID: s.id(), Account: account}
		if _, err := s.send(r.ID, func(b *spend.Budgets) (spend.Decision, error) {
			return b.Unfreeze(context.Background(), r)
		}); err != nil {
			return err
		}
	}
	return nil
}

// options returns the options of the budgets.
func (s *sequence) options() *spend.Options {
	if s.keep == 0 {
		return nil
	}
	keep := time.Duration(s.keep) * time.Microsecond
	return &spend.Options{HoldTTL: keep, KeepIDs: keep}
}

// prune prunes, and compares the number of IDs that are gone.
func (s *sequence) prune() error {
	done, err := s.budgets.Prune(context.Background())
	s.tell("prune: %+v, %v", done, err)
	if err != nil {
		return fmt.Errorf("prune: %w", err)
	}
	now := s.clock.us.Load()
	s.model.prune(s.rules, s.accounts, s.keep, now)
	left := slices.DeleteFunc(slices.Clone(s.sent), func(x sent) bool {
		sp := s.model.spends[x.id]
		gone := x.first.At.UnixMicro() < now-s.keep && (sp == nil || !sp.alive(now))
		if gone && sp != nil {
			sp.gone = true
		}
		return gone
	})
	if gone := int64(len(s.sent) - len(left)); done.Requests != gone {
		return fmt.Errorf("prune has removed %d IDs; want %d", done.Requests, gone)
	}
	s.sent = left
	return nil
}

// prune notes up to which date the ledger may have removed the entries of each account, and up to
// which date it must have removed them. It keeps more of them for rules that have not decided since.
func (m *model) prune(rules []modelRule, accounts []string, keep, now int64) {
	for _, r := range rules {
		switch r.kind {
		case "lifetime":
			return // every entry still counts
		case "rolling", "count":
			keep = max(keep, r.width)
		case "day", "counted":
			keep = max(keep, 3*dayLength)
		}
	}
	for _, account := range accounts {
		upto := now - keep
		for _, s := range m.spends {
			if !s.alive(now) || !slices.Contains(s.accounts, account) {
				continue
			}
			for _, p := range s.parts {
				upto = min(upto, p.at-1)
			}
		}
		m.pruned[account] = max(m.pruned[account], upto)
		// A leaky rule keeps the entries since its last decision, if a hold has expired since.
		if !slices.ContainsFunc(rules, func(r modelRule) bool { return r.kind == "leaky" }) {
			m.gone[account] = max(m.gone[account], min(upto, m.last[account]-keep))
		}
	}
}

// mayBeGone reports whether Prune may have removed entries of a date from one of the accounts.
func (m *model) mayBeGone(accounts []string, date int64) bool {
	return slices.ContainsFunc(accounts, func(account string) bool { return date <= m.pruned[account] })
}
