package spend

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/brimgo/brim/spend/ledger"
)

// attempt is one try at a decision on all of its accounts, at one time. When a
// ledger repeats a transaction, it makes a new attempt.
type attempt struct {
	budgets  *Budgets
	act      *action
	snap     ledger.Snapshot
	clock    int64 // of the ledger
	now      int64 // the latest of the clock and the times of the accounts
	accounts []*account
	refusals []demand          // of rules that refuse, and of accounts that are frozen
	ending   []demand          // of rules that agree, in an account with a raised limit that ends
	filled   []demand          // of rules that agreed, and that the decline itself has filled
	tags     map[string]string // of the spend or the credit
	moved    Money             // by the request; zero if it is declined
	spend    *spend            // the spend that the action begins or changes; nil if the action was declined
	begins   bool              // the action begins the spend
	shares   []int64           // of the rules before the action; see [attempt.note]
	prior    *ledger.Request   // that the action cancels or takes the place of; nil if the ID is new
}

// demand is the units for which a rule is asked, or an account that is frozen.
type demand struct {
	account, rule int // indices
	n             int64
}

// frozen is the rule of a demand that says that the account is frozen.
const frozen = -1

// decide lets the ledger decide act.
func (b *Budgets) decide(c *call, act *action) (Decision, error) {
	job, out := b.job(act)
	if err := b.ledger.Decide(c.ctx, job); err != nil {
		return Decision{}, err
	}
	c.decided(out)
	return out.Decision, nil
}

// job returns the job that decides act, and the place of the decision. The place is a variable of
// the job's own, because the job may still run after the caller's context has ended and the caller
// has left.
func (b *Budgets) job(act *action) (*ledger.Job, *decided) {
	out := new(decided)
	return &ledger.Job{
		Accounts: act.keys, Requests: []string{act.id}, SpendID: act.spendID,
		Run: func(snap ledger.Snapshot) (*ledger.Changes, error) {
			t := &attempt{budgets: b, act: act, snap: snap}
			return t.run(out)
		},
	}, out
}

// run makes the decision, or repeats the first one if the ID is known. The
// decision in out is valid once the ledger has stored the changes.
func (t *attempt) run(out *decided) (*ledger.Changes, error) {
	prior, err := t.snap.Request(t.act.id)
	if err != nil {
		return nil, err
	}
	if prior != nil {
		if done, err := t.known(prior, out); done || err != nil {
			return nil, err
		}
	}
	if err := t.apply(); err != nil {
		return nil, err
	}
	*out = decided{}
	if out.Decision, err = t.answer(); err != nil {
		return nil, err
	}
	t.cross(&out.Decision)
	out.Canceled = t.act.kind == kindCancel
	if len(t.budgets.hooks) > 0 {
		for _, a := range t.accounts {
			out.holds = a.holdsIn(out.holds)
		}
		out.ahead = time.Duration(t.now-t.clock) * time.Microsecond
	}
	return t.changes(&out.Decision), nil
}

// known looks at an earlier request with the ID. It reports whether the answer is in out already.
func (t *attempt) known(prior *ledger.Request, out *decided) (done bool, err error) {
	switch {
	case t.act.kind == kindCancel:
		return t.canceled(prior, out)
	case isCanceled(prior) && t.act.moves():
		sp, err := decodeSpend(prior.ID, prior.Accounts, prior.Spend)
		if err != nil {
			return false, err
		}
		if sp.unborn() {
			t.prior = prior
			return false, nil
		}
	case isCanceled(prior), t.act.repeats(prior.Content):
	default:
		return false, fmt.Errorf("spend: %w; a new request needs a new ID; Budgets.Get tells the decision about this one", ErrIDReused)
	}
	*out = decided{}
	out.Decision, err = replay(prior)
	return true, err
}

// moves reports whether the action begins a spend of money that has moved already.
func (act *action) moves() bool {
	return act.kind == kindRecord || act.kind == kindAuthorize && act.force
}

// apply carries out an action whose ID is new, or that takes the place of the prior one.
func (t *attempt) apply() error {
	t.tags = t.act.tags
	if t.act.kind == kindCancel {
		return t.cancel()
	}
	if t.act.spendID == "" {
		if err := t.enter(t.act.keys); err != nil {
			return err
		}
		switch {
		case t.upkeeps():
			return t.upkeep()
		case t.act.kind == kindCredit:
			t.moved = Money{t.act.amount, t.act.currency}
			return t.credit(ledger.Entry{Amount: t.act.amount, SpendAmount: t.act.amount})
		}
		return t.charge()
	}
	if err := t.find(t.act.spendID); err != nil {
		return err
	}
	if err := t.enter(t.spend.accounts); err != nil {
		return err
	}
	if t.act.kind != kindIncrease { // the others are not declined
		t.moved = Money{t.act.amount, t.act.currency}
	}
	switch t.act.kind {
	case kindIncrease:
		return t.increase()
	case kindCapture:
		return t.capture()
	case kindDecrease:
		return t.decrease()
	case kindExtend:
		return t.extend()
	case kindVoid:
		return t.void()
	}
	return t.refund()
}

// upkeeps reports whether the action moves no money.
func (t *attempt) upkeeps() bool {
	switch t.act.kind {
	case kindLimits, kindPlan, kindFreeze, kindUnfreeze, kindMend:
		return true
	case kindCancel:
		return t.spend == nil || t.spend.unborn()
	}
	return false
}

// find reads the spend that the action is about.
func (t *attempt) find(id string) error {
	r, err := t.snap.Request(id)
	if err != nil {
		return err
	}
	if r == nil || r.Spend == nil {
		return fmt.Errorf("spend: %w: its ID is unknown, began no spend, or is older than KeepIDs", ErrUnknownSpend)
	}
	if err := t.decodeSpend(r); err != nil {
		return err
	}
	if t.act.currency != "" && t.act.currency != t.spend.currency {
		return fmt.Errorf("spend: %w: the amount is in %.8q and the spend in %q",
			ErrCurrency, t.act.currency, t.spend.currency)
	}
	return nil
}

// errAuthorizing is the error of a spend that was stored after the ledger had locked the accounts.
var errAuthorizing = fmt.Errorf("spend: %w: it is being authorized at this moment", ErrUnknownSpend)

// decodeSpend reads the spend that a request began.
func (t *attempt) decodeSpend(r *ledger.Request) (err error) {
	for _, key := range r.Accounts {
		if !t.snap.Locked(key) {
			return errAuthorizing
		}
	}
	if t.spend, err = decodeSpend(r.ID, r.Accounts, r.Spend); err == nil {
		t.tags = t.spend.tags
	}
	return err
}

// load reads the accounts and advances each of them to the ledger's clock. An account that is ahead
// of the clock keeps its own time, and does not pass it on to the others.
func (t *attempt) load(keys []string) error {
	t.clock = t.snap.Now()
	t.now = t.clock
	for _, key := range keys {
		budget, err := t.budgets.find(accountOf(key).Budget)
		if err != nil {
			return err
		}
		a, err := t.budgets.loadBare(budget, t.snap, key)
		if err != nil {
			return err
		}
		if t.act.kind == kindPlan {
			a.plan = t.act.tags[planTag]
		}
		if err := a.useRules(); err != nil {
			return err
		}
		t.accounts = append(t.accounts, a)
		t.now = max(t.now, a.time)
	}
	for _, a := range t.accounts {
		if err := a.advance(max(t.clock, a.time)); err != nil {
			return err
		}
		a.forget()
	}
	t.note()
	return nil
}

// enter loads the accounts for a decision, which ends some of their expired holds.
func (t *attempt) enter(keys []string) error {
	err := t.load(keys)
	for i := 0; err == nil && i < len(t.accounts); i++ {
		err = t.accounts[i].endExpired(mostEnds)
	}
	return err
}

// ask asks every rule of every account for n more units of a spend, and for that number of further
// spends. The spend began with first units, and has total units after this request. ask records the
// refusals.
func (t *attempt) ask(n, first, total, spends int64, tags map[string]string) (agreed bool) {
	for i, a := range t.accounts {
		if a.frozen != "" {
			t.refusals = append(t.refusals, demand{account: i, rule: frozen})
		}
		for j, u := range a.tallies {
			r := demand{account: i, rule: j, n: n}
			switch u.rule.kind {
			case count, countPer:
				r.n = spends
			case perTransaction:
				r.n = total
			}
			switch {
			case !u.fits(n, first, total, spends, a.time, tags):
				t.refusals = append(t.refusals, r)
			case u.amounts.until != maxTime && u.rule.matches(tags, first):
				t.ending = append(t.ending, r)
			}
		}
	}
	return len(t.refusals) == 0
}

// decline adds to every account an entry that names the rules that refused. A declined spend would
// have begun with first units; an increase begins none.
func (t *attempt) decline(tags map[string]string, first int64) error {
	refused := make([][]string, len(t.accounts))
	for _, r := range t.refusals {
		if r.rule == frozen {
			continue
		}
		refused[r.account] = append(refused[r.account], t.accounts[r.account].tallies[r.rule].name)
	}
	for i, a := range t.accounts {
		e := ledger.Entry{
			Kind: kindDecline, RequestID: t.act.id, SpendID: t.act.spendID,
			SpendAmount: first, Amount: t.act.amount, Tags: tags, Refused: refused[i],
		}
		if err := a.add(e); err != nil {
			return err
		}
		for j, u := range a.tallies {
			r := demand{account: i, rule: j, n: 1}
			if t.act.spendID == "" && u.rule.declines && !slices.Contains(t.refusals, r) && !u.fits(first, first, first, 1, a.time, tags) {
				t.filled = append(t.filled, r)
			}
		}
	}
	t.spend = nil
	return nil
}

// charge decides Charge, Authorize and Record.
func (t *attempt) charge() error {
	act := t.act
	amount := act.amount
	if act.least > 0 {
		amount = t.largest()
	}
	agreed := t.ask(amount, amount, amount, 1, act.tags)
	if !agreed && act.kind != kindRecord && !act.force {
		return t.decline(act.tags, amount)
	}
	t.refusals = nil
	t.begins = true
	t.moved = Money{amount, act.currency}
	for _, a := range t.accounts {
		switch {
		case !act.backdated:
		case act.dated > a.time:
			return requestErr("Dated is %v; that is in the future", time.UnixMicro(act.dated).UTC())
		case act.dated <= a.removed():
			return requestErr("Dated is %v; Prune has removed entries of %v and before",
				time.UnixMicro(act.dated).UTC(), time.UnixMicro(a.removed()).UTC())
		}
	}
	t.spend = &spend{id: act.id, accounts: act.keys, currency: act.currency, amount: amount, tags: act.tags}
	if act.kind != kindAuthorize || amount == 0 {
		t.spend.counted = true
		if act.kind == kindAuthorize {
			t.spend.expires, t.spend.ended = ending(t.now), kindCapture
		}
		return t.addPart(act.kind, 0, amount, 1)
	}
	t.spend.pending, t.spend.spends = true, act.onExpiry == SpendOnExpiry
	t.spend.expires = t.expiry(cmp.Or(act.ttl, t.budgets.holdTTL))
	for _, a := range t.accounts {
		since := a.time
		if act.backdated {
			since = act.dated
		}
		a.open(t.spend.expires, since, act.id)
	}
	return t.addPart(act.kind, amount, 0, 1)
}

// largest returns the largest amount up to that of the action which all rules would approve, or
// its least amount.
func (t *attempt) largest() int64 {
	fits := func(n int64) bool { return t.fit(n, n, n, 1, t.act.tags) }
	// A rule that approves an amount approves all smaller ones, unless it applies to smaller ones
	// only, by MatchingAtMost. So each range between such bounds is searched by itself.
	lows := []int64{t.act.least}
	for _, a := range t.accounts {
		for _, u := range a.tallies {
			for _, b := range u.rule.bounds {
				if n := b.amount.Minor; b.most && n >= t.act.least && n < t.act.amount {
					lows = append(lows, n+1)
				}
			}
		}
	}
	slices.Sort(lows)
	high := t.act.amount
	for _, low := range slices.Backward(slices.Compact(lows)) {
		if !fits(low) {
			high = low - 1
			continue
		}
		return largestOf(low, high, fits)
	}
	return t.act.least
}

// largestOf returns the largest amount from low to high that fits, or low.
func largestOf(low, high int64, fits func(n int64) bool) int64 {
	for low < high {
		if middle := high - (high-low)/2; fits(middle) {
			low = middle
		} else {
			high = middle - 1
		}
	}
	return low
}

// fit reports whether all rules agree; see [tally.fits].
func (t *attempt) fit(n, first, total, spends int64, tags map[string]string) bool {
	for _, a := range t.accounts {
		for _, u := range a.tallies {
			if !u.fits(n, first, total, spends, a.time, tags) {
				return false
			}
		}
	}
	return true
}

// addPart adds money that counts from now to the spend, and an entry of that
// kind to every account.
func (t *attempt) addPart(kind string, held, used, spends int64) error {
	sp, amount := t.spend, held+used // one of them is zero
	total, ok := add(sp.total, amount)
	if !ok {
		return fmt.Errorf("spend: %w: the spend's total would be out of range; %s", ErrAmount, largest(sp.currency))
	}
	sp.total = total
	p := part{held: held, taken: used}
	for _, a := range t.accounts {
		date := a.time
		if t.act.backdated {
			date = t.act.dated
		}
		e := ledger.Entry{
			Kind: kind, RequestID: t.act.id, SpendID: sp.id, SpendAmount: sp.amount,
			Amount: amount, Held: held, Used: used, Count: spends, Tags: sp.tags,
		}
		if held > 0 {
			e.Expires, e.Spends, e.Pending, e.Count = sp.expires, sp.spends, spends, 0
		}
		seq, err := a.addDated(e, date)
		if err != nil {
			return err
		}
		p.seqs, p.dates = append(p.seqs, seq), append(p.dates, date)
	}
	sp.parts = append(sp.parts, p)
	return nil
}

func (t *attempt) increase() error {
	sp, n := t.spend, t.act.amount
	if err := t.usable(); err != nil {
		return err
	}
	total, ok := add(sp.total, n)
	if !ok {
		return fmt.Errorf("spend: %w: the spend's total would be out of range; %s", ErrAmount, largest(sp.currency))
	}
	if t.act.least > 0 {
		n = largestOf(t.act.least, n, func(n int64) bool { return t.fit(n, sp.amount, sp.total+n, 0, sp.tags) })
		total = sp.total + n
	}
	if !t.ask(n, sp.amount, total, 0, sp.tags) {
		return t.decline(sp.tags, 0)
	}
	t.moved = sp.money(n)
	return t.addPart(kindIncrease, n, 0, 0)
}

func (t *attempt) capture() error {
	act, sp := t.act, t.spend
	if err := t.usable(); err != nil {
		if !act.force || act.amount == 0 || t.spent() {
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
	if sp.ended == "" && sp.expires != 0 {
		for _, a := range t.accounts {
			if a.expired(sp) {
				continue // the hold is out of the account's sums already
			}
			// The time of another account is ahead, and the hold has expired there.
			if err := sp.release(a, kindExpire, sp.id); err != nil {
				return err
			}
			a.close(sp)
		}
		sp.ended = kindExpire // the parts stay: an account may not have the end of the hold yet
	}
	kind := kindRecord
	if sp.unborn() {
		sp.amount, kind = t.act.amount, kindSpend // the capture begins it
	}
	spends := int64(0)
	if !sp.counted {
		sp.counted, spends = true, 1
	}
	return t.addPart(kind, 0, t.act.amount, spends)
}

func (t *attempt) decrease() error {
	sp, n := t.spend, t.act.amount
	if err := t.usable(); err != nil {
		return err
	}
	switch held := sp.held(); {
	case n > held:
		return fmt.Errorf("spend: %w: the decrease is of %v and %v is held", ErrNotHeld, sp.money(n), sp.money(held))
	case n == held:
		return sp.end(t.accounts, kindDecrease, t.act.id)
	}
	return sp.decrease(t.accounts, t.act.id, n)
}

func (t *attempt) extend() error {
	sp := t.spend
	if err := t.usable(); err != nil {
		return err
	}
	later := t.expiry(cmp.Or(t.act.ttl, t.budgets.holdTTL))
	spends := sp.spends
	if t.act.onExpiry != 0 {
		spends = t.act.onExpiry == SpendOnExpiry
	}
	if later > sp.expires || spends != sp.spends {
		return sp.extend(t.accounts, t.act.id, max(later, sp.expires), spends)
	}
	for _, a := range t.accounts {
		if err := a.add(ledger.Entry{Kind: kindExtend, RequestID: t.act.id, SpendID: sp.id, SpendAmount: sp.amount, Tags: sp.tags}); err != nil {
			return err
		}
	}
	return nil
}

func (t *attempt) void() error {
	if err := t.usable(); err != nil {
		return err
	}
	return t.spend.end(t.accounts, kindVoid, t.act.id)
}

func (t *attempt) refund() error {
	sp, n := t.spend, t.act.amount
	left := sp.refundable(t.spent())
	if n > left && !t.act.force {
		return fmt.Errorf("spend: %w: the refund is of %v and the spend has %v left to give back; Force credits the rest",
			ErrNotCaptured, sp.money(n), sp.money(left))
	}
	err := sp.refund(t.accounts, t.act.id, min(n, left), t.spent())
	if err != nil || n <= left {
		return err
	}
	return t.credit(ledger.Entry{SpendID: sp.id, Amount: n - left, SpendAmount: sp.amount})
}
