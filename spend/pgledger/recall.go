package pgledger

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/brimgo/brim/internal/pgrun"
	"github.com/brimgo/brim/spend/ledger"
)

// recall remembers the working sets of accounts as this ledger has last stored them, and a reading
// of the server's clock. A batch on such accounts alone needs one round trip: it decides on the
// remembered accounts, and the statement that stores the changes proves under the rows' locks that
// nobody has changed the accounts since. That is optimistic concurrency control; see Kung and
// Robinson, "On optimistic methods for concurrency control", 1981.
//
// The accounts of a batch in flight are not remembered, so no two batches of a ledger decide on one
// state.
type recall struct {
	mu            sync.Mutex
	recent, older map[string]ledger.Account // older is the recent of before, which was full

	now  int64     // the last reading of the server's clock
	read time.Time // when the reading reached this process; zero without one

	// Where other processes change the same accounts, or requests are sent again, proofs fail. After
	// each failure more batches lock their accounts first: the cost of failures stays small, whatever
	// the load is.
	pause, penalty int
	// declined tells that the last batch declined a request. The next one locks its accounts first,
	// because declines often follow each other, and do not go by remembered accounts.
	declined bool
}

const (
	maxRecalled = 1 << 14 // accounts in each of the two generations
	maxState    = 1 << 10 // bytes of a working set; larger ones are sent twice to prove them
	maxPenalty  = 256     // batches
	// fresh is the longest time for which a reading of the server's clock is used again. The server
	// refuses readings that are older than a second.
	fresh = 20 * time.Millisecond
)

// take returns the accounts of the jobs, and forgets them. It returns nil if it does not remember
// all of them, or if a job needs more rows than these.
func (r *recall) take(jobs []*ledger.Job, injected *time.Time) (accounts map[string]ledger.Account, now int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.pause > 0:
		r.pause--
		return nil, 0
	case r.declined:
		r.declined = false
		return nil, 0
	case injected != nil:
		now = injected.UnixMicro()
	case r.read.IsZero() || time.Since(r.read) > fresh:
		return nil, 0
	default:
		now = r.now
	}
	for _, job := range jobs {
		if job.SpendID != "" {
			return nil, 0
		}
		for _, key := range job.Accounts {
			if a, ok := r.find(key); !ok || !ready(&a, now) {
				return nil, 0
			}
		}
	}
	accounts = make(map[string]ledger.Account, len(jobs))
	for _, job := range jobs {
		for _, key := range job.Accounts {
			if a, ok := r.find(key); ok {
				accounts[key] = a
			}
		}
		r.drop(job.Accounts)
	}
	return accounts, now
}

func (r *recall) find(key string) (ledger.Account, bool) {
	a, ok := r.recent[key]
	if !ok {
		a, ok = r.older[key]
	}
	return a, ok
}

// ready reports whether a decision at now needs no rows but the account's: no entry leaves a window
// and no hold has expired.
func ready(a *ledger.Account, now int64) bool {
	return idle(a, now) && a.State != nil && (a.NextExpiry == 0 || a.NextExpiry > now)
}

// idle reports whether no entry leaves a window of the account at now.
func idle(a *ledger.Account, now int64) bool {
	for _, w := range a.Watch {
		if w.After < now-w.Width {
			return false
		}
	}
	return true
}

// mayRead returns those of the accounts that a decision may need entries of, so that these entries
// are read ahead. Of an account that the ledger does not remember, nobody knows.
func (r *recall) mayRead(keys []string, injected *time.Time) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.now + time.Since(r.read).Microseconds()
	switch {
	case injected != nil:
		now = injected.UnixMicro()
	case r.read.IsZero():
		return keys
	}
	return slices.DeleteFunc(slices.Clone(keys), func(key string) bool {
		a, ok := r.find(key)
		return ok && idle(&a, now)
	})
}

// keep remembers accounts.
func (r *recall) keep(accounts map[string]ledger.Account) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for key, a := range accounts {
		if len(a.State) > maxState {
			continue
		}
		if r.recent == nil || len(r.recent) >= maxRecalled {
			r.recent, r.older = make(map[string]ledger.Account), r.recent
		}
		r.recent[key] = a
	}
}

// stored remembers the accounts of a batch that is stored, and the server's clock.
func (r *recall) stored(b *batch) {
	accounts := make(map[string]ledger.Account, len(b.dirty))
	for key := range b.dirty {
		accounts[key] = b.accounts[key]
	}
	r.keep(accounts)
	r.mu.Lock()
	defer r.mu.Unlock()
	if b.clock.Valid {
		r.now, r.read = b.clock.Micros, time.Now()
	}
	r.declined = b.declined
	if b.recalled != nil {
		r.penalty = max(0, r.penalty-1)
	}
}

// forget forgets accounts that a batch is about to lock.
func (r *recall) forget(keys []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.drop(keys)
}

func (r *recall) drop(keys []string) {
	for _, key := range keys {
		delete(r.recent, key)
		delete(r.older, key)
	}
}

// failed notes that a batch could not be stored as it was decided.
func (r *recall) failed() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.penalty = min(2*r.penalty+4, maxPenalty)
	r.pause = r.penalty
}

// unused remembers accounts again on which a batch has not decided.
func (r *recall) unused(accounts map[string]ledger.Account, declined bool) {
	r.keep(accounts)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.declined = declined
}

var (
	// errUnread ends a batch on remembered accounts that needs further rows.
	errUnread = errors.New("pgledger: the row has not been read")
	// errDeclined ends such a batch with a declined request. The decline tells when to come back,
	// so it goes by the clock as it is while the account is locked.
	errDeclined = errors.New("pgledger: a request is declined")
)

// decideRecalled decides the jobs on remembered accounts, in one round trip. It reports false where
// nothing was stored and the jobs have to be decided on locked rows.
func (l *Ledger) decideRecalled(
	ctx context.Context, lane *pgrun.Lane, conn *pgxpool.Conn, jobs []*ledger.Job,
) (decided bool, err error) {
	accounts, now := l.recall.take(jobs, l.run.Now())
	if accounts == nil {
		return false, nil
	}
	b := l.newBatch(conn, true)
	b.recalled, b.accounts, b.now = accounts, make(map[string]ledger.Account, len(accounts)), now
	for key, a := range accounts {
		b.accounts[key], b.locked[key], b.dirty[key] = a, true, true
	}
	for _, job := range jobs {
		for _, id := range job.Requests {
			b.requests[id] = nil // the answer of an ID that is not new is found when it is stored
		}
	}
	for _, job := range jobs {
		changes, err := job.Run(b)
		if err == nil && changes != nil && changes.Declined {
			err = errDeclined
		}
		if err != nil || changes == nil || b.failed != nil {
			l.recall.unused(accounts, errors.Is(err, errDeclined))
			return false, nil
		}
		b.apply(job, changes)
		for _, id := range job.Requests {
			if !b.fresh[id] { // nothing proves that the ID has no answer
				l.recall.unused(accounts, false)
				return false, nil
			}
		}
	}
	out := &pgx.Batch{}
	out.Queue(l.sql.plan, lane.LockTimeout(), nil)
	b.queueStore(out)
	b.queueRest(out)
	switch err := l.run.SendTogether(ctx, conn, out); {
	case pgrun.IsCode(err, "22012"), isDuplicate(err): // 22012 is the division of store.sql
		l.recall.failed()
		return false, pgrun.Rollback(ctx, conn)
	case err != nil:
		return false, err
	}
	l.recall.stored(b)
	return true, nil
}
