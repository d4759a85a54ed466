package pgledger

import (
	"context"
	"maps"
	"math"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/brimgo/brim/internal/pgrun"
	"github.com/brimgo/brim/spend/ledger"
)

// window is an account and the edge of one of its windows.
type window struct {
	account string
	after   int64
}

// ahead holds the entries of a window that were read ahead. Two rules of one account may have the
// same edge and different widths.
type ahead struct {
	width        int64
	read         bool           // without a row, nobody knows whether the server looked at the window
	entries      []ledger.Entry // all that are dated before later
	later        int64          // date of the first entry that was not read, or math.MaxInt64
	begun, fixed int            // how many entries begin something, and how many correct
}

const beginView = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"

// view runs a job that changes nothing, on one state of the database.
func (b *batch) view(ctx context.Context, job *ledger.Job) (own, err error) {
	if err := b.read(ctx, []*ledger.Job{job}, false); err != nil {
		return nil, err
	}
	_, own = job.Run(b)
	if b.failed != nil {
		return nil, b.failed
	}
	return own, nil
}

// readAhead is how many entries of each kind that are about to leave a window are read before a
// job asks for them.
const readAhead = 64

// read reads the rows that the jobs will need: accounts locked where lock is set, or all rows
// as one state.
func (b *batch) read(ctx context.Context, jobs []*ledger.Job, lock bool) error {
	b.ctx = ctx
	if err := b.l.local(ctx, b.q); err != nil {
		return err
	}
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
		b.locked[key] = true
	}
	for _, id := range ids {
		b.requests[id] = nil
	}
	out := &pgx.Batch{}
	sql := b.l.sql
	switch {
	case b.own && lock:
		pgrun.QueueBegin(out)
	case b.own:
		out.Queue(beginView)
	}
	if b.own {
		out.Queue(sql.plan, b.lockTimeout, b.idleTimeout)
	}
	if len(spends) > 0 {
		out.Queue(sql.owners, spends).Query(b.scanOwners)
	}
	now := b.l.run.Now()
	watched := keys
	switch {
	case b.own && lock && len(spends) == 0:
		out.Queue(sql.take, keys).Query(b.scanAccounts)
		watched = b.l.recall.mayRead(keys, now)
	case b.own && lock:
		out.Queue(sql.takeSpends, keys, spends, b.held).Query(b.scanAccounts)
	case lock:
		out.Queue(sql.lock, keys, spends).Query(func(rows pgx.Rows) (err error) {
			b.created, err = pgx.CollectRows(rows, pgx.RowTo[string])
			return err
		})
		out.Queue(sql.accounts, keys, spends).Query(b.scanAccounts)
	default:
		out.Queue(sql.accounts, keys, spends).Query(b.scanAccounts)
	}
	out.Queue(sql.requests, ids, now).Query(b.scanRequests)
	if len(watched) > 0 || len(spends) > 0 {
		out.Queue(sql.watched, watched, now, readAhead, spends).Query(b.scanWatched)
	}
	if !b.own {
		out = pgrun.WrapByIndex(out)
	}
	if b.own && lock { // another lane must not decide on states that this batch replaces
		b.l.recall.forget(keys)
	}
	err := b.q.SendBatch(ctx, out).Close()
	if b.own && lock && len(spends) > 0 {
		b.l.recall.forget(slices.Collect(maps.Keys(b.locked)))
	}
	return err
}

// query sends one more statement of the batch's transaction, and calls each for its rows.
func (b *batch) query(sql string, args []any, each func(pgx.Rows) error) error {
	if b.recalled != nil {
		return errUnread
	}
	if !b.own {
		_, err := b.l.run.QueryByIndex(b.ctx, b.q, sql, args, each)
		return err
	}
	_, err := pgrun.Read(b.ctx, b.q, sql, args, each)
	return err
}

func (b *batch) scanOwners(rows pgx.Rows) error {
	var id string
	var accounts []string
	_, err := pgx.ForEachRow(rows, []any{&id, &accounts}, func() error {
		held := func(key string) bool { return slices.Contains(b.held, key) }
		if slices.ContainsFunc(accounts, held) {
			b.aside[id] = true
			return nil
		}
		for _, key := range accounts {
			b.locked[key] = true
		}
		return nil
	})
	return err
}

func (b *batch) scanAccounts(rows pgx.Rows) error {
	for rows.Next() {
		var a ledger.Account
		var after, width []int64
		if err := rows.Scan(&a.Key, (*pgrun.Octets)(&a.State), &a.NextExpiry, &after, &width); err != nil {
			return err
		}
		for i := range after {
			a.Watch = append(a.Watch, ledger.Watch{After: after[i], Width: width[i]})
		}
		b.accounts[a.Key] = a
	}
	return rows.Err()
}

// scanRequests reads the time and the requests. The time comes behind the accounts and before the
// entries of their windows.
func (b *batch) scanRequests(rows pgx.Rows) error {
	for rows.Next() {
		var now pgrun.Instant
		r, err := scanRequest(rows, &now)
		if err != nil {
			return err
		}
		b.now = now.Micros
		if r.ID != "" {
			b.requests[r.ID] = r
		}
	}
	for key, a := range b.accounts {
		for _, w := range a.Watch {
			at := window{key, w.After}
			if b.ahead(at, w.Width) == nil {
				b.watched[at] = append(b.watched[at], &ahead{width: w.Width, later: math.MaxInt64})
			}
		}
	}
	return rows.Err()
}

// ahead returns the entries that were read ahead for a window, or nil.
func (b *batch) ahead(at window, width int64) *ahead {
	for _, x := range b.watched[at] {
		if x.width == width {
			return x
		}
	}
	return nil
}

func scanRequest(rows pgx.Rows, before ...any) (*ledger.Request, error) {
	var id pgtype.Text
	var at pgrun.Instant
	r := &ledger.Request{}
	err := rows.Scan(append(before, &id, &at, &r.Accounts,
		(*pgrun.Octets)(&r.Content), (*pgrun.Octets)(&r.Answer), (*pgrun.Octets)(&r.Spend))...)
	r.ID, r.At = id.String, at.Micros
	return r, err
}

// entryRow is the target of a scan of an entry.
type entryRow struct {
	at, dated                            pgrun.Instant
	seq, part, amount, used, held, count int64
	first                                int64 // amount of the spend
	currency, kind, id, spend            pgtype.Text
	tags                                 map[string]string
	refused                              []string
	credited                             []ledger.Credited
}

func (r *entryRow) fields() []any {
	return []any{
		&r.at, &r.dated, &r.seq, &r.part, &r.amount, &r.used, &r.held, &r.count, &r.first,
		&r.currency, &r.kind, &r.id, &r.spend, &r.tags, &r.refused, &r.credited,
	}
}

func (r *entryRow) entry(account string) ledger.Entry {
	return ledger.Entry{
		Account: account, Seq: r.seq, At: r.at.Micros, Dated: r.dated.Micros,
		Kind: r.kind.String, RequestID: r.id.String, SpendID: r.spend.String, SpendAmount: r.first, Part: r.part,
		Amount: r.amount, Currency: r.currency.String, Used: r.used, Held: r.held, Count: r.count,
		Tags: r.tags, Refused: r.refused, Credited: r.credited,
	}
}

// entriesInto returns a function that appends the entry of a row to list.
func entriesInto(list *[]ledger.Entry, account string) func(pgx.Rows) error {
	return func(rows pgx.Rows) error {
		var r entryRow
		err := rows.Scan(r.fields()...)
		*list = append(*list, r.entry(account))
		return err
	}
}

func (b *batch) scanWatched(rows pgx.Rows) error {
	for rows.Next() {
		var key string
		var after, width int64
		var later bool
		var r entryRow
		if err := rows.Scan(append([]any{&key, &after, &width, &later}, r.fields()...)...); err != nil {
			return err
		}
		w, e := b.ahead(window{key, after}, width), r.entry(key)
		if w == nil {
			continue
		}
		w.read = true
		switch {
		case later:
			w.later = min(w.later, e.Dated)
		case e.Part == e.Seq:
			w.entries = append(w.entries, e)
			w.begun++
		default:
			w.entries = append(w.entries, e)
			w.fixed++
		}
	}
	return rows.Err()
}
