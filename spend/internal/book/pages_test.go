package book

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/brimgo/brim/spend/ledger"
)

// stored is a Reader with one account, whose entries have the dates 1, 2, 3 ...
type stored struct {
	Reader
	dates int64
	reads []string
}

func (s *stored) Account(key string) (ledger.Account, error) { return ledger.Account{Key: key}, nil }

func (s *stored) Entries(_ string, after, upto int64, limit int) (list []ledger.Entry, through int64, err error) {
	s.reads = append(s.reads, fmt.Sprint(after, " ", upto, " ", limit))
	for date := after + 1; date <= min(upto, s.dates); date++ {
		if len(list) == limit {
			return list, date - 1, nil
		}
		list = append(list, ledger.Entry{Seq: date, Part: date, At: date, Dated: date})
	}
	return list, upto, nil
}

func dates(list []ledger.Entry) (all []int64) {
	for _, e := range list {
		all = append(all, e.Dated)
	}
	return all
}

// TestPages: a batch reads a page once, whoever asks for it, and each answer has the entries of the
// jobs before it.
func TestPages(t *testing.T) {
	s := &stored{dates: 100}
	b := NewBatch(s, 1000)
	for _, c := range []struct {
		name              string
		after, upto       int64
		limit             int
		adds              int64 // the date of an entry that the job adds, or 0
		first, last, read int64
		through           int64
	}{
		{name: "a page", after: 10, upto: math.MaxInt64, limit: 4, first: 11, last: 14, through: 14, read: 1},
		{name: "the page again", after: 10, upto: math.MaxInt64, limit: 4, first: 11, last: 14, through: 14, adds: 12},
		{name: "with the entry of the job before", after: 10, upto: 12, limit: 4, first: 11, last: 12, through: 12},
		{name: "a part of it", after: 10, upto: 13, limit: 9, first: 11, last: 13, through: 13},
		{name: "more than it", after: 10, upto: math.MaxInt64, limit: 9, first: 11, last: 19, through: 19, read: 1},
		{name: "another edge", after: 11, upto: 20, limit: 4, first: 12, last: 15, through: 15, read: 1, adds: 1000},
		{name: "the end", after: 90, upto: math.MaxInt64, limit: 64, first: 91, last: 1000, through: math.MaxInt64, read: 1, adds: 1001},
		{name: "the end with both entries", after: 90, upto: math.MaxInt64, limit: 64, first: 91, last: 1001, through: math.MaxInt64},
		{name: "a long page", after: 0, upto: math.MaxInt64, limit: 80, first: 1, last: 80, through: 80, read: 1},
		{name: "the long page again", after: 0, upto: math.MaxInt64, limit: 80, first: 1, last: 80, through: 80, read: 1},
	} {
		s.reads = nil
		err := b.Run(&ledger.Job{Run: func(snap ledger.Snapshot) (*ledger.Changes, error) {
			list, through, err := snap.Entries("a", c.after, c.upto, c.limit)
			if err != nil {
				return nil, err
			}
			got := dates(list)
			if len(got) == 0 || got[0] != c.first || got[len(got)-1] != c.last || !slices.IsSorted(got) || through != c.through {
				t.Errorf("%s: dates %v through %d; want those from %d to %d through %d", c.name, got, through, c.first, c.last, c.through)
			}
			if c.adds == 0 {
				return nil, nil
			}
			return &ledger.Changes{Entries: []ledger.Entry{{Account: "a", Seq: c.adds, At: c.adds, Dated: c.adds}}}, nil
		}})
		if err != nil || int64(len(s.reads)) != c.read {
			t.Errorf("%s: %d reads %v, %v; want %d", c.name, len(s.reads), s.reads, err, c.read)
		}
	}
	if list, _, _ := b.Entries("a", 10, 12, 4); !slices.Equal(dates(list), []int64{11, 12, 12}) {
		t.Errorf("dates %v; want the added entry among the stored ones", dates(list))
	}
	if list, _, _ := b.Entries("a", 100, math.MaxInt64, 4); !slices.Equal(dates(list), []int64{1000, 1001}) {
		t.Errorf("dates %v; want the added entries alone", dates(list))
	}
}
