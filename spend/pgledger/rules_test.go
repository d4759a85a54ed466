package pgledger_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/brimgo/brim/internal/pgtest"
	"github.com/brimgo/brim/postgres"
	"github.com/brimgo/brim/spend/internal/spendload"
	"github.com/brimgo/brim/spend/ledger"
	"github.com/brimgo/brim/store"
)

// ruled is a job on an account that reads the rules of the budget cards.
func ruled(account string, into *ledger.Rules, digest string) *ledger.Job {
	return &ledger.Job{
		Accounts: []string{account}, Rules: []ledger.Known{{Budget: "cards", Digest: []byte(digest)}},
		Run: func(snap ledger.Snapshot) (_ *ledger.Changes, err error) {
			*into, err = snap.Rules("cards")
			return nil, err
		},
	}
}

// begin begins a transaction that the end of the test rolls back.
func begin(t *testing.T, pool *pgxpool.Pool) pgx.Tx {
	t.Helper()
	tx, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tx.Rollback(context.Background()) })
	return tx
}

// wantNewest wants that a decision reads rules with that number and text.
func wantNewest(t *testing.T, l ledger.Ledger, seq int64, text string) {
	t.Helper()
	var got ledger.Rules
	job := ruled("", &got, "")
	job.Accounts = nil
	if err := l.Decide(t.Context(), job); err != nil || got.Seq != seq || string(got.Text) != text {
		t.Errorf("the newest rules are %+v, %v; want %d, %q", got, err, seq, text)
	}
}

// TestRulesAfterTheLock has a decision wait for an account, and stores rules meanwhile. The holder
// of the account may have decided by them, so the decision must read them.
func TestRulesAfterTheLock(t *testing.T) {
	pool := pgtest.Pool(t)
	for _, c := range []struct {
		name, statement string
		before          func(*testing.T, ledger.Ledger) error
	}{
		{"locked", "take", func(t *testing.T, l ledger.Ledger) error { return l.Decide(t.Context(), answer("before", "cards/7")) }},
		{"created", "create", func(*testing.T, ledger.Ledger) error { return nil }},
	} {
		t.Run(c.name, func(t *testing.T) {
			schema := migrated(t)
			l := over(t, pool, &postgres.Options{Schema: schema})
			if err := errors.Join(c.before(t, l), l.Decide(t.Context(), spendload.Revised("cards", "old"))); err != nil {
				t.Fatal(err)
			}
			holder, waiter := begin(t, pool), begin(t, pool)
			if err := l.With(holder).Decide(t.Context(), answer("holder", "cards/7")); err != nil {
				t.Fatal(err)
			}
			pid := waiter.Conn().PgConn().PID()
			answered := make(chan error, 1)
			var got ledger.Rules
			go func() { answered <- l.With(waiter).Decide(t.Context(), ruled("cards/7", &got, "old")) }()
			for !query[bool](t, pool, `SELECT wait_event_type IS NOT DISTINCT FROM 'Lock' AND query ~ $2 FROM pg_stat_activity WHERE pid = $1`,
				pid, "brim:ledger."+c.statement) && len(answered) == 0 {
				time.Sleep(time.Millisecond) // another session has to wait
			}
			if err := l.Decide(t.Context(), spendload.Revised("cards", "new")); err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(holder.Commit(t.Context()), <-answered); err != nil || got.Seq != 2 || string(got.Text) != "new" {
				t.Errorf("the decision goes by %+v, %v; want those that were stored while it waited", got, err)
			}
		})
	}
}

// wantWayOut wants the error of a job that has waited for the transaction of another one that sets
// rules.
func wantWayOut(t *testing.T, err error) {
	t.Helper()
	if wantError(t, err, store.ErrUnavailable); err != nil && !strings.Contains(err.Error(), "call New and SetRules outside of transactions") {
		t.Errorf("error %v does not tell the way out", err)
	}
}

// TestRulesInTransaction sets rules in transactions of the caller.
func TestRulesInTransaction(t *testing.T) {
	pool := pgtest.Pool(t)
	schema := migrated(t)
	l := over(t, pool, &postgres.Options{Schema: schema})
	other := over(t, pool, &postgres.Options{Schema: schema, StatementTimeout: time.Second})
	tx := begin(t, pool)
	in := l.With(tx)
	if err := in.Decide(t.Context(), spendload.Revised("cards", "rolled back")); err != nil {
		t.Fatal(err)
	}
	wantNewest(t, in, 1, "rolled back")
	wantNewest(t, l, 0, "")
	if list, err := in.Revisions(t.Context(), "cards", 0, 5); err != nil || len(list) != 1 {
		t.Errorf("revisions within the transaction: %+v, %v", list, err)
	}
	began := time.Now()
	err := other.Decide(t.Context(), spendload.Revised("cards", "beside"))
	if wantWayOut(t, err); time.Since(began) > 30*time.Second {
		t.Errorf("beside a transaction that has set rules, others wait for %v", time.Since(began))
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantNewest(t, l, 0, "")
	if err := l.Decide(t.Context(), spendload.Revised("cards", "first")); err != nil {
		t.Fatal(err)
	}
	wantNewest(t, l, 1, "first")

	// beside returns a job whose rules another transaction precedes.
	beside := func(text string, runs *int) *ledger.Job {
		job := spendload.Revised("cards", text)
		run := job.Run
		job.Run = func(snap ledger.Snapshot) (*ledger.Changes, error) {
			c, err := run(snap)
			if *runs++; *runs == 1 {
				err = errors.Join(err, over(t, pool, &postgres.Options{Schema: schema}).Decide(t.Context(), spendload.Revised("cards", "faster than "+text)))
			}
			return c, err
		}
		return job
	}
	runs := 0
	if err := l.Decide(t.Context(), beside("third", &runs)); err != nil || runs != 2 {
		t.Errorf("%v after %d runs; want a decision after 2", err, runs)
	}
	wantNewest(t, l, 3, "third")
	runs = 0
	err = l.With(begin(t, pool)).Decide(t.Context(), beside("fifth", &runs))
	if wantError(t, err, store.ErrUnavailable); err == nil || !strings.Contains(err.Error(), "roll back and decide again") {
		t.Errorf("error %v does not tell the way out", err)
	}
	wantNewest(t, l, 4, "faster than fifth")
}

// TestRulesRights: a role may decide by rules that it cannot set, and needs the right to read them.
func TestRulesRights(t *testing.T) {
	owner := pgtest.Pool(t)
	schema := migrated(t)
	role := schema + "_app"
	run(t, owner, "CREATE ROLE "+role)
	defer run(t, owner, "DROP OWNED BY "+role+"; DROP ROLE "+role)
	rules := schema + ".buckets_rules"
	run(t, owner, fmt.Sprintf("GRANT USAGE ON SCHEMA %[1]s TO %[2]s; GRANT ALL ON ALL TABLES IN SCHEMA %[1]s TO %[2]s; "+
		"REVOKE ALL ON %[3]s FROM %[2]s; GRANT SELECT ON %[3]s TO %[2]s", schema, role, rules))
	if err := over(t, owner, &postgres.Options{Schema: schema}).Decide(t.Context(), spendload.Revised("cards", "theirs")); err != nil {
		t.Fatal(err)
	}
	l := over(t, pgtest.PoolAt(t, pgtest.With(t, "role="+role)), &postgres.Options{Schema: schema})
	wantNewest(t, l, 1, "theirs")
	if list, err := l.Revisions(t.Context(), "cards", 0, 5); err != nil || len(list) != 1 {
		t.Errorf("revisions: %+v, %v", list, err)
	}
	lacks := func(err error, right string) {
		t.Helper()
		wantError(t, err, store.ErrMisconfigured)
		if err == nil || !strings.Contains(err.Error(), "table buckets_rules") || !strings.Contains(err.Error(), right) {
			t.Errorf("%v does not name the right %s on the table", err, right)
		}
	}
	lacks(l.Decide(t.Context(), spendload.Revised("cards", "mine")), "INSERT")
	wantNewest(t, l, 1, "theirs")
	run(t, owner, fmt.Sprintf("GRANT INSERT ON %s TO %s", rules, role))
	if err := l.Decide(t.Context(), spendload.Revised("cards", "mine")); err != nil {
		t.Error(err)
	}
	wantNewest(t, l, 2, "mine")
	run(t, owner, fmt.Sprintf("REVOKE SELECT ON %s FROM %s", rules, role))
	var got ledger.Rules
	lacks(l.Decide(t.Context(), ruled("cards/7", &got, "")), "SELECT")
	lacks(l.View(t.Context(), ruled("cards/7", &got, "")), "SELECT")
	_, err := l.Revisions(t.Context(), "cards", 0, 5)
	lacks(err, "SELECT")
}

// TestRulesThatNobodyNeeds: a transaction reads rules only if one of its jobs names their budget,
// and the text only if one of them has another digest. A job cannot read the rules of other
// budgets.
func TestRulesThatNobodyNeeds(t *testing.T) {
	pool := pgtest.PoolAt(t, pgtest.With(t, "pool_max_conns=1")) // a session tells its statistics for itself
	schema := migrated(t)
	l := over(t, pool, &postgres.Options{Schema: schema})
	if err := l.Decide(t.Context(), spendload.Revised("cards", "text")); err != nil {
		t.Fatal(err)
	}
	scans := func() int {
		t.Helper()
		pgtest.Flush(t, pool)
		return query[int](t, pool, "SELECT idx_scan + seq_scan FROM pg_stat_user_tables WHERE schemaname = $1 AND relname = 'buckets_rules'", schema)
	}
	before := scans()
	if err := l.Decide(t.Context(), answer("id", "cards/7")); err != nil {
		t.Fatal(err)
	}
	if n := scans() - before; n != 0 {
		t.Errorf("a decision that needs no rules has scanned them %d times", n)
	}
	var own, known ledger.Rules
	other := ruled("cards/7", &own, "text")
	other.Rules = []ledger.Known{{Budget: "teams"}}
	if err := l.Decide(t.Context(), other); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("rules that the job has not named: %+v, %v", own, err)
	}
	if err := l.Decide(t.Context(), ruled("cards/7", &known, "text")); err != nil || known.Seq != 1 || len(known.Text) > 0 {
		t.Errorf("the rules that a job knows: %+v, %v; want no text", known, err)
	}
	jobs := []*ledger.Job{ruled("cards/7", &known, "text"), ruled("cards/7", &own, "old")}
	for range 2 {
		known, own = ledger.Rules{}, ledger.Rules{}
		err := errors.Join(l.DecideAll(t.Context(), jobs)...)
		if err != nil || string(known.Text) != "text" || string(own.Text) != "text" {
			t.Errorf("of two jobs one knows the rules: %+v and %+v, %v; want both with the text", known, own, err)
		}
		slices.Reverse(jobs)
	}
}
