package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/brimgo/brim/internal/load"
	"github.com/brimgo/brim/spend/internal/spendload"
)

// The limit of a server: the rows of decisions, without decisions. Each table is that of the ledger
// with its indexes, and each statement writes the rows of a whole batch: one account updated, one
// entry, one answer and one hold inserted for each decision. It locks the accounts in the order of $1,
// as store.sql of the ledger does, so that two of them do not deadlock.

var bareTables = []string{
	`CREATE TABLE bare_accounts (LIKE brim.buckets_accounts INCLUDING ALL) WITH (fillfactor = 70)`,
	`CREATE TABLE bare_entries (LIKE brim.buckets_entries INCLUDING ALL)`,
	`CREATE TABLE bare_requests (LIKE brim.buckets_requests INCLUDING ALL) WITH (fillfactor = 90)`,
	`CREATE TABLE bare_holds (LIKE brim.buckets_holds INCLUDING ALL)`,
	`INSERT INTO bare_accounts SELECT * FROM brim.buckets_accounts`,
	`INSERT INTO bare_entries SELECT * FROM brim.buckets_entries`,
	`VACUUM ANALYZE bare_accounts, bare_entries`,
}

const bareRows = `WITH saved AS (
	UPDATE bare_accounts AS a SET state = $5
	FROM (SELECT unnest($1::text[]) AS key) AS u WHERE a.key = ANY (ARRAY[u.key])
), appended AS (
	INSERT INTO bare_entries (at, dated, seq, part, amount, used, held, spends, spend_amount, currency, kind, account, id, spend)
	SELECT clock_timestamp(), clock_timestamp(), u.seq, u.seq, 100, 0, 100, 1, 100, 'EUR', 'authorize', u.account, u.id, u.id
	FROM (SELECT unnest($2::text[]) AS account, unnest($3::text[]) AS id, unnest($4::bigint[]) AS seq) AS u
), answered AS (
	INSERT INTO bare_requests (id, at, accounts, content, answer, spend)
	SELECT u.id, clock_timestamp(), ARRAY[u.account], $6, $5, $7
	FROM (SELECT unnest($2::text[]) AS account, unnest($3::text[]) AS id) AS u
), opened AS (
	INSERT INTO bare_holds (account, expires, spend)
	SELECT u.account, clock_timestamp() + interval '7 days', u.id
	FROM (SELECT unnest($2::text[]) AS account, unnest($3::text[]) AS id) AS u
) SELECT 1`

// limit returns how many decisions' rows the server stores per second, from as many connections as
// the ledger has transactions in flight, which share the callers.
func (b *bench) limit(ctx context.Context, pool *pgxpool.Pool, callers, accounts int) (float64, error) {
	lanes := 1
	if accounts > 1 && callers >= 16 {
		lanes = 2
	}
	n := callers / lanes
	state, content, spend := make([]byte, 200), make([]byte, 16), make([]byte, 60)
	insert := func(ctx context.Context, _ int) error {
		each, ids, seqs := make([]string, n), make([]string, n), make([]int64, n)
		for i := range n {
			each[i], ids[i], seqs[i] = "cards/"+spendload.Account(rand.IntN(accounts)), b.id(), rand.Int64()
		}
		slices.Sort(each)
		slices.Sort(ids)
		_, err := pool.Exec(ctx, bareRows, slices.Compact(slices.Clone(each)), each, ids, seqs, state, content, spend)
		return err
	}
	results, err := b.turns(ctx, lanes, 1, insert)
	if err != nil {
		return 0, fmt.Errorf("the rows alone: %w", err)
	}
	return load.Median(rates(results[0])) * float64(n), nil
}
