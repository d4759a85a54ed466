package decide

import (
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

// many is the error of a decision whose account has many entries that a new rule has yet to count.
type many struct{ key, plan string }

func (m *many) Error() string { return figures.ErrMany.Error() }

func (m *many) Unwrap() error { return figures.ErrMany }

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
const mostCounts = 4096

// of returns the count of an account. If there is none, the caller is the one to make it.
func (c *counts) of(key string) (_ *count, first bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if has := c.keys[key]; has != nil {
		return has, false
	}
	if c.keys == nil || len(c.keys) >= mostCounts {
		c.keys = make(map[string]*count)
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
func (d counter) count(ctx context.Context, of many, next *Budget) error {
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
func (d counter) countPages(ctx context.Context, begins many, next *Budget) (*counted, error) {
	var pace book.Pace
	out, place, tries := new(counted), ledger.Place{}, 0
	for of := (*account)(nil); ; {
		from := place
		page, err := d.countPage(ctx, begins, next, of, from, &pace)
		switch {
		case err != nil:
			return nil, fmt.Errorf("spend: counting entries for a new rule: %w", err)
		case of == nil:
			of = page.account
			place = out.begin(of)
		case len(page.account.mends) != out.mends: // the entries have other dates now
			if tries++; tries == attempts {
				return nil, errUnlocked
			}
			of, place, out = nil, ledger.Place{}, new(counted)
			continue
		default:
			start := time.Now()
			if err := out.add(page.entries, of); err != nil {
				return nil, err
			}
			pace.Worked(start)
			place = page.through
		}
		if place.Dated == maxTime {
			for _, u := range out.tallies {
				u.Ready(of)
			}
			return out, nil
		}
		if d.Joined {
			continue // the caller's transaction holds its locks
		}
		if err := pace.Rest(ctx); err != nil {
			return nil, err
		}
	}
}

// entriesPage is a page of the entries of an account.
type entriesPage struct {
	account *account
	entries []ledger.Entry
	through ledger.Place
}

// longestRead bounds the read of a page: nobody may be there any more who would wait for it.
const longestRead = time.Minute

// countPage reads the account, and the page of entries after a place, as the account was when the
// count began; none if it begins.
func (d counter) countPage(
	ctx context.Context, begins many, next *Budget, of *account, from ledger.Place, pace *book.Pace,
) (*entriesPage, error) {
	out, k := new(entriesPage), d.Rules.known()
	ctx, cancel := context.WithTimeout(ctx, longestRead)
	defer cancel()
	err := d.Ledger.View(ctx, &ledger.Job{Accounts: []string{begins.key}, Rules: k.list, Run: func(snap ledger.Snapshot) (_ *ledger.Changes, err error) {
		defer pace.Worked(time.Now())
		*out = entriesPage{}
		rules := next
		if rules == nil {
			g := &group{decider: d.Decider, snap: snap, known: k}
			if rules, err = g.newestOf(begins.key); err != nil {
				return nil, err
			}
		}
		if out.account, err = d.load(rules, snap, begins.key, &begins.plan); err != nil || of == nil {
			return nil, err
		}
		entries, through, err := out.account.Page(from, maxTime, figures.MostBegun)
		out.entries, out.through = slices.Clone(entries), through
		return nil, err
	}})
	return out, err
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
	missed, err := a.snap.Since(a.key, c.at, figures.MostBegun+1)
	if err != nil || len(missed) > figures.MostBegun || !c.leadsTo(a, missed) {
		return err
	}
	missed = a.placed(missed)
	for i, u := range a.tallies {
		at := slices.IndexFunc(c.tallies, func(has *figures.Tally) bool { return has.Is(u.Rule, u.Fingerprint()) })
		if u.Known() || at < 0 {
			continue
		}
		a.tallies[i] = c.tallies[at].For(u.Rule, a)
		for j := range missed {
			if err := a.tallies[i].Count(&missed[j], min(missed[j].At, a.time)); err != nil {
				return err
			}
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

// serves reports whether an account may go on from the figures: its entries have the dates that
// they had, none of those was removed, and its time has not run back.
func (c *counted) serves(a *account) bool {
	return c != nil && len(a.mends) == c.mends && a.Removed() == c.removed && a.seq >= c.at.Seq && max(a.now, a.time) >= c.time
}

// warm counts entries for the rules that are new to accounts, before they are in force, and returns
// the keys of these accounts. Accounts with few entries need none of that.
func (d counter) warm(ctx context.Context, next *Budget) ([]string, error) {
	var large []many
	_, err := d.eachPage(ctx, next, new(book.Pace), 0, func(keys []string) error {
		found := new([]many)
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
				if a.seq > int64(figures.MostBegun) && a.lacks() {
					*found = append(*found, many{key, a.plan})
				}
			}
			return nil, nil
		}})
		large = append(large, *found...)
		return err
	})
	if err != nil {
		return nil, err
	}
	var keys []string
	for _, of := range large[:min(len(large), mostCounts-1)] {
		if err := d.count(ctx, of, next); errors.Is(err, store.ErrCorrupt) {
			continue
		} else if err != nil {
			return nil, err
		}
		keys = append(keys, of.key)
	}
	return keys, nil
}

// settle stores the figures that were counted before their rules were in force. Where it fails, the
// next decision on the account uses or repeats the count.
func (d counter) settle(ctx context.Context, keys []string) {
	for _, key := range keys {
		k := d.Rules.known()
		err := d.Ledger.Decide(ctx, &ledger.Job{Accounts: []string{key}, Rules: k.list, Run: func(snap ledger.Snapshot) (*ledger.Changes, error) {
			g := &group{decider: d.Decider, snap: snap, known: k}
			budget, err := g.newestOf(key)
			if err != nil {
				return nil, err
			}
			a, err := d.load(budget, snap, key, nil)
			if err == nil && a.seq == 0 { // it has moved
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
		}})
		if ctx.Err() != nil || errors.Is(err, store.ErrClosed) {
			return
		}
	}
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
