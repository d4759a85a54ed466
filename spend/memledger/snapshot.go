package memledger

import (
	"cmp"
	"math"
	"slices"

	"github.com/brimgo/brim/spend/ledger"
)

// snapshot reads the ledger itself, which stays locked while a job runs.
type snapshot struct {
	l      *book
	now    int64
	locked []string
}

func (l *book) snapshot(job *ledger.Job) *snapshot {
	s := &snapshot{l: l, now: l.clock.Now(), locked: job.Accounts}
	if r := l.requests[job.SpendID]; r != nil {
		s.locked = append(slices.Clone(s.locked), r.Accounts...)
	}
	return s
}

func (s *snapshot) Now() int64                 { return s.now }
func (s *snapshot) Locked(account string) bool { return slices.Contains(s.locked, account) }

func (s *snapshot) Account(key string) (ledger.Account, error) {
	if a := s.l.accounts[key]; a != nil {
		return a.Account, nil
	}
	return ledger.Account{Key: key}, nil
}

func (s *snapshot) Request(id string) (*ledger.Request, error) { return s.l.requests[id], nil }

func (s *snapshot) Entries(key string, after, upto int64, limit int) (page []ledger.Entry, through int64, err error) {
	a := s.l.accounts[key]
	if a == nil {
		return nil, upto, nil
	}
	i, j := a.after(after), a.corrected(after)
	for last := after; ; {
		date := int64(math.MaxInt64)
		if i < len(a.entries) {
			date = a.entries[i].At
		}
		if j < len(a.corrections) {
			date = min(date, a.corrections[j].date)
		}
		switch {
		case date > upto || i == len(a.entries) && j == len(a.corrections):
			return page, max(upto, date-1), nil
		case len(page) >= limit:
			return page, last, nil
		}
		start := len(page)
		last = date
		for ; i < len(a.entries) && a.entries[i].At == date; i++ {
			if a.entries[i].Part == a.entries[i].Seq {
				page = append(page, a.entries[i])
			}
		}
		for ; j < len(a.corrections) && a.corrections[j].date == date; j++ {
			page = append(page, a.entries[a.corrections[j].seq-a.entries[0].Seq])
		}
		slices.SortFunc(page[start:], func(x, y ledger.Entry) int { return cmp.Compare(x.Seq, y.Seq) })
	}
}

func (s *snapshot) Since(key string, after ledger.Position) ([]ledger.Entry, error) {
	a := s.l.accounts[key]
	if a == nil {
		return nil, nil
	}
	first := a.after(after.At - 1)
	if after.At == math.MinInt64 {
		first = 0
	}
	for first < len(a.entries) && a.entries[first].Seq <= after.Seq {
		first++
	}
	return a.entries[first:], nil
}

func (s *snapshot) Holds(key string, upto int64, limit int) (held []ledger.Request, next int64, err error) {
	a := s.l.accounts[key]
	if a == nil {
		return nil, 0, nil
	}
	for _, h := range a.holds {
		if h.Expires > upto || len(held) == limit {
			return held, h.Expires, nil
		}
		held = append(held, *s.l.requests[h.SpendID])
	}
	return held, 0, nil
}
