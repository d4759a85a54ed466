package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/brimgo/brim/internal/table"
	"github.com/brimgo/brim/migrations"
	"github.com/brimgo/brim/postgres"
	"github.com/brimgo/brim/spend/internal/spendload"
	"github.com/brimgo/brim/spend/pgledger"
)

const window = 30 * 24 * time.Hour

// connect returns a pool of connections to the server, and makes the tables.
func (b *bench) connect(ctx context.Context, conns int32, commit string) (*pgxpool.Pool, error) {
	cfg, err := pgxpool.ParseConfig(b.server.URL())
	if err != nil {
		return nil, err
	}
	cfg.MaxConns = conns
	cfg.ConnConfig.RuntimeParams["synchronous_commit"] = commit
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, err
	}
	return pool, migrations.Up(ctx, pool, nil)
}

// ledgerOver returns a ledger, and a function that closes it. clock may be nil.
func ledgerOver(pool *pgxpool.Pool, clock func() time.Time) (*pgledger.Ledger, func() error, error) {
	s, err := postgres.New(pool, &postgres.Options{Clock: clock})
	if err != nil {
		return nil, nil, err
	}
	l, err := pgledger.New(s, nil)
	return l, func() error { return errors.Join(l.Close(), s.Close()) }, err
}

// copies are the statements that copy the first account and its entries to the others, and make the
// rows of the reference. The answers to the IDs of the entries are not copied.
var copies = []string{
	`INSERT INTO brim.buckets_accounts (key, next_expiry, watch_after, watch_width, state)
		SELECT 'cards/account:' || i, next_expiry, watch_after, watch_width, state
		FROM brim.buckets_accounts CROSS JOIN generate_series(1, $1::int - 1) AS i WHERE key = 'cards/account:0'`,
	`INSERT INTO brim.buckets_entries (at, dated, seq, part, amount, used, held, spends, spend_amount, currency, kind, account, id, spend)
		SELECT at, dated, seq, part, amount, used, held, spends, spend_amount, currency, kind, 'cards/account:' || i, id || i, spend || i
		FROM generate_series(1, $1::int - 1) AS i
		     CROSS JOIN LATERAL (SELECT * FROM brim.buckets_entries WHERE account = 'cards/account:0' ORDER BY at OFFSET 0) AS e`,
	`CREATE TABLE reference (key text COLLATE "C" PRIMARY KEY, level float8 NOT NULL, atime timestamptz NOT NULL) WITH (fillfactor = 85)`,
	`INSERT INTO reference SELECT 'account:' || i, 0, now() FROM generate_series(0, $1::int - 1) AS i`,
}

// postgres measures authorizations against one bare UPDATE per decision, through the same pool.
func (b *bench) postgres(ctx context.Context) (err error) {
	pool, err := b.connect(ctx, 16, "on")
	if err != nil {
		return err
	}
	defer pool.Close()
	if err := b.fillPostgres(ctx, pool); err != nil {
		return err
	}
	l, closeLedger, err := ledgerOver(pool, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeLedger()) }()
	authorize, err := spendload.Authorizer(l, window, b.id)
	if err != nil {
		return err
	}
	update := func(ctx context.Context, account int) error {
		_, err := pool.Exec(ctx, "UPDATE reference SET level = level + 1, atime = clock_timestamp() WHERE key = $1",
			spendload.Account(account))
		return err
	}
	for _, sql := range bareTables {
		if _, err := pool.Exec(ctx, sql); err != nil {
			return err
		}
	}
	t := table.Numeric("PostgreSQL", "callers", "decisions/s", "bare UPDATE/s", "ratio", "rows alone/s")
	for _, c := range []struct {
		name     string
		accounts int
	}{{fmt.Sprintf("%d accounts", b.accounts), b.accounts}, {"one account", 1}} {
		for _, callers := range []int{1, 16, 64} {
			row, err := b.compare(ctx, c.name, callers, c.accounts, authorize, update)
			if err != nil {
				return err
			}
			most, err := b.limit(ctx, pool, callers, c.accounts)
			if err != nil {
				return err
			}
			t.Add(append(row, fmt.Sprintf("%.0f", most))...)
		}
	}
	_, err = fmt.Fprintln(b.stdout, t.Markdown())
	return err
}

// fillPostgres gives each account its entries.
func (b *bench) fillPostgres(ctx context.Context, pool *pgxpool.Pool) error {
	now := newClock(b.entries)
	l, closeLedger, err := ledgerOver(pool, now.time)
	if err != nil {
		return err
	}
	err = errors.Join(now.fill(ctx, l, spendload.Account(0)), closeLedger())
	for _, sql := range copies {
		if err == nil {
			args := []any{b.accounts}
			if sql[:6] == "CREATE" {
				args = nil
			}
			_, err = pool.Exec(ctx, sql, args...)
		}
	}
	if err == nil {
		_, err = pool.Exec(ctx, "VACUUM ANALYZE")
	}
	return err
}
