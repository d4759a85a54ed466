package bench

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/brimgo/brim/internal/pgname"
)

// PostgresReference returns a reference that makes one UPDATE of one row per decision through the
// given pool. It creates a new table with one row per key and the columns of a bucket. Close
// drops the table.
func PostgresReference(ctx context.Context, pool *pgxpool.Pool, schema string, keys int) (*Reference, error) {
	names, err := pgname.New(schema, fmt.Sprintf("bench_reference_%08x", rand.Uint32()))
	if err != nil {
		return nil, err
	}
	for _, sql := range []string{
		`CREATE TABLE {{schema}}.{{table}} (
			level double precision NOT NULL, atime timestamptz NOT NULL, pre double precision NOT NULL, held double precision NOT NULL,
			capacity double precision NOT NULL, leak_rate double precision NOT NULL, blocked_until timestamptz,
			key text COLLATE "C" PRIMARY KEY
		) WITH (fillfactor = 85)`,
		fmt.Sprintf(`INSERT INTO {{schema}}.{{table}}
			SELECT 0, now(), 0, 0, 1e9, 1, NULL, lpad(i::text, 10, '0') FROM generate_series(0, %d) AS i`, keys-1),
		`VACUUM ANALYZE {{schema}}.{{table}}`,
	} {
		if _, err := pool.Exec(ctx, names.Render(sql)); err != nil {
			_, e := pool.Exec(context.WithoutCancel(ctx), names.Render(`DROP TABLE IF EXISTS {{schema}}.{{table}}`))
			return nil, errors.Join(err, e)
		}
	}
	update := strings.TrimSpace(names.Render(`UPDATE {{schema}}.{{table}} SET level = level + $2 WHERE key = $1`))
	return &Reference{
		Decide: func(ctx context.Context, key int) error {
			_, err := pool.Exec(ctx, update, string(rowKey(key)), 1.0)
			return err
		},
		Close: func() error {
			_, err := pool.Exec(context.WithoutCancel(ctx), names.Render(`DROP TABLE {{schema}}.{{table}}`))
			return err
		},
	}, nil
}
