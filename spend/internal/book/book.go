// Package book holds the parts that package spend and its ledgers share: [Batch] decides jobs one
// after the other on one state of a ledger, and [Encoder] and [Decoder] are the form of stored
// values.
package book

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/brimgo/brim/spend/ledger"
	"github.com/brimgo/brim/store"
)

// Reader reads the stored state of a ledger. Its methods are those of [ledger.Snapshot], but for
// Open.
type Reader interface {
	Locked(account string) bool
	Account(key string) (ledger.Account, error)
	Request(id string) (*ledger.Request, error)
	Rules(budget string) (ledger.Rules, error)
	// Entries may return more than limit entries.
	Entries(account string, after ledger.Place, upto int64, limit int) (entries []ledger.Entry, through ledger.Place, err error)
	Since(account string, after ledger.Position, limit int) ([]ledger.Entry, error)
	// Open returns the account's open holds as [ledger.Snapshot.Holds] does, as a slice of the
	// caller's. The next calls are Request for each.
	Open(account string, after ledger.Hold, upto int64, limit int) (open []ledger.Hold, next int64, err error)
}

// Batch is the snapshot of the jobs of one transaction: the stored state with the changes of the
// jobs so far. It reads no account, no request, no rules and no short page of entries twice.
type Batch struct {
	Reader
	Pages    Pages // that the reader has read ahead, and those that jobs have read
	now      int64
	accounts map[string]*account
	requests map[string]*request
	rules    []rules // the newest of each budget

	// The changes of all jobs, each account and request once, in the order of their first change.
	keys    []string       // of accounts
	ids     []string       // of requests
	changes ledger.Changes // Entries, Drop, Rules and Moved
}

// rules are the newest rules of a budget, which may have none.
type rules struct {
	budget string
	ledger.Rules
}

// account is an account with the changes of jobs.
type account struct {
	ledger.Account
	read, changed bool
	fresh         []ledger.Entry
	least         int64 // the earliest date of fresh
	// opened are the holds that jobs have opened, and closed the stored ones that they have closed.
	opened, closed map[ledger.Hold]bool
}

// request is a request, nil if the ledger has none, and how the changes of jobs are stored.
type request struct {
	*ledger.Request
	as form
}

// form is a field of [ledger.Changes] with requests.
type form int

const (
	unchanged form = iota
	inSpends
	inReplaced
	inRequests
)

// NewBatch returns a batch that has decided nothing.
func NewBatch(stored Reader, now int64) *Batch {
	return &Batch{
		Reader: stored, Pages: make(Pages), now: now,
		accounts: make(map[string]*account), requests: make(map[string]*request),
	}
}

// Run runs a job, and adds its changes to the batch. If Run returns an error, which is that of the
// job, nothing of the job is in the batch. A job cannot replace an account or a spend that cannot
// be read, nor append rules after some that cannot. A job that moves an account is the last one of
// its batch.
func (b *Batch) Run(job *ledger.Job) error {
	c, err := job.Run(b)
	if c == nil || err != nil {
		return err
	}
	for i := range c.Accounts {
		if _, err := b.Account(c.Accounts[i].Key); err != nil {
			return err
		}
	}
	if err := b.follow(c.Rules); err != nil {
		return err
	}
	spends := make([]ledger.Request, len(c.Spends))
	for i, s := range c.Spends {
		r, err := b.Request(s.ID)
		if err != nil {
			return err
		}
		spends[i] = *r
		spends[i].Spend = s.Spend
	}
	b.add(c, spends)
	return nil
}

// follow returns an error unless rules have the numbers that follow those of the newest ones.
func (b *Batch) follow(list []ledger.Rules) error {
	newest := make(map[string]int64)
	for _, r := range list {
		if _, read := newest[r.Budget]; !read {
			rules, err := b.Rules(r.Budget)
			if err != nil {
				return err
			}
			newest[r.Budget] = rules.Seq
		}
		if newest[r.Budget]++; r.Seq != newest[r.Budget] {
			return fmt.Errorf("spend: rules have the number %d; the next one is %d", r.Seq, newest[r.Budget])
		}
	}
	return nil
}

// add adds the changes of a job. spends are the requests whose spend it replaces, with the new one.
func (b *Batch) add(c *ledger.Changes, spends []ledger.Request) {
	for _, stored := range c.Accounts {
		a := b.account(stored.Key)
		if !a.changed {
			a.changed, b.keys = true, append(b.keys, stored.Key)
		}
		a.Account, a.read = stored, true
	}
	b.changes.Entries = append(b.changes.Entries, c.Entries...)
	for _, e := range c.Entries {
		a := b.account(e.Account)
		if len(a.fresh) == 0 {
			a.least = e.Dated
		}
		a.fresh, a.least = append(a.fresh, e), min(a.least, e.Dated)
	}
	b.note(c.Requests, inRequests)
	b.note(spends, inSpends)
	b.note(c.Replaced, inReplaced)
	for _, h := range c.Opened {
		put(&b.account(h.Account).opened, h)
	}
	for _, h := range c.Closed {
		if a := b.account(h.Account); a.opened[h] {
			delete(a.opened, h)
		} else {
			put(&a.closed, h)
		}
	}
	b.changes.Drop = append(b.changes.Drop, c.Drop...)
	b.changes.Rules = append(b.changes.Rules, c.Rules...)
	for _, r := range c.Rules {
		*b.rulesOf(r.Budget) = r
	}
	b.changes.Moved = append(b.changes.Moved, c.Moved...)
}

func put(set *map[ledger.Hold]bool, h ledger.Hold) {
	if *set == nil {
		*set = make(map[ledger.Hold]bool)
	}
	(*set)[h] = true
}

// note notes the last state of requests. A request that the batch inserts stays in Requests, and
// one that it replaces in Replaced.
func (b *Batch) note(list []ledger.Request, as form) {
	for i := range list {
		id := list[i].ID
		r := b.requests[id]
		if r == nil {
			r = new(request)
			b.requests[id] = r
		}
		if r.as == unchanged {
			b.ids = append(b.ids, id)
		}
		r.Request, r.as = &list[i], max(r.as, as)
	}
}

func (b *Batch) account(key string) *account {
	a := b.accounts[key]
	if a == nil {
		a = new(account)
		b.accounts[key] = a
	}
	return a
}

// Changes returns the changes of all jobs. Each account, request, spend and hold is there once, in
// its last state; the requests in Spends are complete.
func (b *Batch) Changes() *ledger.Changes {
	c := b.changes
	for _, key := range b.keys {
		a := b.accounts[key]
		c.Accounts = append(c.Accounts, a.Account)
		c.Opened = slices.AppendSeq(c.Opened, maps.Keys(a.opened))
		c.Closed = slices.AppendSeq(c.Closed, maps.Keys(a.closed))
	}
	for _, id := range b.ids {
		r := b.requests[id]
		list := [...]*[]ledger.Request{inSpends: &c.Spends, inReplaced: &c.Replaced, inRequests: &c.Requests}[r.as]
		*list = append(*list, *r.Request)
	}
	return &c
}

// Moves reports whether a job has moved an account.
func (b *Batch) Moves() bool { return len(b.changes.Moved) > 0 }

// Now returns the time of all decisions of the batch.
func (b *Batch) Now() int64 { return b.now }

// Account returns a working set.
func (b *Batch) Account(key string) (ledger.Account, error) {
	a := b.account(key)
	if a.read {
		return a.Account, nil
	}
	stored, err := b.Reader.Account(key)
	if err == nil {
		a.Account, a.read = stored, true
	}
	return stored, err
}

// Request returns the answer to an ID, or nil.
func (b *Batch) Request(id string) (*ledger.Request, error) {
	if r := b.requests[id]; r != nil {
		return r.Request, nil
	}
	r, err := b.Reader.Request(id)
	if err == nil {
		b.requests[id] = &request{Request: r}
	}
	return r, err
}

// Rules returns the newest rules of a budget.
func (b *Batch) Rules(budget string) (ledger.Rules, error) {
	if r := b.rulesOf(budget); r != nil {
		return *r, nil
	}
	r, err := b.Reader.Rules(budget)
	if err == nil {
		b.rules = append(b.rules, rules{budget, r})
	}
	return r, err
}

// rulesOf returns the place of the newest rules of a budget, which were read, or nil.
func (b *Batch) rulesOf(budget string) *ledger.Rules {
	for i := range b.rules {
		if b.rules[i].budget == budget {
			return &b.rules[i].Rules
		}
	}
	return nil
}

// Entries returns a page of the entries of a range of dates.
func (b *Batch) Entries(account string, after ledger.Place, upto int64, limit int) ([]ledger.Entry, ledger.Place, error) {
	list, through, kept := b.Pages.Get(account, after, upto, limit)
	if !kept {
		var err error
		if list, through, err = b.Reader.Entries(account, after, upto, limit); err != nil {
			return nil, ledger.Place{}, err
		}
		b.Pages.Keep(account, after, list, through, limit)
	}
	if a := b.account(account); a.least <= through.Dated { // else none of the fresh ones is dated up to through
		list, through = Merge(list, through, a.fresh, after, upto)
	}
	if len(list) > limit {
		list, through = list[:limit:limit], Through(list[limit-1].Place(), list[limit].Place())
	}
	return list, through, nil
}

// Merge adds entries of an account that are not stored yet to the answer of
// [ledger.Snapshot.Entries].
func Merge(stored []ledger.Entry, through ledger.Place, fresh []ledger.Entry, after ledger.Place, upto int64) ([]ledger.Entry, ledger.Place) {
	all := stored[:len(stored):len(stored)]
	for i := range fresh {
		switch e := &fresh[i]; {
		case e.Place().Compare(after) <= 0:
		case e.Dated > upto:
			if e.Dated <= through.Dated {
				through = ledger.EndOf(e.Dated - 1)
			}
		case e.Place().Compare(through) <= 0:
			all = append(all, *e)
		}
	}
	if len(all) > len(stored) {
		Sort(all)
	}
	return all, through
}

// Since returns the entries after a position.
func (b *Batch) Since(account string, after ledger.Position, limit int) ([]ledger.Entry, error) {
	list, err := b.Reader.Since(account, after, limit)
	list = list[:len(list):len(list)]
	for _, e := range b.account(account).fresh {
		if e.Seq > after.Seq && len(list) < limit {
			list = append(list, e)
		}
	}
	return list, err
}

// Holds returns the requests of open holds. Those that jobs have opened follow the stored ones of
// the same expiry.
func (b *Batch) Holds(
	account string, after ledger.Hold, upto int64, limit int,
) (held []ledger.Held, next int64, err error) {
	a := b.account(account)
	open, next, err := b.Reader.Open(account, after, upto, max(limit, limit+len(a.closed)))
	if err != nil {
		return nil, 0, err
	}
	open = slices.DeleteFunc(open, func(h ledger.Hold) bool { return a.closed[h] })
	for _, h := range slices.SortedFunc(maps.Keys(a.opened), Order) {
		switch {
		case h.Expires <= upto:
			open = append(open, h)
		case next == 0 || h.Expires < next:
			next = h.Expires
		}
	}
	slices.SortStableFunc(open, func(x, y ledger.Hold) int { return cmp.Compare(x.Expires, y.Expires) })
	if len(open) > limit {
		open, next = open[:limit], open[limit].Expires
	}
	for _, h := range open {
		r, err := b.Request(h.SpendID)
		if err == nil && r == nil {
			err = fmt.Errorf("spend: %w: a hold belongs to no request", store.ErrCorrupt)
		}
		if err != nil {
			return nil, 0, err
		}
		held = append(held, ledger.Held{Request: *r, Expires: h.Expires})
	}
	return held, next, nil
}

// Order compares holds by expiry, then by ID.
func Order(a, b ledger.Hold) int {
	return cmp.Or(cmp.Compare(a.Expires, b.Expires), cmp.Compare(a.SpendID, b.SpendID))
}
