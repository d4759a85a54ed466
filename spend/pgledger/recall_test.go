package pgledger_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/brimgo/brim/internal/pgtest"
	"github.com/brimgo/brim/postgres"
	"github.com/brimgo/brim/spend"
	"github.com/brimgo/brim/spend/ledger"
	"github.com/brimgo/brim/spend/pgledger"
)

// rig is a ledger whose round trips are noted, and another one over the same tables.
type rig struct {
	pool        *pgxpool.Pool
	seen        trips
	own         *pgledger.Ledger
	ours, other *spend.Budgets
	us          atomic.Int64 // the clock of both
}

// budgetOfTen allows 10.00 in any hour.
var budgetOfTen = spend.Budget{Name: "cards", Currency: "EUR", Rules: []spend.Rule{spend.Rolling("hour", euros(10), time.Hour)}}

func newRig(t *testing.T, set func(*pgxpool.Config)) *rig {
	t.Helper()
	direct := pgtest.Pool(t)
	r := &rig{}
	r.us.Store(time.Date(2026, 3, 2, 8, 0, 0, 0, time.UTC).UnixMicro())
	cfg := direct.Config()
	cfg.ConnConfig.Tracer = &r.seen
	if set != nil {
		set(cfg)
	}
	var err error
	if r.pool, err = pgxpool.NewWithConfig(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.pool.Close)
	o := &postgres.Options{Schema: migrated(t, direct), Clock: func() time.Time { return time.UnixMicro(r.us.Load()) }}
	r.own = over(t, r.pool, o)
	for l, b := range map[*pgledger.Ledger]**spend.Budgets{r.own: &r.ours, over(t, direct, o): &r.other} {
		if *b, err = spend.New(l, budgetOfTen, nil); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

func (r *rig) charge(t *testing.T, b *spend.Budgets, id string, amount int64) spend.Decision {
	t.Helper()
	r.seen.list = nil
	d, err := b.Charge(t.Context(), spend.Request{ID: id, Account: "7", Amount: euros(amount)})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

const (
	proven   = "plan store"
	lock     = "BEGIN plan take requests"
	lockRead = "BEGIN plan take requests watched"
)

// TestRecall has a ledger decide on an account that it remembers, after others have changed
// something about it.
func TestRecall(t *testing.T) {
	for _, c := range []struct {
		name     string
		between  func(t *testing.T, r *rig)
		amount   int64
		approved bool
		want     []string // round trips
		why      string
	}{
		{
			name: "nothing has happened", between: func(*testing.T, *rig) {}, amount: 6, approved: true,
			want: []string{proven}, why: "one round trip suffices",
		},
		{
			name: "another process has spent", amount: 6, approved: false,
			between: func(t *testing.T, r *rig) { r.charge(t, r.other, "theirs", 1) },
			want:    []string{proven, lockRead, "entries", "entries", "store COMMIT"}, why: "the remembered account has room, and the account has none",
		},
		{
			name: "another process has spent what still leaves room", amount: 5, approved: true,
			between: func(t *testing.T, r *rig) { r.charge(t, r.other, "theirs", 1) },
			want:    []string{proven, lockRead, "store COMMIT"}, why: "the decision is made again on the account as it is",
		},
		{
			name: "a transaction of the application has spent", amount: 6, approved: false,
			between: func(t *testing.T, r *rig) {
				tx, err := r.pool.Begin(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				r.charge(t, r.ours.With(r.own.With(tx)), "within", 1)
				if err := tx.Commit(t.Context()); err != nil {
					t.Fatal(err)
				}
			},
			want: []string{proven, lockRead, "entries", "entries", "store COMMIT"}, why: "a ledger within a transaction remembers nothing",
		},
		{
			name: "a transaction of the application has rolled back", amount: 6, approved: true,
			between: func(t *testing.T, r *rig) {
				tx, err := r.pool.Begin(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				r.charge(t, r.ours.With(r.own.With(tx)), "within", 1)
				if err := tx.Rollback(t.Context()); err != nil {
					t.Fatal(err)
				}
			},
			want: []string{proven}, why: "the account is as it was",
		},
		{
			name: "the amount does not fit", between: func(*testing.T, *rig) {}, amount: 7, approved: false,
			want: []string{lock, "entries", "entries", "store COMMIT"}, why: "a decline goes by the clock of the locked account, because it tells when to come back",
		},
		{
			name: "an entry leaves the window", amount: 7, approved: true,
			between: func(_ *testing.T, r *rig) { r.us.Add(time.Hour.Microseconds()) },
			want:    []string{lockRead, "store COMMIT"}, why: "the entry has to be read",
		},
		{
			name: "a hold has expired", amount: 6, approved: true,
			between: func(t *testing.T, r *rig) {
				_, err := r.ours.Authorize(t.Context(), spend.Request{ID: "hold", Account: "7", Amount: euros(5), TTL: time.Minute})
				if err != nil {
					t.Fatal(err)
				}
				r.us.Add(2 * time.Minute.Microseconds())
			},
			want: []string{lock, "holds", "store unhold COMMIT"}, why: "the hold has to be read and ended",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, nil)
			r.charge(t, r.ours, "first", 4)
			c.between(t, r)
			d := r.charge(t, r.ours, "second", c.amount)
			if d.Approved != c.approved || !slices.Equal(r.seen.list, c.want) {
				t.Errorf("approved %t in %q; want %t in %q\nwhy: %s", d.Approved, r.seen.list, c.approved, c.want, c.why)
			}
			if err := r.ours.Verify(t.Context(), "7"); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestRecallPauses sees that charges lock their account first after a proof has failed, and that a
// further failure has more of them do so.
func TestRecallPauses(t *testing.T) {
	r := newRig(t, nil)
	cent := func(b *spend.Budgets, id string) {
		t.Helper()
		r.seen.list = nil
		d, err := b.Charge(t.Context(), spend.Request{ID: id, Account: "7", Amount: spend.Money{Minor: 1, Currency: "EUR"}})
		if err != nil || !d.Approved {
			t.Fatalf("%+v, %v", d, err)
		}
	}
	cent(r.ours, "first")
	for failure, want := range []int{4, 10} {
		cent(r.other, fmt.Sprint("theirs ", failure))
		cent(r.ours, fmt.Sprint("ours ", failure))
		if r.seen.list[0] != proven || len(r.seen.list) != 3 {
			t.Fatalf("a charge after another process's takes %q; want a failed proof first", r.seen.list)
		}
		locked := 0
		for ; locked <= want; locked++ {
			cent(r.ours, fmt.Sprint("ours ", failure, ".", locked))
			if slices.Equal(r.seen.list, []string{proven}) {
				break
			}
		}
		if locked != want {
			t.Errorf("after failure %d, %d charges lock their account first, want %d", failure+1, locked, want)
		}
	}
}

// TestRecallIsolation has sessions whose isolation is not READ COMMITTED.
func TestRecallIsolation(t *testing.T) {
	for _, isolation := range []string{"repeatable read", "serializable"} {
		t.Run(isolation, func(t *testing.T) {
			r := newRig(t, func(cfg *pgxpool.Config) {
				cfg.ConnConfig.RuntimeParams["default_transaction_isolation"] = isolation
			})
			for n := range 10 {
				b := r.ours
				if n%3 == 2 {
					b = r.other
				}
				if d := r.charge(t, b, fmt.Sprint(n), 1); !d.Approved {
					t.Fatalf("charge %d of ten is declined: %+v", n+1, d)
				}
			}
			if d := r.charge(t, r.ours, "more", 1); d.Approved {
				t.Error("an eleventh charge is approved")
			}
		})
	}
}

// TestRecallByTheServersClock has charges that follow each other at once and with rests, by the
// server's clock. No decision is dated before its call by more than a second, nor before the decision
// before.
func TestRecallByTheServersClock(t *testing.T) {
	pool := pgtest.Pool(t)
	b := budgets(t, over(t, pool, &postgres.Options{Schema: migrated(t, pool)}))
	serverTime := func() (now time.Time) {
		if err := pool.QueryRow(context.Background(), "SELECT clock_timestamp()").Scan(&now); err != nil {
			t.Fatal(err)
		}
		return now
	}
	var last time.Time
	for n := range 20 {
		before := serverTime()
		d, err := b.Charge(t.Context(), spend.Request{ID: fmt.Sprint(n), Account: "7", Amount: euros(1)})
		if err != nil || !d.Approved {
			t.Fatalf("%+v, %v", d, err)
		}
		if d.At.Before(last) || d.At.Before(before.Add(-time.Second)) || d.At.After(serverTime()) {
			t.Errorf("decided at %v; the call began at %v, and the decision before was made at %v", d.At, before, last)
		}
		last = d.At
	}
}

// TestRecallPartial has UpTo approve a part on an account that the ledger remembers. The part that
// is refused may fit by the clock as it is.
func TestRecallPartial(t *testing.T) {
	for amount, want := range map[int64][]string{6: {proven}, 7: {lock, "store COMMIT"}} {
		t.Run(fmt.Sprint(amount), func(t *testing.T) {
			r := newRig(t, nil)
			r.charge(t, r.ours, "first", 4)
			r.seen.list = nil
			d, err := r.ours.UpTo(t.Context(), spend.UpToRequest{
				Request: spend.Request{ID: "second", Account: "7", Amount: euros(amount)}, Least: euros(1),
			})
			if err != nil || d.Amount != euros(6) || !slices.Equal(r.seen.list, want) {
				t.Errorf("%v is approved in %q, %v; want 6.00 in %q", d.Amount, r.seen.list, err, want)
			}
		})
	}
}

// TestRecallLookup has a job look for an ID that has an answer, and store no answer of its own.
func TestRecallLookup(t *testing.T) {
	r := newRig(t, nil)
	r.charge(t, r.ours, "first", 1)
	const account = "cards/7"
	found := false
	err := r.own.Decide(t.Context(), &ledger.Job{
		Accounts: []string{account}, Requests: []string{"first"},
		Run: func(s ledger.Snapshot) (*ledger.Changes, error) {
			answer, err := s.Request("first")
			if err != nil {
				return nil, err
			}
			found = answer != nil
			a, err := s.Account(account)
			return &ledger.Changes{Accounts: []ledger.Account{a}}, err
		},
	})
	if err != nil || !found {
		t.Errorf("the answer is found: %t, %v", found, err)
	}
}

// TestRecallModes has the driver send its messages in all of its modes.
func TestRecallModes(t *testing.T) {
	for _, mode := range []pgx.QueryExecMode{
		pgx.QueryExecModeCacheStatement, pgx.QueryExecModeCacheDescribe, pgx.QueryExecModeDescribeExec,
		pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol,
	} {
		t.Run(mode.String(), func(t *testing.T) {
			r := newRig(t, func(cfg *pgxpool.Config) { cfg.ConnConfig.DefaultQueryExecMode = mode })
			r.charge(t, r.ours, "first", 1)
			for _, id := range []string{"second", "third"} {
				if d := r.charge(t, r.ours, id, 1); !d.Approved || !slices.Equal(r.seen.list, []string{proven}) {
					t.Errorf("approved %t in %q; want an approval in %q", d.Approved, r.seen.list, proven)
				}
			}
			hold := spend.Request{ID: "hold", Account: "7", Amount: euros(1), Tags: map[string]string{"a": `b\"'{}`}}
			past := spend.Request{ID: "past", Account: "7", Amount: euros(1), Dated: time.UnixMicro(r.us.Load() - 1000)}
			if _, err := r.ours.Authorize(t.Context(), hold); err != nil {
				t.Error(err)
			}
			if _, err := r.ours.Record(t.Context(), past); err != nil {
				t.Error(err)
			}
			if _, err := r.ours.Capture(t.Context(), spend.CaptureRequest{ID: "capture", HoldID: "hold", Amount: euros(1)}); err != nil {
				t.Error(err)
			}
			if d := r.charge(t, r.ours, "too much", 10); d.Approved || d.RetryAfter != time.Hour {
				t.Errorf("approved %t, RetryAfter %v; want a decline until the newest entry leaves", d.Approved, d.RetryAfter)
			}
			if err := r.ours.Verify(t.Context(), "7"); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestWaitAfterRollback declines a charge in a transaction that is rolled back. A later decline
// tells when the entries leave that are there, and nothing of those that were taken back.
func TestWaitAfterRollback(t *testing.T) {
	r := newRig(t, nil)
	later := func() { r.us.Add(time.Minute.Microseconds()) }
	r.charge(t, r.ours, "first", 6)
	tx, err := r.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	within := r.ours.With(r.own.With(tx))
	for _, id := range []string{"a", "b"} {
		later()
		r.charge(t, within, id, 1)
	}
	later()
	if d := r.charge(t, within, "c", 9); d.Approved {
		t.Fatal("9.00 are approved where 2.00 are left")
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	later()
	last := r.charge(t, r.ours, "last", 1)
	later()
	d := r.charge(t, r.ours, "all", 10)
	if got, want := d.At.Add(d.RetryAfter), last.At.Add(time.Hour); !got.Equal(want) {
		t.Errorf("10.00 fit at %v, want %v", got, want)
	}
	r.us.Add(d.RetryAfter.Microseconds())
	if d := r.charge(t, r.ours, "again", 10); !d.Approved {
		t.Errorf("declined at the time that RetryAfter told: %+v", d)
	}
}

// TestWaitAfterRefusedBatch has the server refuse a batch with a decline in it. The requests of the
// batch are then decided one by one, and the decline has seen an entry that was taken back.
func TestWaitAfterRefusedBatch(t *testing.T) {
	pool := pgtest.Pool(t)
	schema := migrated(t, pool)
	b, err := spend.New(over(t, pool, &postgres.Options{Schema: schema}), budgetOfTen, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, sql := range []string{
		"CREATE FUNCTION @.refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN " +
			"IF NEW.id LIKE 'refused%' THEN RAISE EXCEPTION 'refused'; END IF; RETURN NEW; END $$",
		"CREATE TRIGGER refuse BEFORE INSERT ON @.buckets_requests FOR EACH ROW EXECUTE FUNCTION @.refuse()",
	} {
		if _, err := pool.Exec(t.Context(), strings.ReplaceAll(sql, "@", schema)); err != nil {
			t.Fatal(err)
		}
	}
	for n := range 3 {
		account := fmt.Sprint(n)
		request := func(id string, amount int64) spend.Request {
			return spend.Request{ID: id + account, Account: account, Amount: euros(amount)}
		}
		mustCharge(t, b, request("first", 1))
		mustCharge(t, b, request("second", 5))
		answers := b.ChargeAll(t.Context(), []spend.Request{request("fits", 1), request("large", 9), request("refused", 1)})
		if answers[0].Err != nil || answers[1].Err != nil || answers[2].Err == nil {
			t.Fatalf("%+v; want an approval, a decline and an error", answers)
		}
		d, err := b.Charge(t.Context(), request("all", 10))
		if err != nil || d.Approved || d.RetryAfter <= 0 || d.RetryAfter > time.Hour {
			t.Errorf("approved %t, RetryAfter %v, %v; want a decline for less than an hour", d.Approved, d.RetryAfter, err)
		}
	}
}
