package spend

import (
	"fmt"
	"maps"
	"slices"

	"github.com/brimgo/brim/spend/ledger"
	"github.com/brimgo/brim/store"
)

// Kinds of entries, and of requests.
const (
	kindSpend     = "spend"     // used rises
	kindRecord    = "record"    // used rises, whatever the rules say
	kindAuthorize = "authorize" // held rises
	kindIncrease  = "increase"  // held rises
	kindCapture   = "capture"   // held becomes used, or used rises by what was forced beyond it
	kindRelease   = "release"   // held falls: the rest of a final capture
	kindVoid      = "void"      // held falls
	kindExpire    = "expire"    // held falls
	kindRefund    = "refund"    // used falls
	kindDecline   = "decline"   // nothing changes
)

// record is what is kept of a spend from its authorization to its last refund. It changes only in decisions that hold all of
// its accounts. That it has expired is nowhere in it: that follows from the time of whoever asks, which never runs back, and so
// each account can end its part of a hold without the others.
type record struct {
	id       string
	accounts []string
	currency string
	tags     map[string]string
	expires  int64 // 0 where nothing was ever held
	total    int64 // all that was asked for: authorized, increased and forced
	counted  bool  // it counts as a spend, unless it has expired with nothing captured
	ended    string
	parts    []part
}

// part is money that counts at one date: an authorization, an increase, or what was taken beyond them.
type part struct {
	at              int64
	seqs            []int64 // of its entry in each account
	held            int64
	taken, refunded int64
}

func decodeSpend(id string, accounts []string, b []byte) (*record, error) {
	d := newDecoder("a spend", b)
	sp := &record{id: id, accounts: accounts, currency: d.string(), expires: d.int(), total: d.int(), counted: d.bool(), ended: d.string()}
	if n := d.count(); n > 0 {
		sp.tags = make(map[string]string, n)
		for range n {
			tag := d.string()
			sp.tags[tag] = d.string()
		}
	}
	for range d.count() {
		p := part{at: d.int(), held: d.int(), taken: d.int(), refunded: d.int()}
		for range accounts {
			p.seqs = append(p.seqs, d.int())
		}
		sp.parts = append(sp.parts, p)
	}
	return sp, d.err
}

func (sp *record) encode() []byte {
	e := newEncoder()
	e.string(sp.currency)
	e.int(sp.expires)
	e.int(sp.total)
	e.bool(sp.counted)
	e.string(sp.ended)
	e.int(int64(len(sp.tags)))
	for _, tag := range slices.Sorted(maps.Keys(sp.tags)) {
		e.string(tag)
		e.string(sp.tags[tag])
	}
	e.int(int64(len(sp.parts)))
	for _, p := range sp.parts {
		e.int(p.at)
		e.int(p.held)
		e.int(p.taken)
		e.int(p.refunded)
		for _, seq := range p.seqs {
			e.int(seq)
		}
	}
	return e.b
}

// leg is the place of an account among those of the spend.
func (sp *record) leg(key string) int { return slices.Index(sp.accounts, key) }

func (sp *record) captured() bool {
	return slices.ContainsFunc(sp.parts, func(p part) bool { return p.taken > 0 })
}

// held is what is reserved in all.
func (sp *record) held() (n int64) {
	for _, p := range sp.parts {
		n += p.held
	}
	return n
}

// refundable is what was taken and not given back.
func (sp *record) refundable() (n int64) {
	for _, p := range sp.parts {
		n += p.taken - p.refunded
	}
	return n
}

// usable reports why a hold cannot be captured, increased or voided at now.
func (sp *record) usable(now int64) error {
	switch {
	case sp.expires == 0:
		return fmt.Errorf("spend: %w: it was spent or recorded at once, and nothing of it is held", ErrHoldEnded)
	case sp.ended != "":
		return fmt.Errorf("spend: %w: it was ended by %s", ErrHoldEnded, sp.ended)
	case sp.expires <= now:
		return fmt.Errorf("spend: %w; if the money is gone all the same, capture it with Force", ErrHoldExpired)
	}
	return nil
}

// begin adds a part dated now to the spend and all of its accounts.
func (sp *record) begin(accounts []*account, e ledger.Entry, held, used, spends int64) error {
	total, ok := add(sp.total, held+used)
	if !ok {
		return fmt.Errorf("spend: %w: the spend's total would be out of range", ErrAmount)
	}
	sp.total = total
	p := part{at: accounts[0].time, held: held, taken: used}
	for _, a := range accounts {
		e.SpendID, e.Held, e.Used, e.Count, e.Tags = sp.id, held, used, spends, sp.tags
		seq, err := a.add(e)
		if err != nil {
			return err
		}
		p.seqs = append(p.seqs, seq)
	}
	sp.parts = append(sp.parts, p)
	return nil
}

// correct writes a correction of a part into an account.
func (sp *record) correct(a *account, i int, e ledger.Entry) error {
	p := &sp.parts[i]
	e.SpendID, e.Tags, e.Dated, e.Part = sp.id, sp.tags, p.at, p.seqs[sp.leg(a.key)]
	_, err := a.add(e)
	return err
}

// take captures up to n of what is held, the oldest part first, and reports what was not held.
func (sp *record) take(accounts []*account, id string, n int64) (rest int64, err error) {
	for i := range sp.parts {
		p := &sp.parts[i]
		k := min(n, p.held)
		if k == 0 {
			continue
		}
		for _, a := range accounts {
			if err := sp.correct(a, i, ledger.Entry{Kind: kindCapture, RequestID: id, Amount: k, Used: k, Held: -k}); err != nil {
				return 0, err
			}
		}
		p.held -= k
		p.taken += k
		n -= k
	}
	return n, nil
}

// release writes into one account that nothing is held any more, the newest part first. The record itself stays as it is.
func (sp *record) release(a *account, kind, id string) error {
	uncounted := int64(0)
	if sp.counted && !sp.captured() {
		uncounted = -1
	}
	for i := len(sp.parts) - 1; i >= 0; i-- {
		held := sp.parts[i].held
		if held == 0 {
			continue
		}
		e := ledger.Entry{Kind: kind, RequestID: id, Amount: held, Held: -held}
		if i == 0 {
			e.Count = uncounted
		}
		if err := sp.correct(a, i, e); err != nil {
			return err
		}
	}
	return nil
}

// end releases what is still held in all accounts.
func (sp *record) end(accounts []*account, kind, id string) error {
	for _, a := range accounts {
		if err := sp.release(a, kind, id); err != nil {
			return err
		}
		a.end(sp.expires, sp.id)
	}
	sp.forget(sp.captured())
	sp.ended = kindCapture
	if !sp.captured() {
		sp.ended = kindVoid
	}
	return nil
}

// forget notes that nothing is held.
func (sp *record) forget(counted bool) {
	for i := range sp.parts {
		sp.parts[i].held = 0
	}
	sp.counted = sp.counted && counted
}

// refund gives back n of what was taken, the newest part first.
func (sp *record) refund(accounts []*account, id string, n int64) error {
	for i := len(sp.parts) - 1; i >= 0 && n > 0; i-- {
		p := &sp.parts[i]
		k := min(n, p.taken-p.refunded)
		if k == 0 {
			continue
		}
		for _, a := range accounts {
			if err := sp.correct(a, i, ledger.Entry{Kind: kindRefund, RequestID: id, Amount: k, Used: -k}); err != nil {
				return err
			}
		}
		p.refunded += k
		n -= k
	}
	return nil
}

// check refuses what cannot have been written.
func (sp *record) check() error {
	if len(sp.accounts) == 0 || len(sp.parts) == 0 {
		return fmt.Errorf("%w: a spend has no account or no amount", store.ErrCorrupt)
	}
	return nil
}
