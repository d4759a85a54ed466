package main

import (
	"context"
	"fmt"
)

// naives returns a limiter that counts rows. It inserts a row for each accepted request, and
// accepts a request if fewer rows than the limit lie in the window. The count and the insert are
// two statements, as in most programs. Other callers count between the two, so the limiter admits
// too many.
func naives() []*subject {
	return []*subject{{
		name: "row per request", group: naive, keeps: "PostgreSQL, a row per accepted request",
		against: "bare UPDATE", server: postgresServer,
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
				const count = `SELECT count(*) FROM requests WHERE key = $1 AND at > now() - interval '1 hour'`
				var n int64
				err := e.pool.QueryRow(ctx, count, key).Scan(&n)
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
