package pgledger

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/brimgo/brim/internal/pgname"
	"github.com/brimgo/brim/internal/pgrun"
)

// Ping finds out whether the ledger can decide now, by the statements of a decision on no account;
// see [postgres.Store.Ping].
func (l *Ledger) Ping(ctx context.Context) error {
	return l.run.Look(ctx, "ping", func(ctx context.Context, conn *pgxpool.Conn) error {
		r := l.newRows(conn, true)
		r.ctx = ctx
		entries, err := r.ids.entryColumns(nil)
		if err != nil {
			return err
		}
		none := idColumn(nil)
		out := &pgx.Batch{}
		pgrun.QueueBegin(out)
		out.Queue(l.sql["plan"], nil, nil)
		r.queue(out, []string{}, []string{""}, true) // no spend has this ID
		out.Queue(l.sql["create"], []string{})
		out.Queue(l.sql["unused"], []int64{})
		out.Queue(l.sql["save"], r.accountColumns(nil)...)
		out.Queue(l.sql["append"], entries...)
		out.Queue(l.sql["answer"], r.ids.requestColumns(nil)...)
		out.Queue(l.sql["open"], r.ids.holdColumns(nil)...)
		out.Queue(l.sql["unhold"], r.ids.holdColumns(nil)...)
		out.Queue(l.sql["spends"], none, none)
		var tables []string
		for _, name := range l.run.Names.Ledger() {
			tables = append(tables, pgname.Quote(l.run.Names.Schema())+"."+pgname.Quote(name))
		}
		secured := false
		out.Queue(l.sql["secured"], tables).QueryRow(func(row pgx.Row) error { return row.Scan(&secured) })
		out.Queue("ROLLBACK")
		if err := r.send(out); err != nil || !secured {
			return err
		}
		return pgrun.TrySecured(ctx, conn.Conn(), func(tx pgx.Tx) error { return try(ctx, &trialLedger{Ledger: l.With(tx)}) })
	})
}
