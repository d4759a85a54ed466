package pgledger

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/brimgo/brim/internal/pgtest"
	"github.com/brimgo/brim/migrations"
	"github.com/brimgo/brim/postgres"
	"github.com/brimgo/brim/spend"
	"github.com/brimgo/brim/spend/ledger"
)

// TestRecallIsBounded remembers more accounts than the bound.
func TestRecallIsBounded(t *testing.T) {
	var r recall
	const n = 5 * maxRecalled / 2
	for i := range n {
		key := fmt.Sprint(i)
		r.keep(map[string]ledger.Account{key: {Key: key, State: []byte{1}}})
	}
	if got := len(r.recent) + len(r.older); got != 3*maxRecalled/2 {
		t.Errorf("%d accounts are remembered, want %d", got, 3*maxRecalled/2)
	}
	for i, want := range map[int]bool{0: false, n - 3*maxRecalled/2 - 1: false, n - 3*maxRecalled/2: true, n - 1: true} {
		if _, got := r.find(fmt.Sprint(i)); got != want {
			t.Errorf("account %d of %d is remembered: %t, want %t", i, n, got, want)
		}
	}
}

// TestRecallTake has jobs whose accounts are remembered, or partly so.
func TestRecallTake(t *testing.T) {
	const now = 1_000
	job := func(accounts ...string) *ledger.Job { return &ledger.Job{Accounts: accounts} }
	for _, c := range []struct {
		name string
		set  func(*recall)
		jobs []*ledger.Job
		want int // accounts that are taken
		why  string
	}{
		{"all are remembered", nil, []*ledger.Job{job("a"), job("a", "b")}, 2, "the jobs need nothing else"},
		{"one is not", nil, []*ledger.Job{job("a"), job("z")}, 0, "a batch has one way for all of its jobs"},
		{"a spend", nil, []*ledger.Job{{Accounts: []string{"a"}, SpendID: "s"}}, 0, "the spend is in the row of its request"},
		{"a window lost an entry", nil, []*ledger.Job{job("leaves")}, 0, "the entry has to be read"},
		{"a window is about to lose an entry", nil, []*ledger.Job{job("stays")}, 1, "the first entry is dated after the edge"},
		{"a hold has expired", nil, []*ledger.Job{job("expired")}, 0, "the hold has to be read"},
		{"a hold is about to expire", nil, []*ledger.Job{job("held")}, 1, "it still holds"},
		{"a row without a working set", nil, []*ledger.Job{job("empty")}, 0, "there is no state to prove"},
		{"no reading", func(r *recall) { r.read = time.Time{} }, []*ledger.Job{job("a")}, 0, "the server's clock is not known"},
		{"an old reading", func(r *recall) { r.read = time.Now().Add(-2 * fresh) }, []*ledger.Job{job("a")}, 0, "decisions go by a clock that is near"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := &recall{now: now, read: time.Now().Add(time.Hour)} // later, so that no pause of the test ages it
			r.keep(map[string]ledger.Account{
				"a": {State: []byte{1}}, "b": {State: []byte{1}}, "empty": {},
				"leaves":  {State: []byte{1}, Watch: []ledger.Watch{{After: 899, Width: 100}}},
				"stays":   {State: []byte{1}, Watch: []ledger.Watch{{After: 900, Width: 100}}},
				"expired": {State: []byte{1}, NextExpiry: now},
				"held":    {State: []byte{1}, NextExpiry: now + 1},
			})
			before := len(r.recent)
			if c.set != nil {
				c.set(r)
			}
			accounts, at := r.take(c.jobs, nil)
			if len(accounts) != c.want || len(r.recent) != before-c.want {
				t.Errorf("%d accounts are taken and %d are left; want %d and %d\nwhy: %s",
					len(accounts), len(r.recent), c.want, before-c.want, c.why)
			}
			if c.want > 0 && at != now {
				t.Errorf("the time is %d, want %d", at, now)
			}
		})
	}
}

// TestReadingIsProven has a ledger decide by a reading that is not one of the last second. The
// server refuses it, and the decision is made again on the locked account.
func TestReadingIsProven(t *testing.T) {
	l, _, _ := openLedger(t)
	cards, err := spend.New(l, spend.Budget{Name: "cards", Currency: "EUR", Rules: []spend.Rule{
		spend.Lifetime("ever", spend.Money{Minor: 1000, Currency: "EUR"}),
	}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	charge := func(id string) spend.Decision {
		t.Helper()
		d, err := cards.Charge(t.Context(), spend.Request{ID: id, Account: "7", Amount: spend.Money{Minor: 1, Currency: "EUR"}})
		if err != nil || !d.Approved {
			t.Fatalf("%+v, %v", d, err)
		}
		return d
	}
	for name, away := range map[string]time.Duration{"an hour ahead": time.Hour, "two seconds old": -2 * time.Second} {
		t.Run(name, func(t *testing.T) {
			first := charge(name)
			l.recall.pause = 0
			l.recall.now += away.Microseconds()
			l.recall.read = time.Now().Add(time.Minute)
			d := charge("again, " + name)
			if took := d.At.Sub(first.At); took < 0 || took > time.Minute {
				t.Errorf("the decision is dated %v after the one before", took)
			}
			if l.recall.pause == 0 {
				t.Error("no proof has failed: the test has shown nothing")
			}
		})
	}
}

// openLedger returns a ledger over tables of its own, which closes at the end of t.
func openLedger(t *testing.T) (l *Ledger, pool *pgxpool.Pool, schema string) {
	t.Helper()
	pool, schema = pgtest.Pool(t), pgtest.Schema(t)
	if err := migrations.Up(t.Context(), pool, &migrations.Options{Schema: schema}); err != nil {
		t.Fatal(err)
	}
	s, err := postgres.New(pool, &postgres.Options{Schema: schema})
	if err != nil {
		t.Fatal(err)
	}
	if l, err = New(s, nil); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return l, pool, schema
}

// TestRecallLargeStates remembers no working set that is larger than the bound.
func TestRecallLargeStates(t *testing.T) {
	var r recall
	for n, want := range map[int]bool{maxState: true, maxState + 1: false} {
		key := fmt.Sprint(n)
		r.keep(map[string]ledger.Account{key: {Key: key, State: make([]byte, n)}})
		if _, got := r.find(key); got != want {
			t.Errorf("a working set of %d bytes is remembered: %t, want %t", n, got, want)
		}
	}
}

// TestProofBehindTheLock has a batch on a remembered account wait for the row. The age of its
// reading is judged when the row is locked.
func TestProofBehindTheLock(t *testing.T) {
	l, pool, schema := openLedger(t)
	table := schema + ".buckets_accounts"
	if _, err := pool.Exec(t.Context(), "INSERT INTO "+table+" (key, state) VALUES ('a', 'x')"); err != nil {
		t.Fatal(err)
	}
	tx, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.Background()) }()
	if _, err := tx.Exec(t.Context(), "SELECT FROM "+table+" FOR UPDATE"); err != nil {
		t.Fatal(err)
	}
	conn, err := pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	b := l.newBatch(conn, true)
	b.recalled = map[string]ledger.Account{"a": {Key: "a", State: []byte("x")}}
	b.accounts["a"], b.dirty["a"] = b.recalled["a"], true
	b.now = time.Now().UnixMicro()
	out := &pgx.Batch{}
	b.queueStore(out)
	done := make(chan error)
	go func() { done <- l.run.SendTogether(context.Background(), conn, out) }()
	var freed time.Time
	for waits := false; !waits; {
		err := tx.QueryRow(t.Context(), "SELECT EXISTS (SELECT FROM pg_locks WHERE pid = $1 AND NOT granted), clock_timestamp()",
			conn.Conn().PgConn().PID()).Scan(&waits, &freed)
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if b.clock.Micros < freed.UnixMicro() {
		t.Errorf("the reading is judged at %v; the row was locked by another transaction until %v", b.clock, freed)
	}
}
