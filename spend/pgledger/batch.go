package pgledger

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"slices"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/brimgo/brim/internal/combine"
	"github.com/brimgo/brim/internal/pgrun"
	"github.com/brimgo/brim/spend/ledger"
	"github.com/brimgo/brim/store"
)

// jobRequest is a job and its own error.
type jobRequest = combine.Request[*ledger.Job, error]

// Decide runs a job, in one transaction with others that are made at the same time. See
// [ledger.Ledger].
func (l *Ledger) Decide(ctx context.Context, job *ledger.Job) error {
	own, err := l.decisions.Do(ctx, l.hash(job), job)
	if errors.Is(err, pgrun.ErrHeld) && len(job.Accounts) == 0 && len(job.Rules) > 0 {
		err = fmt.Errorf("%w: another transaction has set rules of the budget, and has not ended for %v; commit it or roll it back, "+
			"and call New and SetRules outside of transactions", store.ErrUnavailable, l.run.Timeout)
	}
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

// repeats is how often a batch is decided again because another transaction has used one of its
// IDs meanwhile, for another account, or has set rules of the same budget.
const repeats = 3

// decideBatch decides the jobs of the requests in one transaction.
func (l *Ledger) decideBatch(
	ctx context.Context, lane *pgrun.Lane, conn *pgxpool.Conn, requests []*jobRequest,
) (err error) {
	for n := 0; ; n++ {
		r := l.newRows(conn, true)
		r.lane = lane
		err = r.decideFree(ctx, requests)
		if !isDuplicate(err) || n == repeats {
			return err
		}
		if err := pgrun.Rollback(ctx, conn); err != nil {
			return err
		}
	}
}

// isDuplicate reports that another transaction has stored an answer to the same ID, or rules with
// the same number.
func isDuplicate(err error) bool { return pgrun.IsDuplicate(err) }

// decideFree decides the jobs of the requests whose rows no other transaction holds, and leaves out
// the others. The jobs after one that has moved an account are decided on rows that are read anew.
func (r *rows) decideFree(ctx context.Context, requests []*jobRequest) error {
	for {
		jobs := make([]*ledger.Job, len(requests))
		for i, request := range requests {
			jobs[i] = request.In
		}
		if err := r.read(ctx, jobs, true); err != nil {
			return err
		}
		free := slices.DeleteFunc(slices.Clone(requests), func(request *jobRequest) bool {
			if request.Err = nil; r.held(request.In) {
				request.Err = pgrun.ErrHeld
			}
			return request.Err != nil
		})
		for i, request := range free {
			jobs[i] = request.In
		}
		errs, err := r.run(ctx, jobs[:len(free)])
		for i := range errs {
			free[i].Out = errs[i]
		}
		if err != nil || len(errs) == len(free) {
			return err
		}
		requests, r = free[len(errs):], r.next()
	}
}

// next returns rows of the same transaction that are not read yet.
func (r *rows) next() *rows {
	next := r.l.newRows(r.q, r.own)
	next.lane, next.open = r.lane, true
	return next
}

// held reports whether another transaction holds a row of the job.
func (r *rows) held(job *ledger.Job) bool {
	locked := job.Accounts
	if spend := r.requests[job.SpendID]; spend != nil {
		if !r.begun[job.SpendID] {
			return true
		}
		locked = slices.Concat(locked, spend.Accounts)
	}
	return slices.ContainsFunc(locked, func(key string) bool { return r.ids[key] == 0 })
}

// decideIn decides jobs in the caller's transaction.
func (l *Ledger) decideIn(ctx context.Context, q pgrun.Queryer, jobs []*ledger.Job) (errs []error, err error) {
	for r := l.newRows(q, false); len(errs) < len(jobs); r = r.next() {
		rest := jobs[len(errs):]
		if err := r.read(ctx, rest, true); err != nil {
			return errs, err
		}
		own, err := r.run(ctx, rest)
		if errs = append(errs, own...); err != nil {
			return errs, err
		}
	}
	return errs, nil
}

// run runs the jobs one after the other, each on the changes of those before it, and stores the
// changes of all. errs are the jobs' own errors. A job that moves an account is the last one: errs
// ends with it. With read, a decision takes two round trips, and more only where an account is new
// or a job asks for rows that were not read ahead.
func (r *rows) run(ctx context.Context, jobs []*ledger.Job) (errs []error, err error) {
	batch := r.batch()
	for i := 0; i < len(jobs) && !batch.Moves(); i++ {
		errs = append(errs, batch.Run(jobs[i]))
		if r.failed != nil {
			return nil, r.failed
		}
	}
	r.more = len(errs) < len(jobs)
	return errs, r.store(ctx, batch.Changes())
}
