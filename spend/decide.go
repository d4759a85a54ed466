package spend

import (
	"bytes"
	"fmt"

	"github.com/brimgo/brim/spend/ledger"
)

// decision is the making of one: the accounts that it concerns, all at one time.
type decision struct {
	s        *Budgets
	act      *action
	snap     ledger.Snapshot
	now      int64
	accounts []*account
	declines []decline
	spend    *record // that it began or changed
	began    bool
}

// decline is a rule that refuses.
type decline struct {
	account, rule int
	n             int64
}

// job makes a decision of an action. Nothing of out counts before the ledger says that the job was done.
func (s *Budgets) job(act *action, out *Decision) *ledger.Job {
	return &ledger.Job{
		Accounts: act.keys, Requests: []string{act.id}, SpendID: act.spend,
		Run: func(snap ledger.Snapshot) (*ledger.Changes, error) {
			prior, err := snap.Request(act.id)
			if err != nil {
				return nil, err
			}
			if prior != nil {
				if !bytes.Equal(prior.Content, act.digest()) {
					return nil, fmt.Errorf("spend: %w; a new request needs a new ID", ErrIDReused)
				}
				*out, err = decodeAnswer(prior)
				out.Replayed = true
				return nil, err
			}
			x := &decision{s: s, act: act, snap: snap}
			if err := x.decide(); err != nil {
				return nil, err
			}
			if *out, err = x.answer(); err != nil {
				return nil, err
			}
			return x.changes(out), nil
		},
	}
}

// decide decides an action that is new.
func (x *decision) decide() error {
	if x.act.spend == "" {
		if err := x.load(x.act.keys); err != nil {
			return err
		}
		return x.charge()
	}
	sp, err := x.find(x.act.spend)
	if err != nil {
		return err
	}
	x.spend = sp
	if err := x.load(sp.accounts); err != nil {
		return err
	}
	switch x.act.kind {
	case kindIncrease:
		return x.increase()
	case kindCapture:
		return x.capture()
	case kindVoid:
		return x.void()
	}
	return x.refund()
}

// find reads a spend.
func (x *decision) find(id string) (*record, error) {
	r, err := x.snap.Request(id)
	if err != nil {
		return nil, err
	}
	if r == nil || r.Spend == nil {
		return nil, fmt.Errorf("spend: %w: its ID is unknown, was declined, or is older than KeepIDs", ErrUnknownSpend)
	}
	for _, key := range r.Accounts {
		if !x.snap.Locked(key) { // it was not there yet when the accounts were locked
			return nil, fmt.Errorf("spend: %w: it is being authorized at this moment", ErrUnknownSpend)
		}
	}
	sp, err := decodeSpend(r.ID, r.Accounts, r.Spend)
	if err != nil {
		return nil, err
	}
	if x.act.kind != kindVoid && x.act.currency != sp.currency {
		return nil, fmt.Errorf("spend: %w: the amount is in %.8q and the spend in %q", ErrCurrency, x.act.currency, sp.currency)
	}
	return sp, sp.check()
}

// load reads the accounts and brings all of them to one time, the latest that any of them or the clock has.
func (x *decision) load(keys []string) error {
	x.now = x.snap.Now()
	for _, key := range keys {
		b := x.s.all[split(key).Budget]
		if b == nil {
			return requestErr("no budget is called %.64q; give it to New in Options.Budgets", split(key).Budget)
		}
		a, err := b.load(x.snap, key)
		if err != nil {
			return err
		}
		x.accounts = append(x.accounts, a)
		x.now = max(x.now, a.time)
	}
	for _, a := range x.accounts {
		if err := a.settle(x.now); err != nil {
			return err
		}
	}
	return nil
}

// ask asks all rules of all accounts, and notes those that refuse.
func (x *decision) ask(n, total, spends int64, tags map[string]string) (agreed bool) {
	for i, a := range x.accounts {
		for j, u := range a.rules {
			if u.fits(n, total, spends, x.now, tags) {
				continue
			}
			d := decline{account: i, rule: j, n: n}
			if u.rule.kind == count {
				d.n = spends
			}
			x.declines = append(x.declines, d)
		}
	}
	return len(x.declines) == 0
}

// refuse writes down that an action was declined.
func (x *decision) refuse(tags map[string]string) error {
	refused := make([][]string, len(x.accounts))
	for _, d := range x.declines {
		refused[d.account] = append(refused[d.account], x.accounts[d.account].rules[d.rule].name)
	}
	for i, a := range x.accounts {
		e := ledger.Entry{Kind: kindDecline, RequestID: x.act.id, SpendID: x.act.spend, Amount: x.act.amount, Tags: tags, Refused: refused[i]}
		if _, err := a.add(e); err != nil {
			return err
		}
	}
	x.spend = nil
	return nil
}

// charge decides Spend, Authorize and Record.
func (x *decision) charge() error {
	act := x.act
	agreed := x.ask(act.amount, act.amount, 1, act.tags)
	if !agreed && act.kind != kindRecord {
		return x.refuse(act.tags)
	}
	x.declines = nil
	x.began = true
	x.spend = &record{id: act.id, accounts: act.keys, currency: act.currency, tags: act.tags, counted: true}
	held, used := int64(0), act.amount
	if act.kind == kindAuthorize {
		held, used = used, held
		ttl := act.ttl
		if ttl == 0 {
			ttl = x.s.holdTTL
		}
		x.spend.expires = x.now + ttl.Microseconds()
		for _, a := range x.accounts {
			a.open(x.spend.expires, act.id)
		}
	}
	return x.spend.begin(x.accounts, ledger.Entry{Kind: act.kind, RequestID: act.id, Amount: act.amount}, held, used, 1)
}

// increase reserves more on a hold.
func (x *decision) increase() error {
	sp, n := x.spend, x.act.amount
	if err := sp.usable(x.now); err != nil {
		return err
	}
	total, ok := add(sp.total, n)
	if !ok {
		return fmt.Errorf("spend: %w: the spend's total would be out of range", ErrAmount)
	}
	if !x.ask(n, total, 0, sp.tags) {
		return x.refuse(sp.tags)
	}
	return sp.begin(x.accounts, ledger.Entry{Kind: kindIncrease, RequestID: x.act.id, Amount: n}, n, 0, 0)
}

// capture takes what is held, and where it is forced more than that.
func (x *decision) capture() error {
	act, sp := x.act, x.spend
	if err := sp.usable(x.now); err != nil {
		if !act.force || act.amount == 0 {
			return err
		}
		return x.late()
	}
	if n := sp.held(); act.amount > n && !act.force {
		in := func(n int64) Money { return Money{n, sp.currency} }
		return fmt.Errorf("spend: %w: %v is asked for and %v held; Force takes it all the same", ErrNotHeld, in(act.amount), in(n))
	}
	rest, err := sp.take(x.accounts, act.id, act.amount)
	if err != nil {
		return err
	}
	if rest > 0 {
		if err := sp.begin(x.accounts, ledger.Entry{Kind: kindCapture, RequestID: act.id, Amount: rest}, 0, rest, 0); err != nil {
			return err
		}
	}
	if act.final || sp.held() == 0 {
		return sp.end(x.accounts, kindRelease, act.id)
	}
	return nil
}

// late takes money from a hold that is no more: a record dated now.
func (x *decision) late() error {
	act, sp := x.act, x.spend
	expired := sp.ended == "" && sp.expires != 0
	if expired { // the accounts have released it already
		sp.forget(sp.captured())
		sp.ended = kindExpire
	}
	spends := int64(0)
	if !sp.counted {
		sp.counted, spends = true, 1
	}
	return sp.begin(x.accounts, ledger.Entry{Kind: kindRecord, RequestID: act.id, Amount: act.amount}, 0, act.amount, spends)
}

func (x *decision) void() error {
	if err := x.spend.usable(x.now); err != nil {
		return err
	}
	return x.spend.end(x.accounts, kindVoid, x.act.id)
}

func (x *decision) refund() error {
	sp, n := x.spend, x.act.amount
	if left := sp.refundable(); n > left {
		in := func(n int64) Money { return Money{n, sp.currency} }
		return fmt.Errorf("spend: %w: %v is to be given back, and %v can be", ErrNotCaptured, in(n), in(left))
	}
	return sp.refund(x.accounts, x.act.id, n)
}

// changes are what the ledger stores.
func (x *decision) changes(out *Decision) *ledger.Changes {
	c := &ledger.Changes{}
	var keys []string
	for _, a := range x.accounts {
		keys = append(keys, a.key)
		c.Accounts = append(c.Accounts, a.stored())
		c.Entries = append(c.Entries, a.added...)
		c.Opened = append(c.Opened, a.opened...)
		c.Closed = append(c.Closed, a.closed...)
	}
	r := ledger.Request{ID: x.act.id, At: x.now, Accounts: keys, Content: x.act.digest(), Answer: encodeAnswer(out, keys)}
	switch {
	case x.began:
		r.Spend = x.spend.encode()
	case x.spend != nil:
		c.Spends = append(c.Spends, ledger.Request{ID: x.spend.id, Spend: x.spend.encode()})
	}
	c.Requests = append(c.Requests, r)
	return c
}
