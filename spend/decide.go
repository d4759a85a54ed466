package spend

import (
	"bytes"
	"context"
	"fmt"

	"github.com/brimgo/brim/spend/ledger"
)

// attempt is one try at a decision on all of its accounts, at one time. When a
// ledger repeats a transaction, it makes a new attempt.
type attempt struct {
	budgets  *Budgets
	act      *action
	snap     ledger.Snapshot
	now      int64
	accounts []*account
	refusals []refusal
	spend    *spend // the spend that the action begins or changes; nil if the action was declined
	begins   bool   // the action begins the spend
}

// refusal is a rule that refuses n more units.
type refusal struct {
	account, rule int // indices
	n             int64
}

// decide lets the ledger decide act.
func (b *Budgets) decide(ctx context.Context, act *action) (Decision, error) {
	// The job writes to a variable of its own, because the job may still run
	// after the caller's context has ended and the caller has left.
	out := new(Decision)
	err := b.ledger.Decide(ctx, &ledger.Job{
		Accounts: act.keys, Requests: []string{act.id}, SpendID: act.spendID,
		Run: func(snap ledger.Snapshot) (*ledger.Changes, error) {
			t := &attempt{budgets: b, act: act, snap: snap}
			return t.run(out)
		},
	})
	if err != nil {
		return Decision{}, err
	}
	return *out, nil
}

// run makes the decision, or repeats the first one if the ID is known. The
// decision in out is valid once the ledger has stored the changes.
func (t *attempt) run(out *Decision) (*ledger.Changes, error) {
	prior, err := t.snap.Request(t.act.id)
	if err != nil {
		return nil, err
	}
	if prior != nil {
		if !bytes.Equal(prior.Content, t.act.content) {
			return nil, fmt.Errorf("spend: %w; give a new request a new ID", ErrIDReused)
		}
		*out, err = decodeAnswer(prior)
		out.Replayed = true
		return nil, err
	}
	if err := t.apply(); err != nil {
		return nil, err
	}
	if *out, err = t.answer(); err != nil {
		return nil, err
	}
	return t.changes(out), nil
}

// apply carries out an action whose ID is new.
func (t *attempt) apply() error {
	if t.act.spendID == "" {
		if err := t.load(t.act.keys); err != nil {
			return err
		}
		return t.charge()
	}
	if err := t.find(t.act.spendID); err != nil {
		return err
	}
	if err := t.load(t.spend.accounts); err != nil {
		return err
	}
	switch t.act.kind {
	case kindIncrease:
		return t.increase()
	case kindCapture:
		return t.capture()
	case kindVoid:
		return t.void()
	}
	return t.refund()
}

// find reads the spend that the action is about.
func (t *attempt) find(id string) error {
	r, err := t.snap.Request(id)
	if err != nil {
		return err
	}
	if r == nil || r.Spend == nil {
		return fmt.Errorf("spend: %w: its ID is unknown, was declined, or is older than KeepIDs", ErrUnknownSpend)
	}
	for _, key := range r.Accounts {
		if !t.snap.Locked(key) { // the spend was stored after the ledger had locked the accounts
			return fmt.Errorf("spend: %w: it is being authorized at this moment", ErrUnknownSpend)
		}
	}
	if t.spend, err = decodeSpend(r.ID, r.Accounts, r.Spend); err != nil {
		return err
	}
	if t.act.kind != kindVoid && t.act.currency != t.spend.currency {
		return fmt.Errorf("spend: %w: the amount is in %.8q and the spend in %q",
			ErrCurrency, t.act.currency, t.spend.currency)
	}
	return nil
}

// load reads the accounts and advances all of them to one time: the ledger's
// clock, or the time of the latest account if the clock is behind it.
func (t *attempt) load(keys []string) error {
	t.now = t.snap.Now()
	for _, key := range keys {
		budget, err := t.budgets.find(accountOf(key).Budget)
		if err != nil {
			return err
		}
		a, err := budget.load(t.snap, key)
		if err != nil {
			return err
		}
		t.accounts = append(t.accounts, a)
		t.now = max(t.now, a.time)
	}
	for _, a := range t.accounts {
		if err := a.advance(t.now); err != nil {
			return err
		}
	}
	return nil
}

// ask asks every rule of every account for n more units of a spend, which then
// amounts to total, and for the given number of further spends. It records the
// refusals.
func (t *attempt) ask(n, total, spends int64, tags map[string]string) (agreed bool) {
	for i, a := range t.accounts {
		for j, u := range a.tallies {
			if u.fits(n, total, spends, t.now, tags) {
				continue
			}
			r := refusal{account: i, rule: j, n: n}
			if u.rule.kind == count {
				r.n = spends
			}
			t.refusals = append(t.refusals, r)
		}
	}
	return len(t.refusals) == 0
}

// decline adds to every account an entry that names the rules that refused.
func (t *attempt) decline(tags map[string]string) error {
	refused := make([][]string, len(t.accounts))
	for _, r := range t.refusals {
		refused[r.account] = append(refused[r.account], t.accounts[r.account].tallies[r.rule].name)
	}
	for i, a := range t.accounts {
		e := ledger.Entry{
			Kind: kindDecline, RequestID: t.act.id, SpendID: t.act.spendID,
			Amount: t.act.amount, Tags: tags, Refused: refused[i],
		}
		if _, err := a.add(e); err != nil {
			return err
		}
	}
	t.spend = nil
	return nil
}

// charge decides Charge, Authorize and Record.
func (t *attempt) charge() error {
	act := t.act
	agreed := t.ask(act.amount, act.amount, 1, act.tags)
	if !agreed && act.kind != kindRecord {
		return t.decline(act.tags)
	}
	t.refusals = nil
	t.begins = true
	t.spend = &spend{id: act.id, accounts: act.keys, currency: act.currency, tags: act.tags, counted: true}
	if act.kind != kindAuthorize {
		return t.addPart(act.kind, 0, act.amount, 1)
	}
	ttl := act.ttl
	if ttl == 0 {
		ttl = t.budgets.holdTTL
	}
	t.spend.expires = t.now + ttl.Microseconds()
	for _, a := range t.accounts {
		a.open(t.spend.expires, act.id)
	}
	return t.addPart(act.kind, act.amount, 0, 1)
}

// addPart adds money that counts from now to the spend, and an entry of that
// kind to every account.
func (t *attempt) addPart(kind string, held, used, spends int64) error {
	sp, amount := t.spend, held+used // one of them is zero
	total, ok := add(sp.total, amount)
	if !ok {
		return fmt.Errorf("spend: %w: the spend's total would be out of range", ErrAmount)
	}
	sp.total = total
	p := part{at: t.now, held: held, taken: used}
	for _, a := range t.accounts {
		seq, err := a.add(ledger.Entry{
			Kind: kind, RequestID: t.act.id, SpendID: sp.id,
			Amount: amount, Held: held, Used: used, Count: spends, Tags: sp.tags,
		})
		if err != nil {
			return err
		}
		p.seqs = append(p.seqs, seq)
	}
	sp.parts = append(sp.parts, p)
	return nil
}

func (t *attempt) increase() error {
	sp, n := t.spend, t.act.amount
	if err := sp.usable(t.now); err != nil {
		return err
	}
	total, ok := add(sp.total, n)
	if !ok {
		return fmt.Errorf("spend: %w: the spend's total would be out of range", ErrAmount)
	}
	if !t.ask(n, total, 0, sp.tags) {
		return t.decline(sp.tags)
	}
	return t.addPart(kindIncrease, n, 0, 0)
}

func (t *attempt) capture() error {
	act, sp := t.act, t.spend
	if err := sp.usable(t.now); err != nil {
		if !act.force || act.amount == 0 {
			return err
		}
		return t.captureLate()
	}
	if held := sp.held(); act.amount > held && !act.force {
		return fmt.Errorf("spend: %w: the capture is of %v and %v is held; Force takes it nevertheless",
			ErrNotHeld, sp.money(act.amount), sp.money(held))
	}
	rest, err := sp.capture(t.accounts, act.id, act.amount)
	if err != nil {
		return err
	}
	if rest > 0 {
		if err := t.addPart(kindCapture, 0, rest, 0); err != nil {
			return err
		}
	}
	if act.final || sp.held() == 0 {
		return sp.end(t.accounts, kindRelease, act.id)
	}
	return nil
}

// captureLate takes money after the hold has ended, by an entry of kind record
// that is dated now.
func (t *attempt) captureLate() error {
	sp := t.spend
	if sp.ended == "" && sp.expires != 0 { // the accounts have released the expired hold already
		sp.clearHeld()
		sp.ended = kindExpire
	}
	spends := int64(0)
	if !sp.counted {
		sp.counted, spends = true, 1
	}
	return t.addPart(kindRecord, 0, t.act.amount, spends)
}

func (t *attempt) void() error {
	if err := t.spend.usable(t.now); err != nil {
		return err
	}
	return t.spend.end(t.accounts, kindVoid, t.act.id)
}

func (t *attempt) refund() error {
	sp, n := t.spend, t.act.amount
	if left := sp.refundable(); n > left {
		return fmt.Errorf("spend: %w: the refund is of %v and the spend has %v left to give back",
			ErrNotCaptured, sp.money(n), sp.money(left))
	}
	return sp.refund(t.accounts, t.act.id, n)
}
