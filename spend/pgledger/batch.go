package pgledger

import (
	"cmp"
	"context"
	"encoding/hex"
	"hash/maphash"
	"iter"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/brimgo/brim/internal/combine"
	"github.com/brimgo/brim/internal/pgrun"
	"github.com/brimgo/brim/spend/ledger"
)

// request is a job and its own error.
type request = combine.Request[*ledger.Job, error]

// Decide runs a job, in one transaction with others that are made at the same time. See
// [ledger.Ledger].
func (l *Ledger) Decide(ctx context.Context, job *ledger.Job) error {
	own, err := l.decisions.Do(ctx, l.hash(job), job)
	return cmp.Or(l.run.Wrap("decide", err), own)
}

// hash returns the hash of a job. Decisions about one thing use one lane, and so do not wait for
// each other's locks.
func (l *Ledger) hash(job *ledger.Job) uint64 {
	about := job.SpendID
	if len(job.Accounts) > 0 {
		about = job.Accounts[0]
	}
	return maphash.String(l.seed, about)
}

// DecideAll runs jobs in one transaction, or in as many as BatchSize makes necessary. A job whose
// rows another transaction holds waits apart from the others. See [ledger.Ledger].
func (l *Ledger) DecideAll(ctx context.Context, jobs []*ledger.Job) []error {
	if len(jobs) == 0 {
		return nil
	}
	own, errs := l.decisions.DoAll(ctx, l.hash(jobs[0]), jobs)
	for i, err := range errs {
		errs[i] = cmp.Or(l.run.Wrap("decide", err), own[i])
	}
	return errs
}

// lockedNames yields the names of the rows that a job locks or inserts, as probe.sql takes them.
func lockedNames(job *ledger.Job) iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, key := range job.Accounts {
			if !yield("a" + key) {
				return
			}
		}
		for _, id := range job.Requests {
			if !yield("r" + hex.EncodeToString(idBytes(id))) {
				return
			}
		}
		if job.SpendID != "" {
			yield(spendName(job.SpendID))
		}
	}
}

// spendName returns the name of a spend, as probe.sql takes it.
func spendName(id string) string { return "s" + hex.EncodeToString(idBytes(id)) }

// insert returns the statement that inserts a row that probe.sql found missing.
func (l *Ledger) insert(name string) (sql string, args [][]byte) {
	sql = l.sql.tryAccount
	if name[0] == 'r' {
		sql = l.sql.tryRequest
	}
	return sql, [][]byte{[]byte(name[1:])}
}

// repeats is how often a batch is decided again because another transaction has used one of its
// IDs meanwhile, for another account.
const repeats = 3

// decideBatch decides the jobs of the requests in one transaction.
func (l *Ledger) decideBatch(
	ctx context.Context, lane *pgrun.Lane, conn *pgxpool.Conn, requests []*request,
) error {
	jobs := make([]*ledger.Job, len(requests))
	for i, r := range requests {
		jobs[i] = r.In
	}
	var held []string
	for _, name := range lane.Held() {
		if name[0] == 'a' {
			held = append(held, name[1:])
		}
	}
	for n := 0; ; n++ {
		b := l.newBatch(conn, true)
		b.lockTimeout, b.idleTimeout = lane.LockTimeout(), lane.IdleTimeout()
		if err := b.setAside(ctx, jobs, held); err != nil {
			return err
		}
		errs, err := b.decide(ctx, jobs)
		if isDuplicate(err) && n < repeats {
			if err := pgrun.Rollback(ctx, conn); err != nil {
				return err
			}
			continue
		}
		if err != nil {
			return err
		}
		for i, r := range requests {
			r.Out = errs[i]
			if b.aside[jobs[i].SpendID] {
				r.Err = lane.SetAside(spendName(jobs[i].SpendID))
			}
		}
		return nil
	}
}

// isDuplicate reports that another transaction has stored an answer to the same ID.
func isDuplicate(err error) bool { return pgrun.IsCode(err, "23505") }

// batch is the jobs of one transaction, and the snapshot that they decide on: the rows that
// were read, with the changes of the jobs so far.
type batch struct {
	l   *Ledger
	q   pgrun.Queryer
	own bool // the batch begins and ends its transaction; else the transaction is the caller's
	now int64

	lockTimeout, idleTimeout *string // see [pgrun.Lane.LockTimeout] and [pgrun.Lane.IdleTimeout]

	aside map[string]bool // spends of accounts that another transaction holds, about which nothing is decided

	created  []string         // accounts that had no row before create.sql
	ids      map[string]int64 // of the accounts of the jobs, which a decision has locked; 0 without a row
	accounts map[string]ledger.Account
	requests map[string]*ledger.Request // nil for an ID without an answer
	watched  map[window][]*ahead
	// pages are ranges of entries that jobs have asked for. Declines of one account by one rule ask
	// for the same range, to tell when the amount would fit.
	pages map[span]page

	ctx    context.Context // for the reads that jobs ask for besides
	failed error           // of the connection; nothing is stored after it

	// To be stored.
	dirty   map[string]bool
	entries []ledger.Entry
	fresh   map[string]bool // requests that are new
	spends  map[string]bool // requests whose spend changed
	opened  []ledger.Hold
	closed  []ledger.Hold
	drops   []ledger.Drop
}

func (l *Ledger) newBatch(q pgrun.Queryer, own bool) *batch {
	return &batch{
		l: l, q: q, own: own,
		aside: make(map[string]bool), ids: make(map[string]int64), accounts: make(map[string]ledger.Account),
		requests: make(map[string]*ledger.Request), watched: make(map[window][]*ahead),
		pages: make(map[span]page),
		dirty: make(map[string]bool), fresh: make(map[string]bool), spends: make(map[string]bool),
	}
}

// decide runs the jobs one after the other, each on the changes of those before it, and stores
// the changes of all: two round trips, and more only where an account is new or a job asks for rows
// that were not read ahead. errs are the jobs' own errors.
func (b *batch) decide(ctx context.Context, jobs []*ledger.Job) (errs []error, err error) {
	if err := b.read(ctx, jobs, true); err != nil {
		return nil, err
	}
	errs = make([]error, len(jobs))
	for i, job := range jobs {
		if b.aside[job.SpendID] {
			continue
		}
		changes, err := job.Run(b)
		switch {
		case b.failed != nil:
			return nil, b.failed
		case err != nil:
			errs[i] = err
		case changes != nil:
			b.apply(changes)
		}
	}
	return errs, b.store(ctx)
}

// apply adds the changes of a job, for the jobs after it and for store.
func (b *batch) apply(c *ledger.Changes) {
	for _, a := range c.Accounts {
		b.accounts[a.Key] = a
		b.dirty[a.Key] = true
	}
	b.entries = append(b.entries, c.Entries...)
	for i := range c.Requests {
		r := c.Requests[i]
		b.requests[r.ID] = &r
		b.fresh[r.ID] = true
	}
	for _, s := range c.Spends {
		changed := *b.requests[s.ID]
		changed.Spend = s.Spend
		b.requests[s.ID] = &changed
		if !b.fresh[s.ID] {
			b.spends[s.ID] = true
		}
	}
	b.opened = append(b.opened, c.Opened...)
	b.closed = append(b.closed, c.Closed...)
	b.drops = append(b.drops, c.Drop...)
}
