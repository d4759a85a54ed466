package decide

import (
	"cmp"
	"slices"

	"github.com/brimgo/brim/spend/internal/figures"
	"github.com/brimgo/brim/spend/ledger"
)

// life is a spend as the entries of an account tell it.
type life struct {
	made     int64 // see [proof.made]
	amount   int64 // of the request that began it
	parts    []lifePart
	expires  int64 // the end of the hold, and whether it spends; 0 if nothing was ever held
	spends   bool
	expired  bool // an entry ends the hold, because it has expired
	canceled bool
}

// lifePart is a part of a spend: its entry, and the sums of it and of its corrections.
type lifePart struct{ seq, date, held, used int64 }

func (l *life) held() (n int64) {
	for _, p := range l.parts {
		n += p.held
	}
	return n
}

// add adds an entry as a part.
func (l *life) add(e *ledger.Entry) {
	l.amount = e.SpendAmount
	l.parts = append(l.parts, lifePart{seq: e.Seq, date: e.Dated})
	l.count(e, e.Seq)
}

// count adds the money of an entry to the part of a number, and reports whether there is one.
func (l *life) count(e *ledger.Entry, part int64) bool {
	i, found := slices.BinarySearchFunc(l.parts, part, func(p lifePart, seq int64) int { return cmp.Compare(p.seq, seq) })
	if !found {
		return false
	}
	p := &l.parts[i]
	p.held, p.used = p.held+e.Held, p.used+e.Used
	if e.Held > 0 {
		l.expires, l.spends = e.Expires, e.Spends
	}
	return true
}

// live lets an entry begin a spend, or continue one.
func (p *proof) live(e *ledger.Entry) error {
	id, unborn := e.SpendID, e.Kind == figures.KindCancel && e.SpendID == ""
	if unborn {
		id = e.RequestID
	}
	l := p.lives[id]
	if unborn || e.SpendID == e.RequestID && slices.Contains(begins, e.Kind) {
		switch {
		case l != nil || len(p.lives) < mostLives && p.until.Seq == 0:
			l = &life{made: p.made(e), canceled: unborn}
			l.add(e)
			p.lives[id] = l
		case p.until.Seq == 0:
			p.until = p.at
		}
		return nil
	}
	if l != nil && !l.goOn(e) {
		return damaged("entry %d corrects an entry that is no part of its spend", e.Seq)
	}
	return nil
}

var (
	begins = []string{figures.KindSpend, figures.KindRecord, figures.KindAuthorize}
	// The kinds of entries that move no money of the spend, unless they correct a part.
	moveless = []string{figures.KindCancel, figures.KindDecline, figures.KindCredit, figures.KindExtend}
)

// goOn adds a later entry of the spend. It reports false if the entry corrects none of the spend.
func (l *life) goOn(e *ledger.Entry) bool {
	l.canceled = l.canceled || e.Kind == figures.KindCancel
	l.expired = l.expired || e.Kind == figures.KindExpire
	switch {
	case e.Part != e.Seq && e.Part != 0:
		return l.count(e, e.Part)
	case !slices.Contains(moveless, e.Kind):
		l.add(e)
	}
	return true
}

// checkSpend compares the request that began a spend with the entries of the spend.
func (p *proof) checkSpend(r *ledger.Request, l *life, now int64) error {
	if r == nil || r.Spend == nil || !slices.Contains(r.Accounts, p.key) { // or the ID has got a new request
		if l.held() > 0 || p.young(l.made, now) {
			return damaged("a spend is gone, although it is younger than KeepIDs, or held")
		}
		return nil
	}
	sp, err := spendOf(r)
	if err != nil {
		return err
	}
	if !l.is(sp, slices.Index(r.Accounts, p.key)) {
		return damaged("a spend differs from its entries")
	}
	return nil
}

// is reports whether the entries of an account, which is number i of the spend's, make the spend.
func (l *life) is(sp *spend, i int) bool {
	if l.amount != sp.amount || len(l.parts) != len(sp.parts) || l.canceled != (sp.ended == figures.KindCancel) ||
		l.expires != 0 && (l.expires != sp.expires || l.spends != sp.spends) {
		return false
	}
	for n, is := range l.parts {
		p := &sp.parts[n]
		if is.seq != p.seqs[i] || is.date != p.dates[i] || !l.moved(is, p, sp.spends) {
			return false
		}
	}
	return true
}

// moved reports whether a part has the money of a stored part. An expiry changes no spend: the
// entry that ends the hold may be there already, or not yet.
func (l *life) moved(is lifePart, p *part, spends bool) bool {
	used, over := p.taken-p.refunded, is.held != p.held
	switch {
	case over && (is.held != 0 || !l.expired && !l.canceled):
		return false
	case spends && l.canceled && !over:
		used -= p.held // the expiry is to spend it
	case spends && !l.canceled && over:
		used += p.held
	}
	return is.used == used
}

// checkHolds compares the open holds of the account with the spends, and the ends of the account
// with the holds.
func (p *proof) checkHolds(out *sight) error {
	held := make(map[string]bool, len(out.holds))
	for _, sp := range out.holds {
		i, l := slices.Index(sp.accounts, p.key), p.lives[sp.id]
		if l == nil && !p.follows(sp.parts[0].seqs[i], out.account.expired(sp)) {
			continue
		}
		if l == nil || l.held() == 0 || !l.is(sp, i) {
			return damaged("a hold differs from its entries, or has none")
		}
		held[sp.id] = true
	}
	for id, l := range p.lives {
		if l.held() > 0 && !held[id] {
			return damaged("the hold of a spend is gone")
		}
	}
	return out.checkEnds()
}

// follows reports whether the pass follows a spend with a hold that entry seq began. Prune may have
// removed that entry if the hold has expired.
func (p *proof) follows(seq int64, expired bool) bool {
	return seq > p.from.Seq && (p.until.Seq == 0 || seq <= p.until.Seq) && !(expired && seq < p.first)
}

// checkEnds compares the ends of the account with its holds.
func (s *sight) checkEnds() error {
	var want holdings
	for _, sp := range s.holds {
		if !s.account.expired(sp) {
			want.open(ledger.Hold{Expires: sp.expires}, sp.dateIn(s.account.key, sp.parts[0]))
		}
	}
	a := s.account
	same := slices.EqualFunc(a.ends, want.ends, func(is, want end) bool {
		return is.at == want.at && is.holds == want.holds && is.since <= want.since
	})
	if !same || len(s.holds) > 0 && (a.next == 0 || a.next > s.holds[0].expires) {
		return damaged("the ends of the holds of an account differ from its holds")
	}
	return nil
}
