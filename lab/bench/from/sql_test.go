package from

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/brimgo/brim"
	"github.com/brimgo/brim/lab/internal/pgstore"
	"github.com/brimgo/brim/postgres"
)

// counted admits a request if the table has fewer than five of its key in the last minute.
func counted(ctx context.Context, tx pgx.Tx) error {
	var n int
	err := tx.QueryRow(ctx, `SELECT count(*) FROM requests
		WHERE key = $1 AND at > clock_timestamp() - interval '1 minute'`, "user:42").Scan(&n)
	switch {
	case err != nil:
		return err
	case n >= 5:
		return errRefused
	}
	_, err = tx.Exec(ctx, `INSERT INTO requests (key) VALUES ($1)`, "user:42")
	return err
}

// fromTable puts the requests of the last minute, which the table counts, into the buckets.
func fromTable(ctx context.Context, pool *pgxpool.Pool, limiter *brim.Limiter) error {
	limit := brim.Over(5, time.Minute)
	rows, err := pool.Query(ctx, `SELECT key, count(*)::float8 FROM requests
		WHERE at > clock_timestamp() - interval '1 minute' GROUP BY key`)
	if err != nil {
		return err
	}
	var key string
	var used float64
	_, err = pgx.ForEachRow(rows, []any{&key, &used}, func() error {
		_, err := limiter.Fillup(ctx, limit.For(key), used)
		return err
	})
	return err
}

// fromPecorino puts into the buckets the levels of Pecorino, and blocks those that it blocks.
func fromPecorino(ctx context.Context, pool *pgxpool.Pool, limiter *brim.Limiter, limit brim.Limit) error {
	rows, err := pool.Query(ctx, `SELECT key,
			greatest(0, level - $1 * extract(epoch FROM clock_timestamp() AT TIME ZONE 'UTC' - last_touched_at))::float8,
			coalesce(extract(epoch FROM blocked_until - clock_timestamp() AT TIME ZONE 'UTC'), 0)::float8
		FROM pecorino_leaky_buckets LEFT JOIN pecorino_blocks USING (key)`, limit.LeakRate)
	if err != nil {
		return err
	}
	var key string
	var level, blocked float64 // units; seconds
	_, err = pgx.ForEachRow(rows, []any{&key, &level, &blocked}, func() error {
		if _, err := limiter.Fillup(ctx, limit.For(key), level); err != nil || blocked <= 0 {
			return err
		}
		_, err := limiter.Block(ctx, key, time.Duration(blocked*float64(time.Second)))
		return err
	})
	return err
}

// open returns a limiter over PostgreSQL, and a pool whose connections begin in its schema, which
// ddl has filled.
func open(t *testing.T, ddl string) (*pgxpool.Pool, *brim.Limiter) {
	t.Helper()
	pool, s := pgstore.New(t, postgres.Options{})
	if _, err := pool.Exec(t.Context(), ddl); err != nil {
		t.Fatal(err)
	}
	return pool, brim.New(s, nil)
}

func TestCountingTable(t *testing.T) {
	pool, limiter := open(t, `CREATE TABLE requests (key text NOT NULL, at timestamptz NOT NULL DEFAULT clock_timestamp());
		INSERT INTO requests (key) SELECT 'user:42' FROM generate_series(1, 4)`)
	ctx := t.Context()

	// Two transactions count four each, and both are admitted: six within a limit of five.
	var both [2]pgx.Tx
	for i := range both {
		tx, err := pool.Begin(ctx)
		if err != nil {
			t.Fatal(err)
		}
		both[i] = tx
	}
	for _, tx := range both {
		if err := counted(ctx, tx); err != nil {
			t.Errorf("%v; the page says that both are admitted", err)
		}
	}
	for _, tx := range both {
		if err := tx.Commit(ctx); err != nil {
			t.Fatal(err)
		}
	}
	var n int
	if err := pool.QueryRow(ctx, "SELECT count(*) FROM requests").Scan(&n); err != nil || n != 6 {
		t.Errorf("the table has %d requests, %v; the page says six", n, err)
	}
	if err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error { return counted(ctx, tx) }); !errors.Is(err, errRefused) {
		t.Errorf("a seventh request: %v", err)
	}
	if err := fromTable(ctx, pool, limiter); err != nil {
		t.Fatal(err)
	}
	level(t, limiter, brim.Over(5, time.Minute).For("user:42"), 5, 1)
}

func TestPecorino(t *testing.T) {
	pool, limiter := open(t, `
		CREATE TABLE pecorino_leaky_buckets (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), key varchar NOT NULL UNIQUE,
			level float8 NOT NULL, last_touched_at timestamp(6) NOT NULL, may_be_deleted_after timestamp(6) NOT NULL);
		CREATE TABLE pecorino_blocks (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), key varchar NOT NULL UNIQUE,
			blocked_until timestamp(6) NOT NULL);
		INSERT INTO pecorino_leaky_buckets (key, level, last_touched_at, may_be_deleted_after)
			SELECT key, 5, clock_timestamp() AT TIME ZONE 'UTC' - ago, clock_timestamp() AT TIME ZONE 'UTC' + interval '1 day'
			FROM (VALUES ('full', interval '0'), ('half', interval '30 minutes'), ('empty', interval '2 hours')) AS b (key, ago);
		INSERT INTO pecorino_blocks (key, blocked_until) VALUES ('half', clock_timestamp() AT TIME ZONE 'UTC' + interval '1 hour')`)
	limit := brim.Over(5, time.Hour)
	if err := fromPecorino(t.Context(), pool, limiter, limit); err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]float64{"full": 5, "half": 2.5, "empty": 0} {
		level(t, limiter, limit.For(key), want, 0.1)
	}
	st, err := limiter.State(t.Context(), limit.For("half"))
	if err != nil || st.BlockedUntil.Sub(st.At).Round(time.Minute) != time.Hour {
		t.Errorf("blocked until %v at %v, %v; want an hour", st.BlockedUntil, st.At, err)
	}
	if st, err := limiter.TryFillup(t.Context(), limit.For("full"), 1); err != nil || st.Accepted || !st.BlockedUntil.IsZero() {
		t.Errorf("the full bucket answers %+v, %v", st, err)
	}
}
