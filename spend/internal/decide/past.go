package decide

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/brimgo/brim/spend/internal/book"
	"github.com/brimgo/brim/spend/internal/figures"
	"github.com/brimgo/brim/spend/ledger"
	"github.com/brimgo/brim/store"
)

const (
	minTime = figures.MinTime
	maxTime = figures.MaxTime
)

// past reads the entries of an account, and places them. It is the [figures.Past] of the account.
type past struct {
	key    string
	snap   ledger.Snapshot
	time   int64          // of the last decision, minTime if there was none; of this one after advance
	seq    int64          // number of the last entry
	sum    uint32         // of all entries; see [chained]
	gone   uint32         // of the entries that Prune has removed
	pruned int64          // entries up to this time may have been removed; minTime if none was
	mends  []mend         // oldest first
	added  []ledger.Entry // by this decision
}

// mend is one time at which an account was set right. The entries of the ledger stay as they are,
// so the reader moves them; see [past.place].
type mend struct {
	date int64 // of the mend by the ledger's clock; what is dated later counts from then on
	top  int64 // the time that the account had; holds with an end up to it have expired
	seq  int64 // number of the last entry before it
}

// place moves an entry to the date at which it counts in a mended account. A correction moves with
// the entry that it corrects, also if it is added later. So the sums of both stay exact, and no
// spend has to know of the mend.
func (p *past) place(e *ledger.Entry) {
	for _, m := range p.mends {
		if cmp.Or(e.Part, e.Seq) > m.seq {
			continue
		}
		if e.Dated = min(e.Dated, m.date); e.Expires <= m.top {
			e.Expires = min(e.Expires, m.date)
		}
	}
}

// placed returns copies of entries, placed.
func (p *past) placed(entries []ledger.Entry) []ledger.Entry {
	entries = slices.Clone(entries)
	for i := range entries {
		p.place(&entries[i])
	}
	return entries
}

// expired reports whether the hold of a spend has expired in the account.
func (p *past) expired(sp *spend) bool {
	e := ledger.Entry{Seq: sp.seqIn(p.key, sp.parts[0]), Expires: sp.expires}
	p.place(&e)
	return e.Expires <= p.time
}

// Time returns the time of the account.
func (p *past) Time() int64 { return p.time }

// Seq returns the number of the last entry.
func (p *past) Seq() int64 { return p.seq }

// Removed returns the date up to which Prune has removed entries. Those of before a mend count at
// its date at the latest, like the others.
func (p *past) Removed() int64 {
	date := p.pruned
	for _, m := range p.mends {
		if p.pruned < m.top { // later entries are of top at the earliest
			date = min(date, m.date)
		}
	}
	return date
}

// Latest returns a time, or the time of a later entry that a wrong clock has left: ledgers keep
// entries in the order of their times.
func (p *past) Latest(at int64) int64 {
	for _, m := range p.mends {
		at = max(at, m.top)
	}
	return at
}

// Page returns about limit of the entries after a place that are dated up to a time. It has read
// all of them up to through. Entries that a mend has moved are among those of its date, all of
// them.
func (p *past) Page(after ledger.Place, upto int64, limit int) (entries []ledger.Entry, through ledger.Place, err error) {
	entries, through, err = p.stored(after, upto, limit)
	if err != nil || len(p.mends) == 0 {
		return entries, through, err
	}
	if through.Dated > upto {
		through = ledger.EndOf(upto)
	}
	var list []ledger.Entry
	add := func(entries []ledger.Entry, moved bool) {
		for _, e := range entries {
			dated := e.Dated
			p.place(&e)
			if at := e.Place(); (e.Dated != dated) == moved && at.Compare(after) > 0 && at.Compare(through) <= 0 {
				list = append(list, e)
			}
		}
	}
	add(entries, false)
	for from, to := p.moved(after, through), ledger.EndOf(p.Latest(minTime)); from.Compare(to) < 0; {
		if entries, from, err = p.stored(from, to.Dated, movedPage); err != nil {
			return nil, after, err
		}
		add(entries, true)
	}
	book.Sort(list)
	return list, through, nil
}

// moved returns the place after which the ledger has the entries that mends have moved to places
// after one and up to another.
func (p *past) moved(after, through ledger.Place) ledger.Place {
	from := ledger.EndOf(maxTime)
	for _, m := range p.mends {
		if date := ledger.EndOf(m.date); date.Compare(after) > 0 && m.date <= through.Dated && m.date < from.Dated {
			from = date
		}
	}
	return from
}

// movedPage is the size of a page of entries that a mend has moved.
const movedPage = 1 << 14

// stored is Page with the dates of the ledger.
func (p *past) stored(after ledger.Place, upto int64, limit int) (entries []ledger.Entry, through ledger.Place, err error) {
	entries, through, err = p.snap.Entries(p.key, after, upto, limit)
	if err == nil && through.Compare(after) <= 0 {
		err = fmt.Errorf("spend: %w: the ledger returned no entries although it announced more", store.ErrCorrupt)
	}
	entries, through = book.Merge(entries, through, p.added, after, upto)
	return entries, through, err
}
