package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/brimgo/brim/internal/pgrun"
	"github.com/brimgo/brim/internal/trial"
)

// Ping finds out whether the store can decide now, by the statements of a decision on no bucket:
// the server answers and writes, the tables have their columns, the user has the rights, and the
// session is fit. It writes nothing, and takes one round trip on a connection that has decided
// before. Where row security applies to the user, Ping makes decisions in a transaction that it
// rolls back. Call it where a program starts, so that a mistake in its setup shows there and not in
// the first decision: [store.ErrMisconfigured] tells of one. [Check] looks for more, a pooler's
// mode among it, and takes longer.
func (s *Store) Ping(ctx context.Context) error {
	return s.run.Look(ctx, "ping", func(ctx context.Context, conn *pgxpool.Conn) error {
		sql := s.sql.Load()
		keys, update, insert := []string{}, s.update(nil, nil, nil), s.insert(nil, nil, nil)
		secured := false
		b := &pgx.Batch{}
		pgrun.QueueBegin(b)
		pgrun.QueueByIndex(b)
		b.Queue(update.sql, update.args...)
		b.Queue(insert.sql, insert.args...)
		b.Queue(sql.lock, s.lockArguments(asked{}, nil)...)
		s.queueRead(ctx, b, keys)
		b.Queue(sql.write, arguments(keys, nil)...)
		b.Queue(sql.remove, keys, nil)
		b.Queue(sql.secured).QueryRow(func(row pgx.Row) error { return row.Scan(&secured) })
		b.Queue("ROLLBACK")
		if err := conn.SendBatch(ctx, b).Close(); err != nil || !secured {
			return err
		}
		return pgrun.TrySecured(ctx, conn.Conn(), func(tx pgx.Tx) error { return trial.Decide(ctx, s.With(tx), trial.Key()) })
	})
}
