package book

import (
	"slices"

	"github.com/brimgo/brim/spend/ledger"
)

// Pages are stored entries of accounts by the date after which they begin. They stay true while a
// batch decides: a ledger stores the changes of its jobs at the end. Declines of one account ask for
// the same page, to tell when the amount would fit.
type Pages map[edge]page

type edge struct {
	account string
	after   int64
}

type page struct {
	list    []ledger.Entry
	through int64 // all entries dated up to here are in list
	limit   int   // of the read that it answered; 0 if it was read ahead
}

// MostKept is the largest limit of a read whose page is kept: whoever reads a whole window in long
// pages does not come back to them.
const MostKept = 64

// Keep keeps entries of an account: all that are dated after one time and up to another. limit is that
// of the read, or 0.
func (p Pages) Keep(account string, after int64, list []ledger.Entry, through int64, limit int) {
	if limit <= MostKept {
		p[edge{account, after}] = page{list, through, limit}
	}
}

// Get answers a read of stored entries, as [Reader] does, if a page can.
func (p Pages) Get(account string, after, upto int64, limit int) (list []ledger.Entry, through int64, kept bool) {
	k, kept := p[edge{account, after}]
	if !kept || upto > k.through && (k.limit != limit || len(k.list) < limit) {
		return nil, 0, false
	}
	if n := slices.IndexFunc(k.list, func(e ledger.Entry) bool { return e.Dated > upto }); n >= 0 {
		return k.list[:n:n], k.list[n].Dated - 1, true
	}
	return k.list, k.through, true
}
