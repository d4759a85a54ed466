package pgledger

import (
	"cmp"
	"context"
	"encoding/hex"
	"hash/maphash"
	"iter"

	"github.com/jackc/pgx/v5"
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
	sql = l.sql["try_account"]
	if name[0] == 'r' {
		sql = l.sql["try_request"]
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
	aside, err := l.heldSpends(ctx, lane, conn, requests)
	if err != nil {
		return err
	}
	var jobs []*ledger.Job
	var decided []*request
	for _, r := range requests {
		if aside[r.In.SpendID] {
			r.Err = lane.SetAside(spendName(r.In.SpendID))
			continue
		}
		jobs, decided = append(jobs, r.In), append(decided, r)
	}
	for n := 0; len(jobs) > 0; n++ {
		rows := l.newRows(conn, true)
		rows.lockTimeout, rows.idleTimeout = lane.LockTimeout(), lane.IdleTimeout()
		errs, err := rows.decide(ctx, jobs)
		if isDuplicate(err) && n < repeats {
			if err := pgrun.Rollback(ctx, conn); err != nil {
				return err
			}
			continue
		}
		for i := range errs {
			decided[i].Out = errs[i]
		}
		return err
	}
	return nil
}

// heldSpends returns the spends whose accounts other transactions hold, if there may be any.
func (l *Ledger) heldSpends(
	ctx context.Context, lane *pgrun.Lane, conn *pgxpool.Conn, requests []*request,
) (map[string]bool, error) {
	held, aside := make(map[string]bool), make(map[string]bool)
	for _, name := range lane.Held() {
		held[name] = true
	}
	var spends []string
	for _, r := range requests {
		if r.In.SpendID != "" && len(held) > 0 {
			spends = append(spends, r.In.SpendID)
		}
	}
	if len(spends) == 0 {
		return nil, nil
	}
	_, err := l.run.QueryByIndex(ctx, conn, l.sql["owners"], []any{idColumn(spends)}, func(row pgx.Rows) error {
		var id pgrun.Octets
		var key string
		err := row.Scan(&id, &key)
		if held["a"+key] {
			aside[idText(id)] = true
		}
		return err
	})
	return aside, err
}

// isDuplicate reports that another transaction has stored an answer to the same ID.
func isDuplicate(err error) bool { return pgrun.IsCode(err, "23505") }

// decide runs the jobs one after the other, each on the changes of those before it, and stores
// the changes of all: two round trips, and more only where an account is new or a job asks for rows
// that were not read ahead. errs are the jobs' own errors.
func (r *rows) decide(ctx context.Context, jobs []*ledger.Job) (errs []error, err error) {
	if err := r.read(ctx, jobs, true); err != nil {
		return nil, err
	}
	batch := r.batch()
	errs = make([]error, len(jobs))
	for i, job := range jobs {
		if errs[i] = batch.Run(job); r.failed != nil {
			return nil, r.failed
		}
	}
	return errs, r.store(ctx, batch.Changes())
}
