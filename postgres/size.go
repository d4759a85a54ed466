package postgres

import (
	"context"

	"github.com/jackc/pgx/v5/pgxpool"
)

// Size returns the bytes of the table on the server's disk, with its indexes and the rows that
// autovacuum has yet to remove. If the table is partitioned, all partitions count. See
// [store.Store].
func (s *Store) Size(ctx context.Context) (bytes int64, err error) {
	err = s.run.Look(ctx, "size", func(ctx context.Context, conn *pgxpool.Conn) error {
		return conn.QueryRow(ctx, s.sql.Load().bytes).Scan(&bytes)
	})
	return bytes, err
}
