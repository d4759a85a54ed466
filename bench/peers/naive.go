package main

import (
	"context"
	"fmt"
)

// naives count rows: each request that is let in is a row, and a request is let in where fewer than the limit are in the
// window. The count and the insert are two statements, as most programs write it; between them others count, too.
func naives() []*subject {
	return []*subject{{
		name: "row per request", group: naive, keeps: "PostgreSQL, a row per accepted request", against: "bare UPDATE", server: postgresServer,
		open: func(ctx context.Context, e *env) (*target, error) {
			for _, sql := range []string{
				`CREATE TABLE requests (key text COLLATE "C" NOT NULL, at timestamptz NOT NULL DEFAULT now())`,
				`CREATE INDEX ON requests (key, at)`,
				fmt.Sprintf(`INSERT INTO requests SELECT 'full:' || i FROM generate_series(0, %d) i`, fullOnServer-1),
				`VACUUM ANALYZE requests`,
			} {
				if _, err := e.pool.Exec(ctx, sql); err != nil {
					return nil, err
				}
			}
			try := func(ctx context.Context, key string, limit int64) (bool, error) {
				var n int64
				err := e.pool.QueryRow(ctx, `SELECT count(*) FROM requests WHERE key = $1 AND at > now() - interval '1 hour'`, key).Scan(&n)
				if err != nil || n >= limit {
					return false, err
				}
				_, err = e.pool.Exec(ctx, `INSERT INTO requests (key) VALUES ($1)`, key)
				return err == nil, err
			}
			return &target{
				decide: func(ctx context.Context, key int, full bool) (bool, error) {
					if full {
						return try(ctx, e.full[key], 1)
					}
					return try(ctx, e.keys[key], roomy)
				},
				rush:    func(ctx context.Context, key string) (bool, error) { return try(ctx, key, rushCapacity) },
				written: e.logged, close: func() error { return nil },
			}, nil
		},
	}}
}
