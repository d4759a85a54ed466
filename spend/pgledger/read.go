package pgledger

import (
	"context"
	"slices"
	"time"

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

// ahead holds the entries of a window that were read ahead.
type ahead struct {
	entries      []ledger.Entry
	upto         int64
	begun, fixed int // how many entries begin something, and how many correct
}

const (
	beginView = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"

	// byIndex forbids plans that read a whole table, for this transaction alone. The server
	// makes plans while tables are small and keeps them while tables grow.
	byIndex = "SET LOCAL enable_seqscan = off"
)

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
	switch {
	case b.own && lock:
		pgrun.QueueBegin(out)
		out.Queue(byIndex)
	case b.own:
		out.Queue(beginView)
		out.Queue(byIndex)
	}
	if len(spends) > 0 {
		out.Queue(b.sql.owners, spends).Query(b.scanOwners)
	}
	if lock {
		created := func(rows pgx.Rows) (err error) {
			b.created, err = pgx.AppendRows(b.created, rows, pgx.RowTo[string])
			return err
		}
		if len(spends) > 0 {
			out.Queue(b.sql.lock, keys, spends).Query(created)
		} else {
			out.Queue(b.sql.lockKnown, keys).Query(created)
		}
	}
	now := b.l.run.Now()
	out.Queue(b.sql.accounts, keys, spends, now).Query(b.scanAccounts)
	if len(ids) > 0 {
		out.Queue(b.sql.requests, ids).Query(b.scanRequests)
	}
	if len(keys) > 0 {
		out.Queue(b.sql.watched, keys, now, readAhead).Query(b.scanWatched)
	}
	return b.q.SendBatch(ctx, out).Close()
}

func (b *batch) scanOwners(rows pgx.Rows) error {
	var id string
	var accounts []string
	_, err := pgx.ForEachRow(rows, []any{&id, &accounts}, func() error {
		for _, key := range accounts {
			b.locked[key] = true
		}
		return nil
	})
	return err
}

func (b *batch) scanAccounts(rows pgx.Rows) error {
	var key pgtype.Text
	var state []byte
	var next pgtype.Int8
	var after, width []int64
	var now time.Time
	_, err := pgx.ForEachRow(rows, []any{&key, &state, &next, &after, &width, &now}, func() error {
		b.now = now.UnixMicro()
		if !key.Valid {
			return nil
		}
		b.accounts[key.String] = ledger.Account{Key: key.String, State: slices.Clone(state), NextExpiry: next.Int64}
		return nil
	})
	return err
}

func (b *batch) scanRequests(rows pgx.Rows) error {
	for rows.Next() {
		r, err := scanRequest(rows)
		if err != nil {
			return err
		}
		b.requests[r.ID] = r
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

// entryRow is the target of a scan of an entry. All of its columns are null in the row of a
// window without entries.
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
		Account: account, Seq: r.seq, At: r.at.Time.UnixMicro(), Dated: r.dated.Time.UnixMicro(),
		Kind: r.kind.String, RequestID: r.id.String, SpendID: r.spend.String, Part: r.part,
		Amount: r.amount, Currency: r.currency.String, Used: r.used, Held: r.held, Count: r.count,
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

func (b *batch) scanWatched(rows pgx.Rows) error {
	for rows.Next() {
		var key string
		var after int64
		var upto time.Time
		var r entryRow
		if err := rows.Scan(append([]any{&key, &after, &upto}, r.fields()...)...); err != nil {
			return err
		}
		w := b.watched[window{key, after}]
		if w == nil {
			w = &ahead{upto: upto.UnixMicro()}
			b.watched[window{key, after}] = w
		}
		// Two rules of one account may have the same edge and different widths: an entry that
		// both read is kept once.
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
