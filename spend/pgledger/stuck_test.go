package pgledger_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
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
	// inserted says that the stranger inserts the row: waiting alone tells that.
	inserted bool
	// same says that the callers send the ID of the stranger's request, and about any account.
	same bool
	// spends says that the callers refund earlier spends.
	spends bool
}

// TestStranger has another session hold two accounts, or other rows that decisions about them need,
// by a lock or an insertion. Callers of other accounts go on, also those of an account that
// is charged together with a held one: a call for held rows lets at most one statement wait, so it
// cannot hold up the flushes of others again and again. Where a row is being inserted, statements
// of the slow lane wait for it again, for a few milliseconds each. The callers of the held rows get
// one answer by their deadline, and nothing is applied.
func TestStranger(t *testing.T) {
	for _, c := range []stranger{
		{name: "lock", hold: "SELECT FROM @accounts WHERE key = $1 AND $2 <> '' FOR UPDATE", why: "a row lock"},
		{
			name: "first charge", missing: true, inserted: true,
			why: "another program spends in its own transaction: no statement sees the row that it inserts",
		},
		{
			name: "spends", hold: "SELECT FROM @accounts WHERE key = $1 AND $2 <> '' FOR UPDATE", spends: true,
			why: "a decision about a spend names no account, and every spend is another one",
		},
		{
			name: "racing ID", charged: "another", same: true, inserted: true,
			why: "a request waits for a transaction that stores an answer to its ID, whatever the accounts are",
		},
		{
			name: "request", hold: "SELECT FROM @requests WHERE id = $2 AND $1 <> '' FOR UPDATE", spends: true,
			why: "decisions about a spend rewrite the request that began it",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			// A machine that stands still for longer than the callers stay beyond their deadlines
			// leaves outcomes unknown. It does not do so each time.
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
	schema := migrated(t)
	var timeouts *atomic.Int64
	pool := pgtest.PoolAt(t, pgtest.With(t, "pool_max_conns=8"), func(c *pgxpool.Config) {
		timeouts = pgtest.CountLockTimeouts(c.ConnConfig)
	})
	l := over(t, pool, &postgres.Options{Schema: schema})
	b := cardsAndTeams(t, l)
	var before []spend.Request
	for n := range strangersFree {
		before = append(before, spend.Request{ID: fmt.Sprint("free", n), Account: fmt.Sprint("free", n), Amount: euros(1)})
	}
	for n := range strangersHeld {
		for i := range strangersOld {
			if !c.missing {
				before = append(before, spend.Request{ID: fmt.Sprintf("held%d-%d", n, i), Account: fmt.Sprint("held", n), Amount: euros(9)})
			}
		}
	}
	mustCharge(t, b, before...)
	calm := c.load(t, b, 300*time.Millisecond, false)

	tx, err := admin.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.Background()) }()
	c.holdRows(t, tx, schema)
	disturbed := c.load(t, b, 1200*time.Millisecond, true)
	waits := timeouts.Load()
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
	t.Logf("%d decisions of others; %d calls for held rows, and %d statements that waited for one",
		disturbed.others, disturbed.calls, waits)
	if !c.inserted && waits > disturbed.calls {
		t.Errorf("%d calls for held rows let %d statements wait for one, want at most one each", disturbed.calls, waits)
	}
	// Where a decision takes more than half of stay undisturbed, some outcomes are truly unknown.
	if disturbed.unknown > 0 && calm.slowest < stay/2 {
		return fmt.Sprintf("%d callers got ErrUnknownOutcome, want none", disturbed.unknown)
	}
	return ""
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
	others  int64         // decisions
	slowest time.Duration // of them
	calls   int64         // of callers of held rows
	unknown int64         // calls that learned at their deadline that the outcome is unknown
}

// stay is how long a caller of a held row stays beyond its deadline to learn that nothing was
// applied.
const stay = 100 * time.Millisecond

// load has 32 callers charge other accounts, sometimes together with a team, and four callers of
// each held row with a deadline of half a second, if rows are held. The rows stay held until all
// have their answers, so a decision about another account that waited for a held row would find
// none by its deadline.
func (c stranger) load(t *testing.T, b *spend.Budgets, length time.Duration, held bool) loaded {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), length)
	defer cancel()
	var others, slowest, calls, unknown atomic.Int64
	var wg sync.WaitGroup
	for range 32 {
		wg.Go(func() {
			for ctx.Err() == nil {
				r := spend.Request{ID: fmt.Sprintf("%x", rand.Uint64()), Account: fmt.Sprint("free", rand.IntN(strangersFree)), Amount: euros(1)}
				if rand.IntN(8) == 0 {
					r.Also = []spend.Account{{Budget: "teams", Name: "team"}}
				}
				call, cancel := context.WithTimeout(t.Context(), 10*time.Second)
				began := time.Now()
				d, err := b.Charge(call, r)
				cancel()
				if err != nil || !d.Approved {
					t.Errorf("another account: %+v, %v", d, err)
					return
				}
				others.Add(1)
				for took := int64(time.Since(began)); ; {
					if most := slowest.Load(); took <= most || slowest.CompareAndSwap(most, took) {
						break
					}
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
				calls.Add(1)
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
	return loaded{others.Load(), time.Duration(slowest.Load()), calls.Load(), unknown.Load()}
}

// cardsAndTeams returns budgets for cards, and for teams that are charged as well.
func cardsAndTeams(t *testing.T, l ledger.Ledger) *spend.Budgets {
	t.Helper()
	rules := []spend.Rule{spend.Rolling("month", euros(1<<40), 30*24*time.Hour)}
	b, err := spend.New(t.Context(), l, spend.Budget{Name: "cards", Currency: "EUR", Rules: rules},
		&spend.Options{Budgets: []spend.Budget{{Name: "teams", Currency: "EUR", Rules: rules}}})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// mustCharge charges all requests in one call, which is much faster than one by one.
func mustCharge(t *testing.T, b *spend.Budgets, all ...spend.Request) {
	t.Helper()
	for _, a := range b.ChargeAll(t.Context(), all) {
		if a.Err != nil || !a.Decision.Approved {
			t.Fatalf("%+v", a)
		}
	}
}
