package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/brimgo/brim/internal/pgrun"
)

// Size returns the bytes of the table on the server's disk, with its indexes and the rows that
// autovacuum has yet to remove. If the table is partitioned, all partitions count. See
// [store.Store].
func (s *Store) Size(ctx context.Context) (bytes int64, err error) {
	err = s.run.Look(ctx, "size", func(ctx context.Context, conn *pgxpool.Conn) (err error) {
		bytes, err = s.size(ctx, conn)
		return err
	})
	return bytes, err
}

func (s *Store) size(ctx context.Context, q pgrun.Queryer) (bytes int64, err error) {
	_, err = s.run.Query(ctx, q, s.sql.Load().bytes, nil, func(rows pgx.Rows) error { return rows.Scan(&bytes) })
	return bytes, err
}
