package decide

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/brimgo/brim/spend/internal/book"
	"github.com/brimgo/brim/spend/internal/figures"
	"github.com/brimgo/brim/spend/ledger"
	"github.com/brimgo/brim/store"
)

// counter counts the entries of accounts for rules that are new to them, beside decisions.
type counter struct{ *Decider }

// uncounted is an account with entries that a new rule has yet to count, and the plan that it is to
// have.
type uncounted struct{ key, plan string }

// many is the error of a decision about such accounts, for whose entries the others of its
// transaction would wait.
type many []uncounted

func (many) Error() string { return figures.ErrMany.Error() }

// counted are the figures of rules that are new to an account, counted beside decisions.
type counted struct {
	tallies []*figures.Tally
	at      ledger.Position // of the last entry that they have
	time    int64           // at which they were opened
	removed int64           // up to which Prune had removed entries
	mends   int             // of the account then
	sum     uint32          // of its entries then
}

// counts are the accounts whose entries a process counts, or has counted.
type counts struct {
	mu   sync.Mutex
	keys map[string]*count
}

// count is the count of an account. Others wait for it.
type count struct {
	done chan struct{}
	*counted
	err error
}

// mostCounts is the number of accounts whose counts a process keeps.
const mostCounts = 1 << 14

// CountedPage is the number of entries that are counted at once beside decisions, and the largest
// number of those added meanwhile that a decision counts. Tests change it.
var CountedPage = 1024

// eagerPages is the number of pages of an account that are counted without a rest: the callers who
// wait for a short count would be the ones whom a rest leaves the room.
const eagerPages = 4

// of returns the count of an account. If there is none, the caller is the one to make it.
func (c *counts) of(key string) (_ *count, first bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if has := c.keys[key]; has != nil {
		return has, false
	}
	if c.keys == nil {
		c.keys = make(map[string]*count)
	}
	for other := range c.keys {
		if len(c.keys) < mostCounts {
			break
		}
		delete(c.keys, other)
	}
	c.keys[key] = &count{done: make(chan struct{})}
	return c.keys[key], true
}

// drop drops a count that is of no use any more.
func (c *counts) drop(key string, has *count) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.keys[key] == has {
		delete(c.keys, key)
	}
}

// ready returns the count of an account that needs one, if it is made and serves.
func (c *counts) ready(a *account) *counted {
	if a.seq == 0 || !a.lacks() {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if has := c.keys[a.key]; has != nil && has.over() && has.serves(a) {
		return has.counted
	}
	return nil
}

func (c *count) over() bool {
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}

// count counts the entries of an account for the rules of a plan that are new to it: those of next,
// or of the newest revision if that is nil. One caller begins, and others of the process wait with
// it. The count goes on when they have left, so that the next caller finds it.
func (d counter) count(ctx context.Context, of uncounted, next *Budget) error {
	has, first := d.counts.of(of.key)
	switch {
	case first:
		run := func(ctx context.Context) {
			has.counted, has.err = d.countPages(ctx, of, next)
			if close(has.done); has.err != nil {
				d.counts.drop(of.key, has)
			}
		}
		if d.Joined { // the transaction is the caller's
			run(ctx)
		} else {
			go run(context.WithoutCancel(ctx))
		}
	case has.over(): // it was not enough: too many entries were added since
		d.counts.drop(of.key, has)
		return d.count(ctx, of, next)
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-has.done:
		return has.err
	}
}

// countPages counts the entries by pages, each as of its own time, and rests between them.
func (d counter) countPages(ctx context.Context, of uncounted, next *Budget) (*counted, error) {
	var pace book.Pace
	begun := new(counting)
	for n, tries := 1, 0; ; n++ {
		page, err := d.countPage(ctx, of, next, begun, &pace)
		switch {
		case err != nil:
			return nil, fmt.Errorf("spend: counting entries for a new rule: %w", err)
		case page == nil: // the entries have other dates now
			if tries++; tries == attempts {
				return nil, errUnlocked
			}
			begun, n = new(counting), 0
			continue
		}
		if begun = page; begun.through.Dated == maxTime {
			for _, u := range begun.tallies {
				u.Ready(begun.account)
			}
			return begun.counted, nil
		}
		if d.Joined || n < eagerPages { // in the caller's transaction, its locks are held
			continue
		}
		if err := pace.Rest(ctx); err != nil {
			return nil, err
		}
	}
}

// counting is a count with the entries up to a place. The next page makes another one of it.
type counting struct {
	*counted
	account *account // as it was when the count began; nil if it has not
	through ledger.Place
}

// longestRead bounds the read of a page: nobody may be there any more who would wait for it.
const longestRead = time.Minute

// countPage goes on with a count by a page, or begins one. It returns nil if a mend has moved
// entries since the count began.
func (d counter) countPage(ctx context.Context, of uncounted, next *Budget, begun *counting, pace *book.Pace) (*counting, error) {
	out, k := new(*counting), d.Rules.known()
	ctx, cancel := context.WithTimeout(ctx, longestRead)
	defer cancel()
	err := d.Ledger.View(ctx, &ledger.Job{Accounts: []string{of.key}, Rules: k.of(of.key), Run: func(snap ledger.Snapshot) (_ *ledger.Changes, err error) {
		defer pace.Worked(time.Now())
		*out = nil
		rules := next
		if rules == nil {
			g := &group{decider: d.Decider, snap: snap, known: k}
			if rules, err = g.newestOf(of.key); err != nil {
				return nil, err
			}
		}
		a, err := d.load(rules, snap, of.key, &of.plan)
		if err != nil {
			return nil, err
		}
		page := &counting{account: begun.account, through: begun.through}
		switch {
		case begun.account == nil:
			page.counted, page.account = new(counted), a
			page.through = page.begin(a)
		case len(a.mends) != begun.mends:
			return nil, nil
		default:
			page.counted = begun.clone(begun.account)
		}
		if page.through.Dated < maxTime {
			var entries []ledger.Entry
			if entries, page.through, err = a.Page(page.through, maxTime, CountedPage); err != nil {
				return nil, err
			}
			if err := page.add(entries, page.account); err != nil {
				return nil, err
			}
		}
		*out = page
		return nil, nil
	}})
	if err != nil {
		return nil, err
	}
	return *out, nil
}

// clone returns a copy, which may count more of the entries that the account had when the count
// began.
func (c *counted) clone(of *account) *counted {
	other := *c
	other.tallies = make([]*figures.Tally, len(c.tallies))
	for i, u := range c.tallies {
		other.tallies[i] = u.For(u.Rule, of)
	}
	return &other
}

// add counts the entries of a page that the account had when the count began.
func (c *counted) add(entries []ledger.Entry, of *account) error {
	for i := range entries {
		if e := &entries[i]; e.Seq <= of.seq {
			for _, u := range c.tallies {
				if err := u.Add(e, of.time); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// begin begins with the rules that are new to an account, and returns the place after which they
// have entries to count.
func (c *counted) begin(a *account) ledger.Place {
	last := a.time
	c.at, c.sum, c.mends = ledger.Position{At: a.Latest(last), Seq: a.seq}, a.sum, len(a.mends)
	a.time = max(a.now, last)
	c.time, c.removed = a.time, a.Removed()
	first := int64(maxTime)
	for _, u := range a.tallies {
		if u.Known() {
			continue
		}
		if after, counts := u.Open(a, a.time); counts {
			c.tallies, first = append(c.tallies, u), min(first, after)
		}
	}
	return ledger.EndOf(first)
}

// use gives the account the figures that were counted beside decisions, with the entries that were
// added since.
func (a *account) use(all *counts) error {
	c := all.ready(a)
	if c == nil {
		return nil
	}
	var missed []ledger.Entry
	if a.seq != c.at.Seq {
		var err error
		if missed, err = a.snap.Since(a.key, c.at, CountedPage+1); err != nil || len(missed) > CountedPage {
			return err
		}
	}
	if !c.leadsTo(a, missed) {
		return nil
	}
	missed = a.placed(missed)
	for i, u := range a.tallies {
		has := c.of(u)
		if has == nil {
			continue
		}
		a.tallies[i] = has.For(u.Rule, a)
		for j := range missed {
			if err := a.tallies[i].Count(&missed[j], min(missed[j].At, a.time)); err != nil {
				return err
			}
		}
	}
	return nil
}

// of returns the figures that take the place of those of a rule that is new to its account, or nil.
func (c *counted) of(u *figures.Tally) *figures.Tally {
	if u.Known() {
		return nil
	}
	for _, has := range c.tallies {
		if has.Is(u.Rule, u.Fingerprint()) {
			return has
		}
	}
	return nil
}

// leadsTo reports whether the account has the entries of the count and those that were added since:
// another account may have its key now.
func (c *counted) leadsTo(a *account, missed []ledger.Entry) bool {
	sum := c.sum
	for i := range missed {
		sum = chained(sum, &missed[i])
	}
	return sum == a.sum
}

// serves reports whether an account may go on from the figures: it needs one of them, its entries
// have the dates that they had, none of those was removed, and its time has not run back.
func (c *counted) serves(a *account) bool {
	return c != nil && len(a.mends) == c.mends && a.Removed() == c.removed && a.seq >= c.at.Seq && max(a.now, a.time) >= c.time &&
		slices.ContainsFunc(a.tallies, func(u *figures.Tally) bool { return c.of(u) != nil })
}

// mostWarm is the number of accounts whose entries are counted before rules are in force: those
// with the most entries. Decisions of the process meanwhile keep counts, too.
const mostWarm = mostCounts / 2

// warm counts entries for the rules that are new to accounts, before they are in force, and returns
// the keys of these accounts. Accounts with few entries need none of that.
func (d counter) warm(ctx context.Context, next *Budget) ([]string, error) {
	type large struct {
		uncounted
		seq int64
	}
	var all []large
	var pace book.Pace
	_, err := d.eachPage(ctx, next, &pace, 0, func(keys []string) error {
		found := new([]large)
		err := d.Ledger.View(ctx, &ledger.Job{Accounts: keys, Run: func(snap ledger.Snapshot) (*ledger.Changes, error) {
			*found = nil
			for _, key := range keys {
				a, err := d.load(next, snap, key, nil)
				if errors.Is(err, store.ErrCorrupt) {
					continue // whoever decides on it hears of that
				}
				if err != nil {
					return nil, err
				}
				if a.seq > figures.MostBegun && a.lacks() {
					*found = append(*found, large{uncounted{key, a.plan}, a.seq})
				}
			}
			return nil, nil
		}})
		all = append(all, *found...)
		return err
	})
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(all, func(x, y large) int { return cmp.Compare(y.seq, x.seq) })
	var keys []string
	for _, of := range all[:min(len(all), mostWarm)] {
		start := time.Now()
		if err := d.count(ctx, of.uncounted, next); errors.Is(err, store.ErrCorrupt) {
			continue
		} else if err != nil {
			return nil, err
		}
		keys = append(keys, of.key)
		pace.Worked(start)
		if err := pace.Rest(ctx); err != nil {
			return nil, err
		}
	}
	return keys, nil
}

// settledAtOnce is the number of accounts whose figures are stored in one transaction.
const settledAtOnce = 64

// settle stores the figures that were counted before their rules were in force, without rests: each
// decision that comes before has to count. Where it fails, the next decision on the account uses or
// repeats the count.
func (d counter) settle(ctx context.Context, keys []string) {
	for part := range slices.Chunk(keys, settledAtOnce) {
		k := d.Rules.known()
		var jobs []*ledger.Job
		for _, key := range part {
			jobs = append(jobs, &ledger.Job{Accounts: []string{key}, Rules: k.of(key), Run: func(snap ledger.Snapshot) (*ledger.Changes, error) {
				return d.settled(snap, k, key)
			}})
		}
		if errs := d.Ledger.DecideAll(ctx, jobs); ctx.Err() != nil || errors.Is(errs[0], store.ErrClosed) {
			return
		}
	}
}

// settled returns an account with the figures that were counted for it.
func (d counter) settled(snap ledger.Snapshot, k *known, key string) (*ledger.Changes, error) {
	g := &group{decider: d.Decider, snap: snap, known: k}
	budget, err := g.newestOf(key)
	if err != nil {
		return nil, err
	}
	a, err := d.load(budget, snap, key, nil)
	if err == nil && (a.seq == 0 || !a.lacks()) { // it has moved, or a decision came first
		return nil, nil
	}
	if err == nil {
		err = a.use(d.counts)
	}
	if err == nil {
		err = a.advance(max(snap.Now(), a.time), true)
	}
	if err != nil {
		return nil, err
	}
	return &ledger.Changes{Accounts: []ledger.Account{a.stored()}}, nil
}

// lacks reports whether the account has not yet counted its entries for a rule.
func (a *account) lacks() bool {
	for _, u := range a.tallies {
		if !u.Known() && u.Rule.Counts() {
			return true
		}
	}
	return false
}
