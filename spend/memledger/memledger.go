// Package memledger keeps spends in the memory of the process and loses them
// when the process ends. Use it for tests, for replaying logs, and for limits
// that may be lost.
package memledger

import (
	"context"
	"iter"
	"maps"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/tidwall/btree"

	"github.com/brimgo/brim/internal/clock"
	"github.com/brimgo/brim/spend/internal/book"
	"github.com/brimgo/brim/spend/ledger"
	"github.com/brimgo/brim/store"
)

const backend = "memledger"

// Options adjust [New]. A nil *Options means all defaults.
type Options struct {
	// Clock replaces the system's clock, for tests and for replaying logs. It must
	// be safe for concurrent use. If Clock is nil, the ledger follows the wall clock,
	// and time in which the machine was suspended counts. If the wall clock is set
	// back by at most [store.DefaultMaxSkew], the ledger's time does not run back: it
	// runs at half speed until both are equal. If it is set back by more, the time of
	// new accounts jumps back with it, and other accounts keep their own.
	Clock func() time.Time
}

// memory is the ledger that New returns.
type memory struct {
	clock *clock.Clock

	// lock is a fair lock: a channel with room for the one caller that holds it. Callers get it in
	// the order in which they came. A sync.Mutex favours callers that run: then half of the calls
	// took no time and others a thousand times as long.
	lock     chan struct{}
	closed   bool
	accounts map[string]*account
	keys     btree.Set[string] // of accounts
	requests map[string]*request
	held     map[string]int            // the number of open holds of a request, if there are any
	rules    map[string][]ledger.Rules // of a budget, by their numbers
}

var _ ledger.Ledger = (*memory)(nil)

// account is a working set with its entries and its holds.
type account struct {
	ledger.Account
	entries     []ledger.Entry // their numbers have no gaps
	dropped     int            // entries before them whose memory is not free yet
	corrections []ledger.Place // of the entries that count at another date than their own, in that order
	holds       *btree.BTreeG[ledger.Hold]
}

// request is a request with its accounts, whose keys may change.
type request struct {
	*ledger.Request
	accounts []*account
}

func newAccount() *account {
	return &account{holds: btree.NewBTreeGOptions(
		func(a, b ledger.Hold) bool { return book.Order(a, b) < 0 }, btree.Options{NoLocks: true})}
}

// New returns an empty ledger in memory. Any number of goroutines may use it at once. o may be nil.
func New(o *Options) ledger.Ledger {
	if o == nil {
		o = &Options{}
	}
	return &memory{
		clock:    clock.New(clock.Options{Source: o.Clock, MaxSkew: store.DefaultMaxSkew}),
		lock:     make(chan struct{}, 1),
		accounts: make(map[string]*account),
		requests: make(map[string]*request),
		held:     make(map[string]int),
		rules:    make(map[string][]ledger.Rules),
	}
}

// enter takes the lock, unless ctx ends or the ledger is closed.
func (l *memory) enter(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	select {
	case l.lock <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	if l.closed {
		l.leave()
		return store.ErrClosed
	}
	return nil
}

// leave gives the lock back.
func (l *memory) leave() { <-l.lock }

// Decide runs a job under the lock. See [ledger.Ledger].
func (l *memory) Decide(ctx context.Context, job *ledger.Job) error {
	return l.DecideAll(ctx, []*ledger.Job{job})[0]
}

// DecideAll runs jobs under the lock, one after the other. See [ledger.Ledger].
func (l *memory) DecideAll(ctx context.Context, jobs []*ledger.Job) []error {
	errs := make([]error, len(jobs))
	if err := l.enter(ctx); err != nil {
		for i := range errs {
			errs[i] = store.Wrap(backend, "decide", err)
		}
		return errs
	}
	defer l.leave()
	for i, job := range jobs {
		batch := book.NewBatch(l, l.clock.Now()) // one for each job, which then has a time of its own
		if errs[i] = batch.Run(job); errs[i] == nil {
			l.apply(batch.Changes())
		}
	}
	return errs
}

// View runs a job and drops its changes. See [ledger.Ledger].
func (l *memory) View(ctx context.Context, job *ledger.Job) error {
	if err := l.enter(ctx); err != nil {
		return store.Wrap(backend, "view", err)
	}
	defer l.leave()
	_, err := job.Run(book.NewBatch(l, l.clock.Now()))
	return err
}

// apply stores changes.
func (l *memory) apply(c *ledger.Changes) {
	for i := range c.Accounts {
		l.account(c.Accounts[i].Key).Account = c.Accounts[i]
	}
	for i := range c.Entries {
		e := &c.Entries[i]
		a := l.accounts[e.Account]
		a.entries = append(a.entries, *e)
		if e.Part != e.Seq {
			place := e.Place()
			a.corrections = slices.Insert(a.corrections, a.corrected(place), place)
		}
	}
	for _, list := range [...][]ledger.Request{c.Requests, c.Spends, c.Replaced} {
		for i := range list {
			r := &request{Request: &list[i]}
			for _, key := range r.Accounts {
				r.accounts = append(r.accounts, l.account(key))
			}
			l.requests[r.ID] = r
		}
	}
	for _, h := range c.Opened {
		l.accounts[h.Account].holds.Set(h)
		l.held[h.SpendID]++
	}
	for _, h := range c.Closed {
		l.accounts[h.Account].holds.Delete(h)
		if l.held[h.SpendID]--; l.held[h.SpendID] == 0 {
			delete(l.held, h.SpendID)
		}
	}
	for _, d := range c.Drop {
		l.accounts[d.Account].drop(d.At)
	}
	for _, r := range c.Rules {
		l.rules[r.Budget] = append(l.rules[r.Budget], r)
	}
	for _, m := range c.Moved {
		l.move(m)
	}
}

// account returns the account with a key, which may be new.
func (l *memory) account(key string) *account {
	a := l.accounts[key]
	if a == nil {
		a = newAccount()
		a.Key = key
		l.accounts[key] = a
		l.keys.Insert(key)
	}
	return a
}

// move gives an account another key. Holds and requests have that of their account.
func (l *memory) move(m ledger.Move) {
	a := l.accounts[m.From]
	delete(l.accounts, m.From)
	l.keys.Delete(m.From)
	l.accounts[m.To] = a
	l.keys.Insert(m.To)
	a.Key = m.To
	for i := range a.entries {
		a.entries[i].Account = m.To
	}
}

// drop removes the entries up to a time. It copies the rest once that is less than a quarter of
// all, so that the memory of the removed entries becomes free, and no call copies many.
func (a *account) drop(at int64) {
	n := a.after(ledger.EndOf(at))
	clear(a.entries[:n]) // what they refer to becomes free at once
	a.entries, a.dropped = a.entries[n:], a.dropped+n
	if a.dropped > 3*len(a.entries) {
		a.entries, a.dropped = slices.Clone(a.entries), 0
	}
	// No entry is dated after its own time, so the corrections of later dates all stay.
	end := a.corrected(ledger.EndOf(at))
	kept := slices.DeleteFunc(a.corrections[:end], func(p ledger.Place) bool {
		return len(a.entries) == 0 || p.Seq < a.entries[0].Seq
	})
	first := end - len(kept)
	copy(a.corrections[first:end], kept)
	a.corrections = a.corrections[first:]
}

// after returns the index of the first entry whose time and number come after a place.
func (a *account) after(p ledger.Place) int {
	return sort.Search(len(a.entries), func(i int) bool {
		return ledger.Place{Dated: a.entries[i].At, Seq: a.entries[i].Seq}.Compare(p) > 0
	})
}

// corrected returns the index of the first correction after a place.
func (a *account) corrected(p ledger.Place) int {
	return sort.Search(len(a.corrections), func(i int) bool { return a.corrections[i].Compare(p) > 0 })
}

// History lists entries, newest first. See [ledger.Ledger].
func (l *memory) History(ctx context.Context, key string, before ledger.Position, limit int) ([]ledger.Entry, error) {
	if err := l.enter(ctx); err != nil {
		return nil, store.Wrap(backend, "history", err)
	}
	defer l.leave()
	a := l.accounts[key]
	if a == nil {
		return nil, nil
	}
	end := len(a.entries)
	if before.Seq != 0 {
		end = sort.Search(end, func(i int) bool { return a.entries[i].Seq >= before.Seq })
	}
	page := slices.Clone(a.entries[max(0, end-limit):end])
	slices.Reverse(page)
	return page, nil
}

// Revisions lists the rules of a budget, newest first. See [ledger.Ledger].
func (l *memory) Revisions(ctx context.Context, budget string, before int64, limit int) ([]ledger.Rules, error) {
	if err := l.enter(ctx); err != nil {
		return nil, store.Wrap(backend, "revisions", err)
	}
	defer l.leave()
	all := l.rules[budget]
	if before != 0 {
		all = all[:min(max(0, int(before)-1), len(all))]
	}
	page := slices.Clone(all[max(0, len(all)-limit):])
	slices.Reverse(page)
	return page, nil
}

// accountsPage and requestsPage are the numbers of accounts and of requests that Accounts and
// PruneRequests look at while others wait for the lock.
const (
	accountsPage = 4096
	requestsPage = 512
)

// Accounts lists accounts. See [ledger.Ledger].
func (l *memory) Accounts(
	ctx context.Context, prefix, after string, due int64, limit int,
) (keys []string, next string, err error) {
	if err := l.enter(ctx); err != nil {
		return nil, "", store.Wrap(backend, "accounts", err)
	}
	defer l.leave()
	seen := 0
	l.keys.Ascend(max(prefix, after), func(key string) bool {
		if !strings.HasPrefix(key, prefix) || next != "" {
			return false
		}
		if seen++; key > after {
			if a := l.accounts[key]; due == 0 || a.Due != 0 && a.Due <= due {
				keys = append(keys, key)
			}
		}
		if len(keys) == limit || due != 0 && seen == accountsPage {
			next = key
		}
		return true
	})
	return keys, next, nil
}

// PruneRequests removes requests. It gives the lock to others after each part of them. See
// [ledger.Ledger].
func (l *memory) PruneRequests(ctx context.Context, prefix string, before int64) (n int64, err error) {
	if err := l.enter(ctx); err != nil {
		return 0, store.Wrap(backend, "prune", err)
	}
	next, stop := iter.Pull2(maps.All(l.requests)) // which may change between two calls of next
	l.leave()
	defer stop()
	var pace book.Pace
	more := true
	part := func() error {
		if err := l.enter(ctx); err != nil {
			return err
		}
		defer l.leave()
		defer pace.Worked(time.Now())
		for range requestsPage {
			var id string
			var r *request
			if id, r, more = next(); !more {
				break
			}
			if r.At < before && strings.HasPrefix(r.accounts[0].Key, prefix) && l.held[id] == 0 {
				delete(l.requests, id)
				n++
			}
		}
		return nil
	}
	for more && err == nil {
		if err = part(); err == nil && more {
			err = pace.Rest(ctx)
		}
	}
	return n, store.Wrap(backend, "prune", err)
}

// Close ends the ledger and forgets its data.
func (l *memory) Close() error {
	l.lock <- struct{}{}
	defer l.leave()
	l.closed, l.accounts, l.requests, l.held, l.rules = true, nil, nil, nil, nil
	return nil
}
