package pgledger_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/brimgo/brim/internal/pgtest"
	"github.com/brimgo/brim/postgres"
	"github.com/brimgo/brim/spend"
	"github.com/brimgo/brim/spend/ledger"
	"github.com/brimgo/brim/store"
)

// stranger is a session that holds rows of the ledger, and the callers who need these rows.
type stranger struct {
	name string
	why  string
	// hold is a statement about the account $1 or the request $2. Without it, the stranger charges
	// the account by a ledger in its own transaction.
	hold string
	// charged is the account that the stranger charges, where it is another one.
	charged string
	// missing says that the accounts have no row before.
	missing bool
	// same says that the callers send the ID of the stranger's request, and about any account.
	same bool
	// spends says that the callers refund earlier spends.
	spends bool
}

// TestStranger has another session hold two accounts, or other rows that decisions about them need,
// in all ways that PostgreSQL knows. Callers of other accounts go on, also those of an account that
// is charged together with a held one. The callers of the held rows get one answer by their
// deadline, and nothing is applied.
func TestStranger(t *testing.T) {
	for _, c := range []stranger{
		{name: "lock", hold: "SELECT FROM @accounts WHERE key = $1 AND $2 <> '' FOR UPDATE", why: "a row lock"},
		{name: "share lock", hold: "SELECT FROM @accounts WHERE key = $1 AND $2 <> '' FOR SHARE", why: "a row lock"},
		{
			name: "insertion", hold: "INSERT INTO @accounts (key) SELECT $1 WHERE $2 <> ''", missing: true,
			why: "no probe sees the row, but an insertion of the same row waits",
		},
		{name: "charge", why: "another program spends in its own transaction"},
		{name: "first charge", missing: true, why: "as above; it creates the account"},
		{
			name: "spends", hold: "SELECT FROM @accounts WHERE key = $1 AND $2 <> '' FOR UPDATE", spends: true,
			why: "a decision about a spend names no account, and every spend is another one",
		},
		{
			name: "racing ID", charged: "another", same: true,
			why: "a request waits for a transaction that stores an answer to its ID, whatever the accounts are",
		},
		{
			name: "request", hold: "SELECT FROM @requests WHERE id = $2 AND $1 <> '' FOR UPDATE", spends: true,
			why: "decisions about a spend rewrite the request that began it",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			// A machine that stands still for longer than the callers stay beyond their deadlines
			// leaves outcomes unknown, and slows some callers down. It does not do so each time.
			for attempt := 1; ; attempt++ {
				trouble := c.run(t)
				if trouble == "" || t.Failed() {
					return
				}
				if attempt == 4 {
					t.Fatalf("%s: %s, in each of %d runs", c.why, trouble, attempt)
				}
			}
		})
	}
}

const (
	strangersFree = 300 // accounts that nobody holds
	strangersHeld = 2
	strangersOld  = 50 // earlier spends of a held account
)

// run runs a case on tables of its own. trouble may come from a slow machine.
func (c stranger) run(t *testing.T) (trouble string) {
	admin := pgtest.Pool(t)
	schema := migrated(t, admin)
	cfg := admin.Config()
	cfg.MaxConns = 8
	pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	l := over(t, pool, &postgres.Options{Schema: schema})
	b := cardsAndTeams(t, l)
	for n := range strangersFree {
		mustCharge(t, b, spend.Request{ID: fmt.Sprint("free", n), Account: fmt.Sprint("free", n), Amount: euros(1)})
	}
	for n := range strangersHeld {
		for i := range strangersOld {
			if !c.missing {
				mustCharge(t, b, spend.Request{ID: fmt.Sprintf("held%d-%d", n, i), Account: fmt.Sprint("held", n), Amount: euros(9)})
			}
		}
	}
	calm := c.load(t, b, 300*time.Millisecond, false)

	tx, err := admin.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.Background()) }()
	c.holdRows(t, tx, schema)
	disturbed := c.load(t, b, 1200*time.Millisecond, true)
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}

	after, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	for n := range strangersHeld {
		if err := c.call(after, b, n, 0); err != nil {
			t.Errorf("account %d after the lock: %v", n, err)
		}
	}
	for _, table := range []string{"accounts", "requests"} {
		var rows int
		err := pool.QueryRow(t.Context(), "SELECT count(*) FROM "+schema+".buckets_"+table+
			" WHERE to_jsonb(buckets_"+table+") ->> 'state' IS NULL AND to_jsonb(buckets_"+table+") ->> 'answer' IS NULL").Scan(&rows)
		if err != nil || rows > 0 {
			t.Errorf("%d empty rows of %s are left, %v", rows, table, err)
		}
	}
	return disturbed.compare(t, calm)
}

// holdRows makes the stranger's transaction hold the rows.
func (c stranger) holdRows(t *testing.T, tx pgx.Tx, schema string) {
	t.Helper()
	strangers := over(t, pgtest.Pool(t), &postgres.Options{Schema: schema})
	for n := range strangersHeld {
		if c.hold == "" {
			mustCharge(t, cardsAndTeams(t, strangers.With(tx)),
				spend.Request{ID: fmt.Sprint("stranger", n), Account: fmt.Sprint(c.charged, "held", n), Amount: euros(1)})
			continue
		}
		old := strangersOld
		if strings.Contains(c.hold, "@accounts") {
			old = 1
		}
		for i := range old {
			sql := strings.ReplaceAll(c.hold, "@", schema+".buckets_")
			if _, err := tx.Exec(t.Context(), sql, fmt.Sprint("cards/held", n), fmt.Sprintf("held%d-%d", n, i)); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// call makes a decision that needs rows of the held account n, as one of its callers.
func (c stranger) call(ctx context.Context, b *spend.Budgets, n, caller int) error {
	r := spend.Request{ID: fmt.Sprintf("%x", rand.Uint64()), Account: fmt.Sprint("held", n), Amount: euros(1)}
	var err error
	switch {
	case c.spends:
		_, err = b.Refund(ctx, spend.RefundRequest{
			ID: r.ID, SpendID: fmt.Sprintf("held%d-%d", n, rand.IntN(strangersOld)), Amount: r.Amount,
		})
	case c.same:
		r.ID, r.Account = fmt.Sprint("stranger", n), fmt.Sprint("free", rand.IntN(strangersFree))
		_, err = b.Charge(ctx, r)
	case caller == 1:
		r.Also = []spend.Account{{Budget: "teams", Name: "team"}}
		fallthrough
	default:
		_, err = b.Charge(ctx, r)
	}
	return err
}

// loaded is the outcome of a load.
type loaded struct {
	others  int           // decisions
	p99     time.Duration // of the last quarter of the time
	unknown int64         // callers of held rows who learned at their deadline that the outcome is unknown
}

// load has 32 callers charge other accounts, sometimes together with a team, and four callers of
// each held row with a deadline of half a second, if rows are held.
func (c stranger) load(t *testing.T, b *spend.Budgets, length time.Duration, held bool) (l loaded) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), length)
	defer cancel()
	var unknown, others atomic.Int64
	start := time.Now()
	var took [32][]time.Duration
	var wg sync.WaitGroup
	for g := range took {
		wg.Go(func() {
			for ctx.Err() == nil {
				r := spend.Request{ID: fmt.Sprintf("%x", rand.Uint64()), Account: fmt.Sprint("free", rand.IntN(strangersFree)), Amount: euros(1)}
				if rand.IntN(8) == 0 {
					r.Also = []spend.Account{{Budget: "teams", Name: "team"}}
				}
				began := time.Now()
				if d, err := b.Charge(t.Context(), r); err != nil || !d.Approved {
					t.Errorf("another account: %+v, %v", d, err)
					return
				}
				others.Add(1)
				if began.Sub(start) > length*3/4 { // before, flushes have to find the held rows
					took[g] = append(took[g], time.Since(began))
				}
			}
		})
	}
	for n := range 4 * strangersHeld {
		if !held {
			break
		}
		wg.Go(func() {
			for ctx.Err() == nil {
				call, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
				err := c.call(call, b, n/4, n%4)
				cancel()
				switch {
				case !errors.Is(err, context.DeadlineExceeded):
					t.Errorf("a caller of held rows: %v, want the context's error: %s", err, c.why)
					return
				case errors.Is(err, store.ErrUnknownOutcome):
					unknown.Add(1)
				}
			}
		})
	}
	wg.Wait()
	all := slices.Concat(took[:]...)
	slices.Sort(all)
	if len(all) == 0 {
		all = []time.Duration{length}
	}
	return loaded{others: int(others.Load()), p99: all[len(all)*99/100], unknown: unknown.Load()}
}

// stay is how long a caller of a held row stays beyond its deadline to learn that nothing was applied.
const stay = 100 * time.Millisecond

// compare says how the stranger disturbed the others, if it did. calm took a quarter of the time.
// Where a decision takes more than half of stay undisturbed, some outcomes are truly unknown.
func (l loaded) compare(t *testing.T, calm loaded) (trouble string) {
	t.Helper()
	t.Logf("%d decisions of others with a 99th percentile of %v; undisturbed, %d in a quarter of the time with %v",
		l.others, l.p99, calm.others, calm.p99)
	switch {
	case l.unknown > 0 && calm.p99 < stay/2:
		return fmt.Sprintf("%d callers got ErrUnknownOutcome, want none", l.unknown)
	case l.others < 2*calm.others:
		return fmt.Sprintf("others made %d decisions, and %d in a quarter of the time undisturbed", l.others, calm.others)
	case l.p99 > 8*calm.p99:
		return fmt.Sprintf("the 99th percentile of others is %v, and %v undisturbed", l.p99, calm.p99)
	}
	return ""
}

// cardsAndTeams returns budgets for cards, and for teams that are charged as well.
func cardsAndTeams(t *testing.T, l ledger.Ledger) *spend.Budgets {
	t.Helper()
	rules := []spend.Rule{spend.Rolling("month", euros(1<<40), 30*24*time.Hour)}
	b, err := spend.New(l, spend.Budget{Name: "cards", Currency: "EUR", Rules: rules},
		&spend.Options{Budgets: []spend.Budget{{Name: "teams", Currency: "EUR", Rules: rules}}})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func mustCharge(t *testing.T, b *spend.Budgets, r spend.Request) {
	t.Helper()
	if d, err := b.Charge(t.Context(), r); err != nil || !d.Approved {
		t.Fatalf("%+v, %v", d, err)
	}
}
