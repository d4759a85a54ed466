// Package book holds the parts that package spend and its ledgers share: [Batch] decides jobs one
// after the other on one state of a ledger, and [Encoder] and [Decoder] are the form of stored values.
package book

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/brimgo/brim/spend/ledger"
	"github.com/brimgo/brim/store"
)

// Reader reads the stored state of a ledger. Its methods are those of [ledger.Snapshot], but for Open.
type Reader interface {
	Locked(account string) bool
	Account(key string) (ledger.Account, error)
	Request(id string) (*ledger.Request, error)
	Entries(account string, after, upto int64, limit int) (entries []ledger.Entry, through int64, err error)
	Since(account string, after ledger.Position, limit int) ([]ledger.Entry, error)
	// Open returns the account's open holds with an expiry up to upto, at most limit of them, in the
	// order of expiry, as a slice of the caller's. next is the earliest expiry of the others, or 0. The
	// next calls are Request for each.
	Open(account string, upto int64, limit int) (open []ledger.Hold, next int64, err error)
}

// Batch is the snapshot of the jobs of one transaction: the stored state with the changes of the jobs
// so far. It reads no account, no request and no short page of entries twice.
type Batch struct {
	Reader
	Pages    Pages // that the reader has read ahead, and those that jobs have read
	now      int64
	accounts map[string]ledger.Account
	requests map[string]*ledger.Request // nil for an ID without an answer
	entries  map[string][]ledger.Entry  // appended, by account
	changes  ledger.Changes             // Accounts, Requests, Spends and Replaced have IDs and keys alone, each once
}

// NewBatch returns a batch that has decided nothing.
func NewBatch(stored Reader, now int64) *Batch {
	return &Batch{
		Reader: stored, Pages: make(Pages), now: now,
		accounts: make(map[string]ledger.Account), requests: make(map[string]*ledger.Request),
	}
}

// Run runs a job, and adds its changes to the batch. If Run returns an error, which is that of the
// job, nothing of the job is in the batch. A job cannot replace an account or a spend that cannot be
// read.
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

// add adds the changes of a job. spends are the requests whose spend it replaces, with the new one.
func (b *Batch) add(c *ledger.Changes, spends []ledger.Request) {
	all := &b.changes
	for _, a := range c.Accounts {
		if !slices.ContainsFunc(all.Accounts, func(o ledger.Account) bool { return o.Key == a.Key }) {
			all.Accounts = append(all.Accounts, a)
		}
		b.accounts[a.Key] = a
	}
	all.Entries = append(all.Entries, c.Entries...)
	for _, e := range c.Entries {
		if b.entries == nil {
			b.entries = make(map[string][]ledger.Entry)
		}
		b.entries[e.Account] = append(b.entries[e.Account], e)
	}
	all.Requests = append(all.Requests, c.Requests...)
	for i := range c.Requests {
		b.requests[c.Requests[i].ID] = &c.Requests[i]
	}
	for i := range spends {
		r := &spends[i]
		is := func(o ledger.Request) bool { return o.ID == r.ID }
		if !slices.ContainsFunc(slices.Concat(all.Requests, all.Spends, all.Replaced), is) {
			all.Spends = append(all.Spends, *r)
		}
		b.requests[r.ID] = r
	}
	for i := range c.Replaced {
		r := &c.Replaced[i]
		is := func(o ledger.Request) bool { return o.ID == r.ID }
		if !slices.ContainsFunc(all.Requests, is) {
			all.Spends = slices.DeleteFunc(all.Spends, is)
			all.Replaced = append(slices.DeleteFunc(all.Replaced, is), *r)
		}
		b.requests[r.ID] = r
	}
	all.Opened = append(all.Opened, c.Opened...)
	for _, h := range c.Closed {
		if i := slices.Index(all.Opened, h); i >= 0 {
			all.Opened = slices.Delete(all.Opened, i, i+1)
		} else {
			all.Closed = append(all.Closed, h)
		}
	}
	all.Drop = append(all.Drop, c.Drop...)
}

// Changes returns the changes of all jobs. Each account, request, spend and hold is there once, in
// its last state; the requests in Spends are complete.
func (b *Batch) Changes() *ledger.Changes {
	c := b.changes
	for i := range c.Accounts {
		c.Accounts[i] = b.accounts[c.Accounts[i].Key]
	}
	for _, list := range [...][]ledger.Request{c.Requests, c.Spends, c.Replaced} {
		for i := range list {
			list[i] = *b.requests[list[i].ID]
		}
	}
	return &c
}

// Now returns the time of all decisions of the batch.
func (b *Batch) Now() int64 { return b.now }

// Account returns a working set.
func (b *Batch) Account(key string) (ledger.Account, error) {
	a, known := b.accounts[key]
	if known {
		return a, nil
	}
	a, err := b.Reader.Account(key)
	if err == nil {
		b.accounts[key] = a
	}
	return a, err
}

// Request returns the answer to an ID, or nil.
func (b *Batch) Request(id string) (*ledger.Request, error) {
	r, known := b.requests[id]
	if known {
		return r, nil
	}
	r, err := b.Reader.Request(id)
	if err == nil {
		b.requests[id] = r
	}
	return r, err
}

// Entries returns the entries of a range of dates.
func (b *Batch) Entries(account string, after, upto int64, limit int) ([]ledger.Entry, int64, error) {
	list, through, kept := b.Pages.Get(account, after, upto, limit)
	if !kept {
		var err error
		if list, through, err = b.Reader.Entries(account, after, upto, limit); err != nil {
			return nil, 0, err
		}
		b.Pages.Keep(account, after, list, through, limit)
	}
	list, through = Merge(list, through, b.entries[account], after, upto)
	return list, through, nil
}

// Merge adds entries of an account that are not stored yet to the answer of [ledger.Snapshot.Entries].
func Merge(stored []ledger.Entry, through int64, fresh []ledger.Entry, after, upto int64) ([]ledger.Entry, int64) {
	all := stored[:len(stored):len(stored)]
	for i := range fresh {
		switch e := &fresh[i]; {
		case e.Dated <= after:
		case e.Dated > upto:
			through = min(through, e.Dated-1)
		case e.Dated <= through:
			all = append(all, *e)
		}
	}
	if len(all) > len(stored) {
		slices.SortFunc(all, func(x, y ledger.Entry) int {
			return cmp.Or(cmp.Compare(x.Dated, y.Dated), cmp.Compare(x.Seq, y.Seq))
		})
	}
	return all, through
}

// Since returns the entries after a position.
func (b *Batch) Since(account string, after ledger.Position, limit int) ([]ledger.Entry, error) {
	list, err := b.Reader.Since(account, after, limit)
	list = list[:len(list):len(list)]
	for _, e := range b.entries[account] {
		if n := len(list); e.Seq > after.Seq && (n < limit || e.At == list[n-1].At) {
			list = append(list, e)
		}
	}
	return list, err
}

// Holds returns the requests of the open holds with an expiry up to a time, and the earliest expiry of
// the others.
func (b *Batch) Holds(account string, upto int64, limit int) (held []ledger.Request, next int64, err error) {
	closed := b.changes.Closed
	open, next, err := b.Reader.Open(account, upto, max(limit, limit+len(closed)))
	if err != nil {
		return nil, 0, err
	}
	open = slices.DeleteFunc(open, func(h ledger.Hold) bool { return slices.Contains(closed, h) })
	for _, h := range b.changes.Opened {
		switch {
		case h.Account != account:
		case h.Expires <= upto:
			open = append(open, h)
		case next == 0 || h.Expires < next:
			next = h.Expires
		}
	}
	slices.SortFunc(open, Order)
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
		held = append(held, *r)
	}
	return held, next, nil
}

// Order compares holds by expiry, then by ID.
func Order(a, b ledger.Hold) int {
	return cmp.Or(cmp.Compare(a.Expires, b.Expires), cmp.Compare(a.SpendID, b.SpendID))
}
