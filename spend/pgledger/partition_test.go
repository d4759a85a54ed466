package pgledger_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/brimgo/brim/internal/pgtest"
	"github.com/brimgo/brim/internal/seed"
	"github.com/brimgo/brim/migrations"
	"github.com/brimgo/brim/postgres"
	"github.com/brimgo/brim/spend/ledger"
	"github.com/brimgo/brim/spend/spendtest"
)

// TestPartitioned partitions the tables of the ledger by hash, but for the accounts, and runs
// random calls over them.
func TestPartitioned(t *testing.T) {
	pool := pgtest.Pool(t)
	schema := migrated(t)
	for table, key := range map[string]string{"entries": "account", "requests": "id", "spends": "id", "holds": "account"} {
		sql := "ALTER TABLE @ RENAME TO plain_" + table + "; CREATE TABLE @ (LIKE " + schema + ".plain_" + table +
			" INCLUDING ALL) PARTITION BY HASH (" + key + "); DROP TABLE " + schema + ".plain_" + table + " CASCADE"
		for i := range 2 {
			sql += fmt.Sprintf("; CREATE TABLE @_%d PARTITION OF @ FOR VALUES WITH (MODULUS 2, REMAINDER %[1]d)", i)
		}
		if _, err := pool.Exec(t.Context(), strings.ReplaceAll(sql, "@", schema+".buckets_"+table)); err != nil {
			t.Fatal(err)
		}
	}
	h := harness(t, "")
	h.New = func(t testing.TB, clock func() time.Time) ledger.Ledger {
		return over(t, pool, &postgres.Options{Schema: schema, Clock: clock})
	}
	spendtest.Random(t, h, seed.Attempts(25, 500))
}

// TestDistributed demands an error that names the table which Citus distributes.
func TestDistributed(t *testing.T) {
	pool := pgtest.NewServer(t, "allow_system_table_mods=on").Pool(t)
	if err := migrations.Up(context.Background(), pool, nil); err != nil {
		t.Fatal(err)
	}
	pgtest.PretendCitus(t, pool, "brim.buckets", "brim.buckets_requests")
	l := over(t, pool, nil)
	job := &ledger.Job{Accounts: []string{"cards/a"}, Run: func(ledger.Snapshot) (*ledger.Changes, error) { return nil, nil }}
	for name, err := range map[string]error{"decide": l.Decide(t.Context(), job), "view": l.View(t.Context(), job)} {
		if !errors.Is(err, errors.ErrUnsupported) || !strings.Contains(err.Error(), "Citus distributes the table buckets_requests") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
