package cut

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/brimgo/brim/internal/pgtest"
	"github.com/brimgo/brim/lab/internal/serverload"
	"github.com/brimgo/brim/migrations"
	"github.com/brimgo/brim/postgres"
	"github.com/brimgo/brim/spend/pgledger"
)

// newPostgres returns a rig with a schema of its own. settings are those of the URL.
func newPostgres(t *testing.T, settings string, d serverload.Defect) *rig {
	t.Helper()
	schema := pgtest.Schema(t)
	r := newRig(t, pgtest.URL(t))
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	// No server crashes here, so commits need not wait for the disk.
	const lazy = "&synchronous_commit=off"
	name := "cut_" + schema // of the connections through the proxy
	// One connection.
	pool, err := pgxpool.New(t.Context(), r.proxy.URL()+lazy+"&pool_max_conns=1&application_name="+name+settings)
	must(err)
	t.Cleanup(pool.Close)
	direct, err := pgxpool.New(t.Context(), pgtest.URL(t)+lazy)
	must(err)
	t.Cleanup(direct.Close)
	must(migrations.Up(t.Context(), direct, &migrations.Options{Schema: schema}))

	open := func(pool *pgxpool.Pool, skew time.Duration) *postgres.Store {
		s, err := postgres.New(pool, &postgres.Options{Schema: schema, StatementTimeout: statementTimeout, MaxSkew: skew})
		must(err)
		t.Cleanup(func() { _ = s.Close() })
		return s
	}
	attacked, sound := open(pool, 0), open(direct, 0)
	r.pruning, r.soundPruning = open(pool, maxSkew), open(direct, maxSkew)
	r.buckets = serverload.NewTransactions(attacked, d, pool, sound)
	r.soundBuckets = serverload.NewTransactions(sound, "", direct, sound)
	attackedLedger, err := pgledger.New(attacked, nil)
	must(err)
	t.Cleanup(func() { _ = attackedLedger.Close() })
	soundLedger, err := pgledger.New(sound, nil)
	must(err)
	t.Cleanup(func() { _ = soundLedger.Close() })
	r.ledger, err = serverload.NewLedger(&serverload.SpoiledLedger{Joiner: attackedLedger, Defect: d}, pool, soundLedger)
	must(err)
	r.soundLedger, err = serverload.NewLedger(soundLedger, direct, soundLedger)
	must(err)

	r.hangUp = pool.Reset
	r.ended = func(ctx context.Context) error {
		return serverload.EndedPostgres(ctx, direct, name, func() {
			pool.Reset()
			r.proxy.Drop() // also a connection that the pool is still making
		})
	}
	return r
}

var modes = []setting{{"prepared", "", true}, {"exec", "&default_query_exec_mode=exec", false}}
