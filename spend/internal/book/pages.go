package book

import (
	"slices"

	"github.com/brimgo/brim/spend/ledger"
)

// Through returns the place up to which a page has all entries that has stopped at one place,
// before the next one: within a date only if both have that date.
func Through(last, next ledger.Place) ledger.Place {
	if next.Dated > last.Dated {
		return ledger.EndOf(last.Dated)
	}
	return last
}

// Sort sorts entries by their places.
func Sort(list []ledger.Entry) {
	slices.SortFunc(list, func(x, y ledger.Entry) int { return x.Place().Compare(y.Place()) })
}

// Pages are stored entries of accounts by the place after which they begin. They stay true while a
// batch decides: a ledger stores the changes of its jobs at the end. Declines of one account ask
// for the same page, to tell when the amount would fit.
type Pages map[edge]page

type edge struct {
	account string
	after   ledger.Place
}

type page struct {
	list    []ledger.Entry
	through ledger.Place // all entries up to here are in list
	limit   int          // of the read that it answered; 0 if it was read ahead
}

// MostKept is the largest limit of a read whose page is kept: whoever reads a whole window in long
// pages does not come back to them.
const MostKept = 64

// Keep keeps entries of an account: all that come after one place and up to another. limit is that
// of the read, or 0.
func (p Pages) Keep(account string, after ledger.Place, list []ledger.Entry, through ledger.Place, limit int) {
	if limit <= MostKept {
		p[edge{account, after}] = page{list, through, limit}
	}
}

// Get answers a read of stored entries, as [Reader] does, if a page can.
func (p Pages) Get(account string, after ledger.Place, upto int64, limit int) (list []ledger.Entry, through ledger.Place, kept bool) {
	k, kept := p[edge{account, after}]
	if !kept || k.through.Compare(ledger.EndOf(upto)) < 0 && k.limit != limit && len(k.list) < limit {
		return nil, ledger.Place{}, false
	}
	if n := slices.IndexFunc(k.list, func(e ledger.Entry) bool { return e.Dated > upto }); n >= 0 {
		return k.list[:n:n], ledger.EndOf(k.list[n].Dated - 1), true
	}
	if k.through.Dated > upto && k.through != ledger.EndOf(k.through.Dated) { // entries of that date follow
		return k.list, ledger.EndOf(k.through.Dated - 1), true
	}
	return k.list, k.through, true
}

// Listing gathers a page of an account's entries from two lists: all entries in the order of their
// numbers, and the corrections in the order of their places. Both begin after one place and end at
// one date. Entries that correct are in the first list, too, so that whoever reads it looks at no
// more entries than it returns.
type Listing struct {
	list    []ledger.Entry
	through ledger.Place // up to which both lists have all entries
	most    int
	rows    [2]int // of each list
	last    [2]ledger.Place
}

// NewListing returns a Listing of the entries up to a date. Each list has at most that many
// entries. The last of a full one only tells where it goes on.
func NewListing(upto int64, most int) *Listing {
	return &Listing{through: ledger.EndOf(upto), most: most}
}

// Add adds the next entry of a list, which is the one of the corrections or the other.
func (l *Listing) Add(e ledger.Entry, corrections bool) {
	part, place := 0, ledger.Place{Dated: e.At, Seq: e.Seq}
	if corrections {
		part, place = 1, e.Place()
	}
	if l.rows[part]++; l.rows[part] == l.most {
		if stop := Through(l.last[part], place); stop.Compare(l.through) < 0 {
			l.through = stop
		}
	}
	l.last[part] = place
	if corrections == (e.Part != e.Seq) {
		l.list = append(l.list, e)
	}
}

// Page returns the entries in the order of their places, and the place up to which they are all.
func (l *Listing) Page() ([]ledger.Entry, ledger.Place) {
	list := slices.DeleteFunc(l.list, func(e ledger.Entry) bool { return e.Place().Compare(l.through) > 0 })
	Sort(list)
	return list, l.through
}
