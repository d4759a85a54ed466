package postgres_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/brimgo/brim/internal/pgtest"
	"github.com/brimgo/brim/postgres"
	"github.com/brimgo/brim/store"
)

// TestQuestionsWaitForNoRow asks about a bucket whose row another session holds: at first sight,
// and while callers that fill it wait in the queue for such rows.
func TestQuestionsWaitForNoRow(t *testing.T) {
	leakFree(t)
	admin := pgtest.Pool(t)
	schema := migrated(t)
	s := over(t, pgtest.PoolAt(t, pgtest.URL(t)), postgres.Options{Schema: schema, StatementTimeout: time.Minute})
	b := steady.For("held")
	fill(t, s, op(b, 3, store.IfFits))
	release := lockRow(t, admin, schema, "held")
	ask := func(when string) {
		t.Helper()
		err := promptly(t, func() error {
			st, err := s.Fill(t.Context(), op(b, 1, store.Ask))
			if err == nil && (!st.Accepted || st.Level != 3) {
				err = fmt.Errorf("%+v", st)
			}
			return err
		})
		if err != nil {
			t.Errorf("a question %s: %v; want level 3 and yes", when, err)
		}
		err = promptly(t, func() error {
			res, err := s.Apply(t.Context(), store.Txn{op(b, 1, store.Ask), op(steady.For("free"), 1, store.Ask)})
			if err == nil && !res[0].Accepted {
				err = fmt.Errorf("%+v", res)
			}
			return err
		})
		if err != nil {
			t.Errorf("a transaction of questions %s: %v", when, err)
		}
	}
	ask("while another session holds the row")
	var filled sync.WaitGroup
	for range 3 {
		filled.Go(func() {
			if st, err := s.Fill(t.Context(), op(b, 1, store.IfFits)); err != nil || !st.Accepted {
				t.Errorf("%+v, %v", st, err)
			}
		})
	}
	filled.Go(func() {
		res, err := s.Apply(t.Context(), store.Txn{op(b, 1, store.IfFits), op(b, 1, store.IfFits)})
		if err != nil || !res[0].Accepted {
			t.Errorf("%+v, %v", res, err)
		}
	})
	somebodyWaits(t, admin, schema)
	ask("while fills wait for the row")
	release()
	filled.Wait()
	levelIs(t, s, "held", 8)
}

// TestQuestionsInATransaction asks in a transaction of the application. The answer counts the
// fills of the transaction, and a question locks no row, not even in one that cannot write.
func TestQuestionsInATransaction(t *testing.T) {
	for way, join := range ways {
		t.Run(way, func(t *testing.T) { testQuestionsInATransaction(t, join) })
	}
}

func testQuestionsInATransaction(t *testing.T, join func(*testing.T, *charges, pgx.TxIsoLevel) *joined) {
	c := newCharges(t, postgres.Options{})
	b := store.Limit{Capacity: 10}.For("k")
	fill(t, c.s, op(b, 3, store.IfFits))
	in := join(t, c, pgx.ReadCommitted)
	for _, o := range []store.Op{op(b, 7, store.Ask), op(b, 8, store.Ask), op(b.For("none"), 10, store.Ask)} {
		if st := fill(t, in, o); st.Accepted != (o.Amount != 8) {
			t.Errorf("a question about %v: %+v", o.Amount, st)
		}
	}
	res, err := in.Apply(t.Context(), store.Txn{op(b, 1, store.Ask), op(b, 6, store.Ask), op(b.For("none"), 1, store.Ask)})
	if err != nil || !res[0].Accepted {
		t.Errorf("a transaction of questions: %+v, %v", res, err)
	}
	// Somebody else fills the bucket meanwhile, without waiting for the transaction.
	err = promptly(t, func() error { _, err := c.s.Fill(t.Context(), op(b, 1, store.IfFits)); return err })
	if err != nil {
		t.Errorf("a fill beside the questions: %v", err)
	}
	fill(t, in, op(b, 2, store.IfFits))
	if st := fill(t, in, op(b, 5, store.Ask)); st.Accepted || st.Level != 6 {
		t.Errorf("a question after a fill of the transaction: %+v; want level 6", st)
	}
	in.end(t, true)
	levelIs(t, c.s, "k", 6)

	read, err := c.pool.BeginTx(t.Context(), pgx.TxOptions{AccessMode: pgx.ReadOnly})
	if err != nil {
		t.Fatal(err)
	}
	if st := fill(t, c.s.With(read), op(b, 1, store.Ask)); !st.Accepted || st.Level != 6 {
		t.Errorf("a question in a transaction that only reads: %+v", st)
	}
	end(t, read, false)
	if n := scalar[int](t, c.pool, "SELECT count(*) FROM "+table(t, c.schema)); n != 1 {
		t.Errorf("%d rows; want 1, because a question makes none", n)
	}
}

// TestVisitKeepsNoTransaction looks at the sessions of a store while the function of Visit runs.
func TestVisitKeepsNoTransaction(t *testing.T) {
	admin := pgtest.Pool(t)
	schema := migrated(t)
	pool := pgtest.PoolAt(t, pgtest.With(t, "pool_max_conns=1&application_name=visitor-"+schema))
	s := over(t, pool, postgres.Options{Schema: schema})
	const buckets = 2500
	txns := make([]store.Txn, buckets)
	for i := range txns {
		txns[i] = store.Txn{op(steady.For(fmt.Sprintf("k%05d", i)), 1, store.Always)}
	}
	if _, err := s.Apply(t.Context(), txns...); err != nil {
		t.Fatal(err)
	}
	seen := 0
	err := s.Visit(t.Context(), "k", func(e store.Entry) bool {
		if seen++; seen%500 == 1 {
			if n := pool.Stat().AcquiredConns(); n != 0 {
				t.Errorf("Visit holds %d connections while its function runs", n)
			}
			states := scalar[string](t, admin, `SELECT COALESCE(string_agg(state, ','), '') FROM pg_stat_activity
				WHERE application_name = $1 AND state <> 'idle'`, "visitor-"+schema)
			if states != "" {
				t.Errorf("a session is %s while the function runs", states)
			}
		}
		return true
	})
	if err != nil || seen != buckets {
		t.Errorf("visited %d of %d buckets, %v", seen, buckets, err)
	}
}
