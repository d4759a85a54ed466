package pgledger_test

import (
	"testing"
	"time"

	"github.com/brimgo/brim/internal/pgtest"
	"github.com/brimgo/brim/postgres"
)

// TestForgetNothing prunes a ledger whose requests are all of the last days, and most of another
// one. The first prune must not read the table: it would take longer each day.
func TestForgetNothing(t *testing.T) {
	const rows = 60_000
	schema := migrated(t)
	pool := pgtest.PoolAt(t, pgtest.With(t, "pool_max_conns=1")) // a session tells its statistics for itself
	l := over(t, pool, &postgres.Options{Schema: schema})
	for _, sql := range []string{
		"ALTER TABLE " + schema + ".buckets_requests SET (autovacuum_enabled = false)",
		"INSERT INTO " + schema + ".buckets_accounts (key) VALUES ('cards/7')",
		"INSERT INTO " + schema + `.buckets_requests (at, account, id, content, answer)
			SELECT now() - interval '50 days' + i * interval '1 minute', (SELECT id FROM ` + schema + `.buckets_accounts), int8send(i), '', ''
			FROM generate_series(1, 60000) AS i`,
		"INSERT INTO " + schema + ".buckets_spends (id, spend) SELECT int8send(i), '' FROM generate_series(1, 60000, 2) AS i",
		"VACUUM ANALYZE " + schema + ".buckets_requests", // as autovacuum does, it brings the index up to date
	} {
		if _, err := pool.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	removed := func(prefix string, age time.Duration) int64 {
		t.Helper()
		n, err := l.PruneRequests(t.Context(), prefix, time.Now().Add(-age).UnixMicro())
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	read := func() (n int) {
		t.Helper()
		pgtest.Flush(t, pool)
		if err := pool.QueryRow(t.Context(), `SELECT heap_blks_read + heap_blks_hit FROM pg_statio_user_tables
			WHERE schemaname = $1 AND relname = 'buckets_requests'`, schema).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	before := read()
	if n := removed("cards/", 60*24*time.Hour); n != 0 {
		t.Errorf("%d requests were removed; want none", n)
	}
	if n := read() - before; n > 150 {
		t.Errorf("a prune with nothing to do read %d pages; want those behind one row of the index", n)
	}
	if n := removed("teams/", 20*24*time.Hour); n != 0 {
		t.Errorf("%d requests of another budget were removed", n)
	}
	if n := removed("cards/", 20*24*time.Hour); n < rows/2 || n > rows*3/4 {
		t.Errorf("%d requests were removed; want those of 30 days of 41", n)
	}
	var spends, requests int
	if err := pool.QueryRow(t.Context(), "SELECT (SELECT count(*) FROM "+schema+".buckets_spends), (SELECT count(*) FROM "+
		schema+".buckets_requests)").Scan(&spends, &requests); err != nil || spends*2 < requests-1 || spends*2 > requests+1 {
		t.Errorf("%d spends of %d requests are left, %v; want one for every second", spends, requests, err)
	}
}
