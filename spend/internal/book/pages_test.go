package book

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/brimgo/brim/spend/ledger"
)

// stored is a Reader with one account: two entries of each of the dates 1, 2, 3 ... The numbers of
// a date's entries are twice the date, and one more. It passes over those of the dates 71 to 80.
type stored struct {
	Reader
	dates int64
	reads []string
}

func (s *stored) Account(key string) (ledger.Account, error) { return ledger.Account{Key: key}, nil }

func (s *stored) Entries(
	_ string, after ledger.Place, upto int64, limit int,
) (list []ledger.Entry, through ledger.Place, err error) {
	s.reads = append(s.reads, fmt.Sprint(after, " ", upto, " ", limit))
	n := 0
	for _, e := range s.all() {
		switch place := e.Place(); {
		case place.Compare(after) <= 0 || e.Dated > upto:
			continue
		case n == limit:
			return list, Through(through, place), nil
		case e.Dated <= 70 || e.Dated > 80:
			list = append(list, e)
		}
		n++
		through = e.Place()
	}
	return list, ledger.EndOf(upto), nil
}

func (s *stored) all() (list []ledger.Entry) {
	for seq := int64(2); seq < 2*s.dates+2; seq++ {
		list = append(list, ledger.Entry{Seq: seq, Part: seq, At: seq / 2, Dated: seq / 2})
	}
	return list
}

func (s *stored) Since(_ string, after ledger.Position, limit int) ([]ledger.Entry, error) {
	list := s.all()[min(after.Seq-1, 2*s.dates):]
	return list[:min(limit, len(list))], nil
}

func seqs(list []ledger.Entry) (all []int64) {
	for _, e := range list {
		all = append(all, e.Seq)
	}
	return all
}

// TestPages: a batch reads a page once, whoever asks for it, and each answer has the entries of the
// jobs before it, but no more than the limit.
func TestPages(t *testing.T) {
	s := &stored{dates: 100}
	b := NewBatch(s, 1000)
	ten := ledger.EndOf(10)
	for _, c := range []struct {
		name        string
		after       ledger.Place
		upto        int64
		limit       int
		adds        int64 // the date of an entry that the job adds, or 0; its number is 1,000 more
		first, last int64 // numbers
		read        int
		through     ledger.Place
	}{
		{name: "a page", after: ten, upto: math.MaxInt64, limit: 5, first: 22, last: 26, through: ledger.Place{Dated: 13, Seq: 26}, read: 1},
		{name: "the page again", after: ten, upto: math.MaxInt64, limit: 5, first: 22, last: 26, through: ledger.Place{Dated: 13, Seq: 26}},
		{name: "less of it, within a date", after: ten, upto: math.MaxInt64, limit: 3, first: 22, last: 24, through: ledger.Place{Dated: 12, Seq: 24}},
		{name: "less of it, and a whole date", after: ten, upto: math.MaxInt64, limit: 4, first: 22, last: 25, through: ledger.EndOf(12)},
		{name: "the end of it", after: ten, upto: 13, limit: 5, first: 22, last: 26, through: ledger.Place{Dated: 13, Seq: 26}},
		{name: "more than it", after: ten, upto: 13, limit: 6, first: 22, last: 27, through: ledger.EndOf(13), read: 1},
		{name: "a part of it", after: ten, upto: 12, limit: 9, first: 22, last: 25, through: ledger.EndOf(12)},
		{name: "a page from within a date", after: ledger.Place{Dated: 13, Seq: 26}, upto: 14, limit: 9, first: 27, last: 29, through: ledger.EndOf(14), read: 1, adds: 12},
		{name: "with an entry of the job before", after: ten, upto: 12, limit: 9, first: 22, last: 1012, through: ledger.EndOf(12)},
		{name: "as many as the limit", after: ten, upto: 13, limit: 6, first: 22, last: 26, through: ledger.Place{Dated: 13, Seq: 26}, adds: 13},
		{name: "a fresh entry of the last date", after: ledger.Place{Dated: 13, Seq: 26}, upto: 14, limit: 9, first: 27, last: 29, through: ledger.EndOf(14), adds: 15},
		{name: "a fresh entry behind", after: ledger.Place{Dated: 14, Seq: 29}, upto: 14, limit: 9, first: 0, last: 0, through: ledger.EndOf(14), read: 1, adds: 1000},
		{name: "entries that are passed over", after: ledger.EndOf(70), upto: 82, limit: 5, through: ledger.Place{Dated: 73, Seq: 146}, read: 1},
		{name: "the empty page, before the date within which it ends", after: ledger.EndOf(70), upto: 71, limit: 5, through: ledger.EndOf(72)},
		{name: "the empty page again", after: ledger.EndOf(70), upto: 82, limit: 5, through: ledger.Place{Dated: 73, Seq: 146}},
		{name: "the empty page with another limit", after: ledger.EndOf(70), upto: 82, limit: 22, first: 162, last: 163, through: ledger.EndOf(81), read: 1},
		{name: "no entries", after: ledger.EndOf(100), upto: 200, limit: 9, through: ledger.EndOf(200), read: 1},
		{name: "none up to a later date", after: ledger.EndOf(100), upto: 150, limit: 9, through: ledger.EndOf(200), adds: 200},
		{name: "none up to a fresh one", after: ledger.EndOf(100), upto: 150, limit: 9, through: ledger.EndOf(199)},
		{name: "the end", after: ledger.EndOf(90), upto: math.MaxInt64, limit: 64, first: 182, last: 2000, through: ledger.EndOf(math.MaxInt64), read: 1, adds: 1001},
		{name: "the end with both entries", after: ledger.EndOf(90), upto: math.MaxInt64, limit: 64, first: 182, last: 2001, through: ledger.EndOf(math.MaxInt64)},
		{name: "a long page", after: ledger.EndOf(0), upto: math.MaxInt64, limit: 80, first: 2, last: 78, through: ledger.Place{Dated: 39, Seq: 78}, read: 1},
		{name: "the long page again", after: ledger.EndOf(0), upto: math.MaxInt64, limit: 80, first: 2, last: 78, through: ledger.Place{Dated: 39, Seq: 78}, read: 1},
	} {
		s.reads = nil
		err := b.Run(&ledger.Job{Run: func(snap ledger.Snapshot) (*ledger.Changes, error) {
			list, through, err := snap.Entries("a", c.after, c.upto, c.limit)
			if err != nil {
				return nil, err
			}
			var first, last int64
			if n := len(list); n > 0 {
				first, last = list[0].Seq, list[n-1].Seq
			}
			sorted := slices.IsSortedFunc(list, func(x, y ledger.Entry) int { return x.Place().Compare(y.Place()) })
			if first != c.first || last != c.last || !sorted || len(list) > c.limit || through != c.through {
				t.Errorf("%s: entries %v through %d; want those from %d to %d through %d", c.name, seqs(list), through, c.first, c.last, c.through)
			}
			if c.adds == 0 {
				return nil, nil
			}
			return &ledger.Changes{Entries: []ledger.Entry{{Account: "a", Seq: 1000 + c.adds, At: c.adds, Dated: c.adds}}}, nil
		}})
		if err != nil || len(s.reads) != c.read {
			t.Errorf("%s: %d reads %v, %v; want %d", c.name, len(s.reads), s.reads, err, c.read)
		}
	}
}

// TestSince: a batch appends the entries of its jobs to those of the ledger, up to the limit.
func TestSince(t *testing.T) {
	b := NewBatch(&stored{dates: 10}, 1000)
	fresh := []ledger.Entry{{Account: "a", Seq: 22, At: 11, Dated: 11}, {Account: "a", Seq: 23, At: 11, Dated: 11}}
	if err := b.Run(&ledger.Job{Run: func(ledger.Snapshot) (*ledger.Changes, error) { return &ledger.Changes{Entries: fresh}, nil }}); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		after ledger.Position
		limit int
		want  []int64
	}{
		{ledger.Position{At: 9, Seq: 19}, 1, []int64{20}},
		{ledger.Position{At: 9, Seq: 19}, 2, []int64{20, 21}},
		{ledger.Position{At: 9, Seq: 19}, 3, []int64{20, 21, 22}},
		{ledger.Position{At: 9, Seq: 19}, 5, []int64{20, 21, 22, 23}},
		{ledger.Position{At: 11, Seq: 22}, 5, []int64{23}},
	} {
		if list, err := b.Since("a", c.after, c.limit); err != nil || !slices.Equal(seqs(list), c.want) {
			t.Errorf("%d entries after %v: %v, %v; want %v", c.limit, c.after, seqs(list), err, c.want)
		}
	}
}
