package pgledger

import (
	"context"
	"math"
	"slices"

	"github.com/jackc/pgx/v5"

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

// read reads the rows that the jobs will need in one round trip: accounts locked where lock is set,
// or all rows as one state. Where accounts are missing, it creates them and reads again.
func (b *batch) read(ctx context.Context, jobs []*ledger.Job, lock bool) error {
	b.ctx = ctx
	if err := b.l.local(ctx, b.q); err != nil {
		return err
	}
	var keys, ids, spends []string
	for _, job := range jobs {
		if b.aside[job.SpendID] {
			continue
		}
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
		b.ids[key] = 0 // until its row is read
	}
	for _, id := range ids {
		b.requests[id] = nil
	}
	out, sql := &pgx.Batch{}, b.l.sql
	switch {
	case b.own && lock:
		pgrun.QueueBegin(out)
	case b.own:
		out.Queue(beginView)
	}
	if b.own {
		out.Queue(sql.plan, b.lockTimeout, b.idleTimeout)
	}
	b.queueRead(out, keys, ids, spends, lock)
	if err := b.send(out); err != nil || !lock {
		return err
	}
	for { // another transaction may create an account, and remove it again
		missing := slices.DeleteFunc(slices.Clone(keys), func(key string) bool { return b.ids[key] != 0 })
		if len(missing) == 0 {
			return nil
		}
		out = &pgx.Batch{}
		out.Queue(sql.create, missing).Query(b.scanCreated)
		b.queueRead(out, missing, ids, nil, lock)
		if err := b.send(out); err != nil {
			return err
		}
	}
}

// queueRead queues the statements that lock and read accounts, the time, requests, and the entries
// that leave windows.
func (b *batch) queueRead(out *pgx.Batch, keys, ids, spends []string, lock bool) {
	sql, now, begun := b.l.sql, b.l.run.Now(), idColumn(spends)
	if lock {
		out.Queue(sql.take, keys, begun).Query(b.scanAccounts)
	} else {
		out.Queue(sql.accounts, keys, begun).Query(b.scanAccounts)
	}
	if lock && len(spends) > 0 {
		out.Queue(sql.begun, begun)
	}
	out.Queue(sql.requests, idColumn(ids), now).Query(b.scanRequests)
	out.Queue(sql.watched, keys, now, readAhead, begun).Query(b.scanWatched)
}

// send sends statements of the batch's transaction.
func (b *batch) send(out *pgx.Batch) error {
	if !b.own {
		out = pgrun.WrapByIndex(out)
	}
	return b.q.SendBatch(b.ctx, out).Close()
}

// query sends one more statement of the batch's transaction, and calls each for its rows.
func (b *batch) query(sql string, args []any, each func(pgx.Rows) error) error {
	if !b.own {
		_, err := b.l.run.QueryByIndex(b.ctx, b.q, sql, args, each)
		return err
	}
	_, err := pgrun.Read(b.ctx, b.q, sql, args, each)
	return err
}

// setAside finds the spends of accounts that other transactions hold. Their jobs wait apart.
func (b *batch) setAside(ctx context.Context, jobs []*ledger.Job, held []string) error {
	var spends []string
	for _, job := range jobs {
		if job.SpendID != "" {
			spends = append(spends, job.SpendID)
		}
	}
	if len(held) == 0 || len(spends) == 0 {
		return nil
	}
	_, err := b.l.run.QueryByIndex(ctx, b.q, b.l.sql.owners, []any{idColumn(spends)}, func(rows pgx.Rows) error {
		var id pgrun.Octets
		var key string
		err := rows.Scan(&id, &key)
		if slices.Contains(held, key) {
			b.aside[idText(id)] = true
		}
		return err
	})
	return err
}

func (b *batch) scanCreated(rows pgx.Rows) error {
	for rows.Next() {
		var key string
		var id int64
		if err := rows.Scan(&key, &id); err != nil {
			return err
		}
		b.created = append(b.created, key)
	}
	return rows.Err()
}

func (b *batch) scanAccounts(rows pgx.Rows) error {
	for rows.Next() {
		var a ledger.Account
		var id int64
		var watch []int64
		if err := rows.Scan(&a.Key, &id, (*pgrun.Octets)(&a.State), &a.NextExpiry, &watch); err != nil {
			return err
		}
		for ; len(watch) >= 2; watch = watch[2:] {
			a.Watch = append(a.Watch, ledger.Watch{After: watch[0], Width: watch[1]})
		}
		b.accounts[a.Key], b.ids[a.Key] = a, id
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

func (b *batch) scanWatched(rows pgx.Rows) error {
	for rows.Next() {
		var key string
		var after, width int64
		var later bool
		var r entryRow
		if err := rows.Scan(append([]any{&key, &after, &width, &later}, r.fields()...)...); err != nil {
			return err
		}
		e, err := r.entry(key)
		if err != nil {
			return err
		}
		w := b.ahead(window{key, after}, width)
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
