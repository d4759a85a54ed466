package decide

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/brimgo/brim/spend/internal/book"
	"github.com/brimgo/brim/spend/internal/figures"
	"github.com/brimgo/brim/spend/internal/money"
	"github.com/brimgo/brim/spend/ledger"
)

// Flip is a decision that other rules would have made otherwise.
type Flip struct {
	Entry    ledger.Entry
	Approved bool
	Amount   int64    // that they would have approved
	Refused  []string // the rules that would have refused
}

// Replay is the account of a backtest.
type Replay struct {
	Account   string // its key
	Entries   int64
	Decisions int64  // since the time asked for
	Skipped   string // why it was not replayed; empty if it was
}

// Backtest decides the requests about accounts anew by other rules.
type Backtest struct {
	*Budget
	Account    string // the key of the only account to replay; empty for all
	MaxEntries int64  // an account with more is skipped; 0 for no bound
	Since      int64
	// Limit reads the text of an own limit in an entry.
	Limit func(rule, text string) (Limit, error)
	// Decision is called for each decision since then that rules have made, after its flip.
	Decision func(ledger.Entry) error
	Flip     func(Flip) error
	Done     func(Replay) error // called for each account after its flips
}

// Run replays the entries of all accounts of the budget; see spend.Budgets.Backtest.
func (b *Backtest) Run(ctx context.Context, d *Decider) error {
	if b.Account != "" {
		return b.account(ctx, d, b.Account)
	}
	for after := ""; ; {
		keys, next, err := d.Ledger.Accounts(ctx, b.Prefix(), after, 0, accountsPage)
		if err != nil {
			return err
		}
		for _, key := range keys {
			if err := b.account(ctx, d, key); err != nil {
				return err
			}
		}
		if after = next; after == "" {
			return nil
		}
	}
}

// account replays one account.
func (b *Backtest) account(ctx context.Context, d *Decider, key string) error {
	r := &replaying{Backtest: b, out: Replay{Account: key}}
	if err := r.run(ctx, d); err != nil {
		return fmt.Errorf("account %q: %w", strings.TrimPrefix(key, b.Prefix()), err)
	}
	return b.Done(r.out)
}

// replayPage is the number of entries that one View of a backtest reads.
const replayPage = 1024

// replaying is one account of a backtest.
type replaying struct {
	*Backtest
	out Replay

	a      *account
	now    *account // as it is
	counts entriesOf
	spends map[string]*replayed
	parts  map[int64]bool // numbers of increases that the rules would have refused
}

// entriesOf is the snapshot of an account with the entries that count by the other rules, in the
// order of their places.
type entriesOf struct {
	ledger.Snapshot
	list []ledger.Entry
}

// replayed is a spend that the entries have begun.
type replayed struct {
	first, total int64
	refused      bool // by the other rules alone
}

// run replays the entries by pages, each as of its own time. Entries that are added meanwhile stay
// out.
func (r *replaying) run(ctx context.Context, d *Decider) error {
	at := ledger.Position{At: minTime}
	for {
		page, last, err := r.read(ctx, d, at)
		if err != nil {
			return err
		}
		if r.a == nil {
			if err := r.begin(page); err != nil || r.out.Skipped != "" {
				return err
			}
		}
		for i := range page {
			if page[i].Seq > r.now.seq {
				return nil
			}
			if err := r.replay(page[i]); err != nil {
				return err
			}
			at = ledger.Position{At: page[i].At, Seq: page[i].Seq}
		}
		if last {
			return nil
		}
	}
}

// read reads a page of entries, and at first the account.
func (r *replaying) read(ctx context.Context, d *Decider, at ledger.Position) (page []ledger.Entry, last bool, err error) {
	type sight struct {
		account *account
		page    []ledger.Entry
	}
	out, key := new(sight), r.out.Account
	err = d.Ledger.View(ctx, &ledger.Job{Accounts: []string{key}, Run: func(snap ledger.Snapshot) (*ledger.Changes, error) {
		*out = sight{account: &account{past: past{key: key, time: minTime, pruned: minTime}}}
		stored, err := snap.Account(key)
		if err == nil && stored.State != nil {
			_, err = out.account.decode(&stored)
		}
		if err != nil {
			return nil, err
		}
		if stored.Pruned != 0 {
			out.account.pruned = stored.Pruned
		}
		entries, err := snap.Since(key, at, replayPage)
		out.page = slices.Clone(entries)
		return nil, err
	}})
	if r.now == nil {
		r.now = out.account
	}
	return out.page, len(out.page) < replayPage, err
}

// begin begins with the first entries. An account whose first entries are gone has the own limits
// and the plan that it has now.
func (r *replaying) begin(page []ledger.Entry) error {
	r.a = &account{past: past{key: r.out.Account, snap: &r.counts, time: minTime, pruned: minTime}, budget: r.Budget, currency: r.Currency}
	r.spends, r.parts = make(map[string]*replayed), make(map[int64]bool)
	whole := len(page) == 0 || page[0].Seq == 1
	switch {
	case len(r.now.mends) > 0:
		r.out.Skipped = "Mend has set it right, so its entries do not tell when they happened"
		return nil
	case r.MaxEntries > 0 && len(page) > 0 && r.now.seq-page[0].Seq >= r.MaxEntries:
		r.out.Skipped = fmt.Sprintf("it has %d entries, and the most is %d", r.now.seq-page[0].Seq+1, r.MaxEntries)
		return nil
	case !whole && r.lacks():
		r.out.Skipped = fmt.Sprintf("Prune has removed entries of %v and before, and the rules need some of them", utc(r.now.pruned))
		return nil
	case !whole:
		r.a.pruned, r.a.plan, r.a.own = r.now.pruned, r.now.plan, r.now.own
	}
	if len(page) > 0 {
		r.a.time = page[0].At
	}
	return r.a.useRules(nil)
}

// lacks reports whether rules need entries that are gone.
func (r *replaying) lacks() bool {
	for rule := range r.rules {
		if rule.Span() == figures.Forever || rule.Span() == figures.Leaks || r.Since-rule.Reach() < r.now.pruned {
			return true
		}
	}
	return false
}

// replay decides an entry anew if it is the answer to a request that rules have judged, and lets it
// count.
func (r *replaying) replay(e ledger.Entry) error {
	r.out.Entries++
	a := r.a
	begins := e.Kind != figures.KindPlan // set begins with the rules of a plan
	if err := a.advance(max(a.time, e.At), begins); err != nil {
		return err
	}
	a.leak()
	if err := r.set(&e); err != nil {
		return err
	}
	was := e
	counts, err := r.decide(&e)
	if err == nil && was.At >= r.Since && judged(&was) {
		r.out.Decisions++
		err = r.Decision(was)
	}
	if err != nil || !counts {
		return err
	}
	a.seq = e.Seq
	if e.Kind == figures.KindCredit {
		e.Credited = a.credited(&e)
	}
	for _, u := range a.all() {
		if err := u.Count(&e, a.time); err != nil {
			return err
		}
	}
	at := r.counts.find(e.Place())
	r.counts.list = slices.Insert(r.counts.list, at, e)
	return nil
}

// judged reports whether rules have decided about an entry: it is no money that had moved, and no
// decline of a frozen account.
func judged(e *ledger.Entry) bool {
	frozen := func(name string) bool { return strings.HasPrefix(name, FrozenPrefix) }
	switch e.Kind {
	case figures.KindIncrease:
		return true
	case figures.KindSpend:
		return e.RequestID == e.SpendID // else it was captured although its request was canceled
	case figures.KindAuthorize:
		return e.Least != forced
	case figures.KindDecline:
		return len(e.Refused) > 0 && !slices.ContainsFunc(e.Refused, frozen) &&
			slices.ContainsFunc(e.Refused, func(name string) bool { return !strings.HasPrefix(name, ShadowPrefix) })
	}
	return false
}

// set gives the account the plan and the limits of an entry.
func (r *replaying) set(e *ledger.Entry) error {
	a := r.a
	switch e.Kind {
	case figures.KindPlan:
		a.plan = e.Tags[PlanTag]
		known := slices.DeleteFunc(slices.Clone(a.all()), func(u *figures.Tally) bool { return !u.Known() })
		if err := a.useRules(known); err != nil {
			return err
		}
		if err := r.open(); err != nil {
			return err
		}
	case figures.KindLimits:
		for rule, text := range e.Tags {
			l, err := r.Limit(rule, text)
			if err != nil {
				return err
			}
			a.own.set(&l, a.time)
		}
		a.useLimits()
	default:
		return nil
	}
	a.leak()
	return nil
}

// open begins with the rules that are new to the account.
func (r *replaying) open() error {
	a := r.a
	a.useLimits()
	for _, u := range a.tallies {
		if u.Known() {
			continue
		}
		if after, counts := u.Open(a, a.time); counts {
			for i := r.counts.find(ledger.EndOf(after)); i < len(r.counts.list); i++ {
				if err := u.Add(&r.counts.list[i], a.time); err != nil {
					return err
				}
			}
		}
		u.Ready(a)
	}
	return nil
}

// decide reports whether an entry counts by the other rules. It may change the entry.
func (r *replaying) decide(e *ledger.Entry) (counts bool, err error) {
	sp, begins := r.spend(e)
	if !judged(e) || sp.refused && !begins {
		return r.follows(e, sp), nil
	}
	approved := e.Kind != figures.KindDecline
	n, refused := r.ask(e, sp, begins)
	fits := len(refused) == 0
	if e.At >= r.Since && (fits != approved || fits && n != e.Amount) {
		f := Flip{Entry: *e, Approved: fits, Amount: n, Refused: refused}
		if !fits {
			f.Amount = 0
		}
		if err := r.Flip(f); err != nil {
			return false, err
		}
	}
	return r.count(e, sp, n, approved, fits, begins), nil
}

// spend returns the spend of an entry, and whether the entry begins it.
func (r *replaying) spend(e *ledger.Entry) (sp *replayed, begins bool) {
	id := e.SpendID
	if e.Kind == figures.KindDecline && id == "" {
		id = e.RequestID
	}
	if sp = r.spends[id]; sp == nil {
		sp, begins = &replayed{first: e.SpendAmount}, true
		r.spends[id] = sp
	}
	return sp, begins
}

// increases reports whether an entry is the answer to an Increase.
func increases(e *ledger.Entry) bool {
	return e.Kind == figures.KindIncrease || e.Kind == figures.KindDecline && e.SpendID != ""
}

// ask asks the other rules, and returns the amount that they judge and those that refuse it.
func (r *replaying) ask(e *ledger.Entry, sp *replayed, begins bool) (n int64, refused []string) {
	q := func(n int64) *figures.Ask {
		if increases(e) {
			return &figures.Ask{Units: n, First: sp.first, Total: sp.total + n, Tags: e.Tags}
		}
		return &figures.Ask{Units: n, First: n, Total: n, Spends: 1, Tags: e.Tags}
	}
	g := &group{accounts: []*account{r.a}, tags: e.Tags}
	switch n = e.Amount; {
	case e.Least <= 0 || g.fit(q(n)):
	case begins: // less may fit
		n = g.largest(e.Least, n)
	default:
		n = largestOf(e.Least, n, func(n int64) bool { return g.fit(q(n)) })
	}
	g.ask(q(n))
	return n, slices.DeleteFunc(g.refused(0), func(name string) bool { return strings.HasPrefix(name, ShadowPrefix) })
}

// count lets a decision count as the other rules make it, and reports whether its entry counts.
func (r *replaying) count(e *ledger.Entry, sp *replayed, n int64, approved, fits, begins bool) bool {
	increased := increases(e)
	switch {
	case fits && approved && n == e.Amount:
		return r.follows(e, sp)
	case fits: // what follows is not known, so it counts as charged
		e.Kind, e.Amount, e.Used, e.Held, e.Count, e.Pending, e.Expires = figures.KindSpend, n, n, 0, 1, 0, 0
		if increased {
			e.Count = 0
		} else {
			e.SpendAmount, sp.first, sp.refused = n, n, approved
			e.SpendID = e.RequestID
		}
		sp.total += n
		return true
	case approved: // it is declined now
		if r.parts[e.Seq] = increased; begins {
			sp.refused = true
		}
		e.Kind, e.Used, e.Held, e.Count, e.Pending, e.Expires = figures.KindDecline, 0, 0, 0, 0, 0
		if !increased {
			e.SpendID = ""
		}
		return true
	}
	return true
}

// follows reports whether an entry counts that rules do not judge, or as they did: not if it
// belongs to a spend that the other rules refuse.
func (r *replaying) follows(e *ledger.Entry, sp *replayed) bool {
	if e.SpendID == e.RequestID && slices.Contains(begins, e.Kind) { // also after a decline that was canceled
		sp.first = e.SpendAmount
	}
	switch {
	case sp.refused && e.SpendID != "" || r.parts[e.Part]:
		return false
	case e.Part == e.Seq || e.Part == 0:
		sp.total += e.Used + e.Held
	}
	return true
}

// find returns the index of the first entry after a place.
func (s *entriesOf) find(p ledger.Place) int {
	i, found := slices.BinarySearchFunc(s.list, p, func(x ledger.Entry, p ledger.Place) int { return x.Place().Compare(p) })
	if found {
		i++
	}
	return i
}

// Entries returns entries that count by the other rules.
func (s *entriesOf) Entries(_ string, after ledger.Place, upto int64, limit int) ([]ledger.Entry, ledger.Place, error) {
	from, to := s.find(after), s.find(ledger.EndOf(upto))
	if to-from <= limit {
		return s.list[from:to:to], ledger.EndOf(upto), nil
	}
	to = from + limit
	return s.list[from:to:to], book.Through(s.list[to-1].Place(), s.list[to].Place()), nil
}

// LimitOf reads the text of a limit in an entry.
func LimitOf(rule, text string, parse func(string) (money.Money, error)) (l Limit, err error) {
	if text == "default" {
		return Limit{Rule: rule, Default: true}, nil
	}
	amount, until, ends := strings.Cut(text, " until ")
	l.Rule = rule
	if l.Amount, err = parse(amount); err == nil && ends {
		l.Until, err = time.Parse(time.RFC3339Nano, until)
	}
	if err != nil {
		err = damaged("an entry has the limit %.80q", text)
	}
	return l, err
}
