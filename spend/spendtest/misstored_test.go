package spendtest

import (
	"math"
	"slices"
	"strings"
	"time"

	"github.com/brimgo/brim/spend/ledger"
)

// kept returns the ID under which the ledger keeps a request.
func (l *brokenLedger) kept(id string) string {
	switch l.fault {
	case foldsIDs:
		return strings.ToLower(id)
	case truncatesIDs:
		return id[:min(len(id), 100)]
	}
	return id
}

// keptAccount returns the key under which the ledger keeps an account.
func (l *brokenLedger) keptAccount(key string) string {
	switch l.fault {
	case foldsAccounts:
		return strings.ToLower(key)
	case trimsAccounts:
		return strings.TrimSpace(key)
	}
	return key
}

// left returns the entries of an account that were not lost.
func (l *brokenLedger) left(account string, entries []ledger.Entry) []ledger.Entry {
	l.disk.mu.Lock()
	defer l.disk.mu.Unlock()
	lost := func(e ledger.Entry) bool { return e.Seq <= l.disk.lost.entries[account] }
	return slices.DeleteFunc(slices.Clone(entries), lost)
}

// stored returns the changes that the ledger stores of a job's.
func (l *brokenLedger) stored(job *ledger.Job, c *ledger.Changes) *ledger.Changes {
	l.disk.mu.Lock()
	defer l.disk.mu.Unlock()
	if c == nil {
		if l.fault == repeatsEntries && len(job.Requests) > 0 {
			return &ledger.Changes{Entries: l.disk.entries[job.Requests[0]]}
		}
		return nil
	}
	kind := ""
	for _, e := range c.Entries {
		kind = e.Kind
	}
	for _, m := range c.Moved {
		for id, list := range l.disk.entries {
			list = slices.Clone(list)
			for i := range list {
				if list[i].Account == m.From {
					list[i].Account = m.To
				}
			}
			l.disk.entries[id] = list
		}
	}
	switch l.fault {
	case losesEntry:
		c.Entries = c.Entries[:max(0, len(c.Entries)-1)]
	case losesDeclines:
		c.Entries = slices.DeleteFunc(c.Entries, func(e ledger.Entry) bool { return e.Kind == "decline" })
	case forgetsDeclines:
		if kind == "decline" {
			c.Requests = nil
		}
	case losesSecondAccount:
		if len(c.Accounts) > 1 {
			lost := c.Accounts[1].Key
			c.Accounts = c.Accounts[:1]
			c.Entries = slices.DeleteFunc(c.Entries, func(e ledger.Entry) bool { return e.Account == lost })
			c.Opened = slices.DeleteFunc(c.Opened, func(h ledger.Hold) bool { return h.Account == lost })
		}
	case keepsFirstState:
		if kind == "capture" {
			c.Accounts = nil
		}
	case keepsFirstSpend:
		c.Spends = nil
	case keepsCanceled:
		c.Replaced = nil
	case losesMoves:
		c.Moved = nil
	case losesFormerKeys:
		if kind == "move" {
			c.Requests = c.Requests[:1]
		}
	case keepsCanceledTime:
		for i := range c.Replaced {
			c.Replaced[i].At -= (80 * days).Microseconds()
		}
	case forgetsRefunds:
		if kind == "refund" {
			c.Spends = nil
		}
	case keepsEndedHolds:
		c.Closed = nil
	case losesHolds:
		c.Opened = nil
	case neverDrops:
		c.Drop = nil
	case dropsTooMuch:
		for i := range c.Drop {
			c.Drop[i].At = math.MaxInt64
		}
	case timesFrom1970:
		for i := range c.Entries {
			c.Entries[i].At, c.Entries[i].Dated = max(0, c.Entries[i].At), max(0, c.Entries[i].Dated)
		}
	case losesTags:
		for i := range c.Entries {
			c.Entries[i].Tags = nil
		}
	case losesExpiries:
		for i := range c.Entries {
			c.Entries[i].Spends = false
		}
	case losesSpendAmounts:
		for i := range c.Entries {
			c.Entries[i].SpendAmount = 0
		}
	case losesTerms:
		for i := range c.Entries {
			c.Entries[i].TTL = 0
		}
	case losesCredits:
		for i := range c.Entries {
			c.Entries[i].Credited = nil
		}
	case datesByDecision:
		for i := range c.Entries {
			c.Entries[i].Dated = c.Entries[i].At
		}
	case keepsFirstRules:
		for i := range c.Accounts {
			a := &c.Accounts[i]
			if l.disk.rules[a.Key] == nil {
				l.disk.rules[a.Key] = a.Rules
			}
			a.Rules = l.disk.rules[a.Key]
		}
	case losesDue:
		for i := range c.Accounts {
			c.Accounts[i].Due = 0
		}
	case losesRules:
		c.Rules = nil
	case losesHeldRules:
		for i := range c.Rules {
			c.Rules[i].Held = false
		}
	case truncatesStates:
		for i := range c.Accounts {
			a := &c.Accounts[i]
			a.Rules, a.State = a.Rules[:min(len(a.Rules), 512)], a.State[:min(len(a.State), 512)]
		}
	}
	for i := range c.Accounts {
		c.Accounts[i].Key = l.keptAccount(c.Accounts[i].Key)
	}
	for i := range c.Entries {
		e := &c.Entries[i]
		e.Account = l.keptAccount(e.Account)
		l.disk.ends[e.Account] = e.Seq
		if !l.disk.ids[e.RequestID] {
			l.disk.entries[e.RequestID] = append(l.disk.entries[e.RequestID], *e)
		}
	}
	for _, list := range [][]ledger.Request{c.Requests, c.Replaced} {
		for i := range list {
			r := &list[i]
			l.disk.ids[r.ID] = true
			r.ID = l.kept(r.ID)
			for _, account := range r.Accounts {
				l.disk.answers[account] = r.Answer
			}
		}
	}
	for i := range c.Spends {
		c.Spends[i].ID = l.kept(c.Spends[i].ID)
	}
	for _, holds := range [][]ledger.Hold{c.Opened, c.Closed} {
		for i := range holds {
			holds[i].SpendID, holds[i].Account = l.kept(holds[i].SpendID), l.keptAccount(holds[i].Account)
		}
	}
	return c
}

// earlySnapshot answers with requests that were read before the lock.
type earlySnapshot struct {
	ledger.Snapshot
	found map[string]*ledger.Request
}

func (s earlySnapshot) Request(id string) (*ledger.Request, error) {
	if r, read := s.found[id]; read {
		return r, nil
	}
	return s.Snapshot.Request(id)
}

// brokenSnapshot is the state as a broken ledger reads it.
type brokenSnapshot struct {
	ledger.Snapshot
	l *brokenLedger
}

func (s *brokenSnapshot) Now() int64 {
	now := s.Snapshot.Now()
	switch s.l.fault {
	case wallClock:
		return time.Now().UnixMicro()
	case coarseClock:
		return now - now%1000
	}
	return now
}

func (s *brokenSnapshot) Locked(account string) bool {
	return s.l.fault != locksNoSpend && s.Snapshot.Locked(account)
}

func (s *brokenSnapshot) Account(key string) (ledger.Account, error) {
	return s.Snapshot.Account(s.l.keptAccount(key))
}

func (s *brokenSnapshot) Request(id string) (*ledger.Request, error) {
	l := s.l
	l.disk.mu.Lock()
	defer l.disk.mu.Unlock()
	if l.disk.lost.ids[id] {
		return nil, nil
	}
	r, err := s.Snapshot.Request(l.kept(id))
	if r != nil && l.fault == answersLast {
		changed := *r
		changed.Answer = l.disk.answers[r.Accounts[0]]
		r = &changed
	}
	return r, err
}

func (s *brokenSnapshot) Rules(budget string) (ledger.Rules, error) {
	r, err := s.Snapshot.Rules(budget)
	if s.l.fault == losesTexts {
		r.Text = nil
	}
	return r, err
}

func (s *brokenSnapshot) Entries(account string, after ledger.Place, upto int64, limit int) ([]ledger.Entry, ledger.Place, error) {
	account = s.l.keptAccount(account)
	switch s.l.fault {
	case entriesByDecision:
		all, err := s.Since(account, ledger.Position{At: math.MinInt64}, math.MaxInt)
		page := slices.DeleteFunc(slices.Clone(all), func(e ledger.Entry) bool { return e.At <= after.Dated || e.At > upto })
		slices.SortFunc(page, func(x, y ledger.Entry) int { return x.Place().Compare(y.Place()) })
		return page, ledger.EndOf(upto), err
	case splitsDates:
		page, through, err := s.Snapshot.Entries(account, after, upto, limit)
		return page, ledger.EndOf(through.Dated), err
	case skipsDates:
		after = ledger.EndOf(after.Dated)
	case repeatsDates:
		if after.Seq != math.MaxInt64 {
			after.Seq--
		}
	case entriesFromEdge:
		after.Dated = max(after.Dated, math.MinInt64+1) - 1
	case seesTooFar:
		page, through, err := s.Snapshot.Entries(account, after, upto, limit)
		if through.Dated >= upto {
			through = ledger.EndOf(math.MaxInt64)
		}
		return page, through, err
	case entriesBelowUpto:
		page, through, err := s.Snapshot.Entries(account, after, upto-1, limit)
		if through == ledger.EndOf(upto-1) {
			through = ledger.EndOf(upto)
		}
		return page, through, err
	}
	page, through, err := s.Snapshot.Entries(account, after, upto, limit)
	return s.l.left(account, page), through, err
}

func (s *brokenSnapshot) Since(account string, after ledger.Position, limit int) ([]ledger.Entry, error) {
	account = s.l.keptAccount(account)
	if s.l.fault == sinceRepeats && after.Seq > 0 {
		after.Seq--
	}
	entries, err := s.Snapshot.Since(account, after, limit)
	if s.l.fault == hidesDamage {
		// Entries that the ledger cannot read are left out: here, the corrections.
		entries = slices.DeleteFunc(slices.Clone(entries), func(e ledger.Entry) bool { return e.Part != e.Seq })
	}
	return s.l.left(account, entries), err
}

func (s *brokenSnapshot) Holds(account string, after ledger.Hold, upto int64, limit int) ([]ledger.Held, int64, error) {
	account = s.l.keptAccount(account)
	if s.l.fault == holdsLate {
		upto--
	}
	held, next, err := s.Snapshot.Holds(account, after, upto, limit)
	s.l.disk.mu.Lock()
	defer s.l.disk.mu.Unlock()
	held = slices.DeleteFunc(held, func(h ledger.Held) bool { return s.l.disk.lost.holds[h.ID] })
	if s.l.fault == holdsNoNext {
		next = 0
	}
	return held, next, err
}
