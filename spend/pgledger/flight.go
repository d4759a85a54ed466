package pgledger

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/brimgo/brim/spend/ledger"
)

// queryer is a connection or a transaction.
type queryer interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults
}

// flight is one transaction: what was read of the ledger, with what the jobs so far have changed in it. It is the snapshot of
// its jobs.
type flight struct {
	l   *Ledger
	sql *statements
	q   queryer
	own bool // it begins and ends its transaction itself
	now int64

	locked   map[string]bool
	created  []string // accounts that were not there
	accounts map[string]ledger.Account
	requests map[string]*ledger.Request // nil for one that is not there
	watched  map[window]*ahead

	ctx    context.Context // of the flight, for what jobs ask for besides
	failed error           // of the connection: the flight is over

	// What is to be stored.
	dirty   map[string]bool
	entries []ledger.Entry
	fresh   map[string]bool // requests that are new
	spends  map[string]bool // requests whose spend changed
	opened  []ledger.Hold
	closed  []ledger.Hold
	drops   []ledger.Drop
}

// window is an account and the edge of one of its windows.
type window struct {
	account string
	after   int64
}

// ahead is the entries of a window that were read ahead.
type ahead struct {
	entries      []ledger.Entry
	upto         int64
	begun, fixed int // how many that begin something, and that correct
}

func (l *Ledger) newFlight(q queryer, own bool) *flight {
	sql := l.sql
	if !own {
		sql = l.joined
	}
	return &flight{
		l: l, sql: sql, q: q, own: own,
		locked: make(map[string]bool), accounts: make(map[string]ledger.Account), requests: make(map[string]*ledger.Request),
		watched: make(map[window]*ahead), dirty: make(map[string]bool), fresh: make(map[string]bool), spends: make(map[string]bool),
	}
}

const (
	beginWrite = "BEGIN ISOLATION LEVEL READ COMMITTED"
	beginRead  = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"

	// Plans are made when tables are small and kept while they grow: one that reads a whole table is never wanted. It holds for
	// this transaction alone.
	byIndex = "SET LOCAL enable_seqscan = off"
)

// decide runs the jobs one after the other, each on what those before it have left, and stores what they changed: two round
// trips, and more only where a job asks for what was not read ahead. errs are the jobs' own.
func (f *flight) decide(ctx context.Context, jobs []*ledger.Job) (errs []error, err error) {
	if err := f.read(ctx, jobs, true); err != nil {
		return nil, err
	}
	errs = make([]error, len(jobs))
	for i, job := range jobs {
		changes, err := job.Run(f)
		switch {
		case f.failed != nil:
			return nil, f.failed
		case err != nil:
			errs[i] = err
		case changes != nil:
			f.apply(changes)
		}
	}
	return errs, f.store(ctx)
}

// view runs a job that changes nothing.
func (f *flight) view(ctx context.Context, job *ledger.Job) (own, err error) {
	if err := f.read(ctx, []*ledger.Job{job}, false); err != nil {
		return nil, err
	}
	_, own = job.Run(f)
	if f.failed != nil {
		return nil, f.failed
	}
	return own, nil
}

// readAhead is how many entries that are about to leave are read before they are asked for.
const readAhead = 64

// read reads what the jobs will need, locked or as one state.
func (f *flight) read(ctx context.Context, jobs []*ledger.Job, lock bool) error {
	f.ctx = ctx
	var keys, ids, spends []string
	for _, job := range jobs {
		keys = append(keys, job.Accounts...)
		ids = append(ids, job.Requests...)
		if job.SpendID != "" {
			spends = append(spends, job.SpendID)
		}
	}
	ids = append(ids, spends...)
	for _, list := range [...]*[]string{&keys, &ids, &spends} {
		slices.Sort(*list)
		*list = slices.Compact(*list)
	}
	for _, key := range keys {
		f.locked[key] = true
	}
	for _, id := range ids {
		f.requests[id] = nil
	}
	b := &pgx.Batch{}
	switch {
	case f.own && lock:
		b.Queue(beginWrite)
		b.Queue(byIndex)
	case f.own:
		b.Queue(beginRead)
		b.Queue(byIndex)
	}
	if len(spends) > 0 {
		b.Queue(f.sql.owners, spends).Query(f.scanOwners)
	}
	if lock {
		created := func(rows pgx.Rows) (err error) {
			f.created, err = pgx.AppendRows(f.created, rows, pgx.RowTo[string])
			return err
		}
		if len(spends) > 0 {
			b.Queue(f.sql.lock, keys, spends).Query(created)
		} else {
			b.Queue(f.sql.lockKnown, keys).Query(created)
		}
	}
	now := f.l.now()
	b.Queue(f.sql.accounts, keys, spends, now).Query(f.scanAccounts)
	if len(ids) > 0 {
		b.Queue(f.sql.requests, ids).Query(f.scanRequests)
	}
	if len(keys) > 0 {
		b.Queue(f.sql.watched, keys, now, readAhead).Query(f.scanWatched)
	}
	return f.q.SendBatch(ctx, b).Close()
}

// now is the injected clock's time, or nil for the server's.
func (l *Ledger) now() *time.Time {
	if l.clock == nil {
		return nil
	}
	t := l.clock()
	return &t
}

func timestamp(us int64) time.Time { return time.UnixMicro(us) }

// isDuplicate reports that an ID was there already when an answer to it was to be noted.
func isDuplicate(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && pg.Code == "23505"
}

func (f *flight) scanOwners(rows pgx.Rows) error {
	var id string
	var accounts []string
	_, err := pgx.ForEachRow(rows, []any{&id, &accounts}, func() error {
		for _, key := range accounts {
			f.locked[key] = true
		}
		return nil
	})
	return err
}

func (f *flight) scanAccounts(rows pgx.Rows) error {
	var key pgtype.Text
	var state []byte
	var next pgtype.Int8
	var after, width []int64
	var now time.Time
	_, err := pgx.ForEachRow(rows, []any{&key, &state, &next, &after, &width, &now}, func() error {
		f.now = now.UnixMicro()
		if !key.Valid {
			return nil
		}
		f.accounts[key.String] = ledger.Account{Key: key.String, State: slices.Clone(state), NextExpiry: next.Int64}
		return nil
	})
	return err
}

func (f *flight) scanRequests(rows pgx.Rows) error {
	for rows.Next() {
		r, err := scanRequest(rows)
		if err != nil {
			return err
		}
		f.requests[r.ID] = r
	}
	return rows.Err()
}

func scanRequest(rows pgx.Rows, before ...any) (*ledger.Request, error) {
	var id pgtype.Text
	var at pgtype.Timestamptz
	r := &ledger.Request{}
	err := rows.Scan(append(before, &id, &at, &r.Accounts, &r.Content, &r.Answer, &r.Spend)...)
	r.ID, r.At = id.String, at.Time.UnixMicro()
	return r, err
}

// entryRow is where an entry is scanned to. All of it is null in the row of a window that holds none.
type entryRow struct {
	at, dated                            pgtype.Timestamptz
	seq, part, amount, used, held, count int64
	currency, kind, id, spend            pgtype.Text
	tags                                 map[string]string
	refused                              []string
}

func (r *entryRow) fields() []any {
	return []any{
		&r.at, &r.dated, &r.seq, &r.part, &r.amount, &r.used, &r.held, &r.count,
		&r.currency, &r.kind, &r.id, &r.spend, &r.tags, &r.refused,
	}
}

func (r *entryRow) entry(account string) ledger.Entry {
	return ledger.Entry{
		Account: account, Seq: r.seq, At: r.at.Time.UnixMicro(), Dated: r.dated.Time.UnixMicro(), Kind: r.kind.String, RequestID: r.id.String,
		SpendID: r.spend.String, Part: r.part, Amount: r.amount, Currency: r.currency.String, Used: r.used, Held: r.held, Count: r.count,
		Tags: r.tags, Refused: r.refused,
	}
}

func scanEntries(rows pgx.Rows, account string) (list []ledger.Entry, err error) {
	defer rows.Close()
	for rows.Next() {
		var r entryRow
		if err := rows.Scan(r.fields()...); err != nil {
			return nil, err
		}
		list = append(list, r.entry(account))
	}
	return list, rows.Err()
}

func (f *flight) scanWatched(rows pgx.Rows) error {
	for rows.Next() {
		var key string
		var after int64
		var upto time.Time
		var r entryRow
		if err := rows.Scan(append([]any{&key, &after, &upto}, r.fields()...)...); err != nil {
			return err
		}
		w := f.watched[window{key, after}]
		if w == nil {
			w = &ahead{upto: upto.UnixMicro()}
			f.watched[window{key, after}] = w
		}
		// Two rules of one account may have the same edge and different widths: what both have read is kept once.
		if w.upto != upto.UnixMicro() {
			w.upto = min(w.upto, upto.UnixMicro())
		}
		if !r.at.Valid {
			continue
		}
		e := r.entry(key)
		if slices.ContainsFunc(w.entries, func(x ledger.Entry) bool { return x.Seq == e.Seq }) {
			continue
		}
		if w.entries = append(w.entries, e); e.Part == e.Seq {
			w.begun++
		} else {
			w.fixed++
		}
	}
	return rows.Err()
}
