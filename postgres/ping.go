package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/brimgo/brim/internal/pgrun"
)

// Ping finds out whether the store can decide now, by the statements of a decision on no bucket: the
// server answers and writes, the tables have their columns, the user has the rights, and the session is
// fit. It writes nothing, and takes one round trip on a connection that has decided before. Call it
// where a program starts, so that a mistake in its setup shows there and not in the first decision:
// [store.ErrMisconfigured] tells of one. [Check] looks for more, and takes longer.
func (s *Store) Ping(ctx context.Context) error {
	return s.run.Look(ctx, "ping", func(ctx context.Context, conn *pgxpool.Conn) error {
		sql := s.sql.Load()
		keys, capacities, rates := arrays(nil)
		update, insert := s.update(nil, nil, nil), s.insert(nil, nil, keys, capacities, rates, nil)
		b := &pgx.Batch{}
		pgrun.QueueBegin(b)
		pgrun.QueueByIndex(b)
		b.Queue(update.sql, update.args...)
		b.Queue(insert.sql, insert.args...)
		b.Queue(sql.lock, s.lockArguments(asked{}, nil)...)
		s.queueRead(ctx, b, keys)
		b.Queue(sql.write, arguments(keys, nil)...)
		b.Queue(sql.remove, keys, nil)
		b.Queue("ROLLBACK")
		return conn.SendBatch(ctx, b).Close()
	})
}
