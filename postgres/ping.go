package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
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
		sql, now := s.sql.Load(), s.run.Now()
		keys, units := []string{}, []float64{}
		b := &pgx.Batch{}
		pgrun.QueueBegin(b)
		pgrun.QueueByIndex(b)
		b.Queue(sql.updateMany, keys, units, units, units, false, now, s.maxSkew, nil)
		b.Queue(sql.insert, keys, units, units, units, now, nil)
		b.Queue(sql.lock, keys, []int32{}, []pgtype.Float8{}, units, []pgtype.Float8{}, now, s.maxSkew, nil, nil)
		b.Queue(sql.read, keys, now)
		b.Queue(sql.write, keys, units, []time.Time{}, units, units, units, []pgtype.Timestamptz{})
		b.Queue(sql.remove, keys, nil)
		b.Queue("ROLLBACK")
		return conn.SendBatch(ctx, b).Close()
	})
}
