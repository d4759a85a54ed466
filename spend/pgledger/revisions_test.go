package pgledger_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/brimgo/brim/internal/pgtest"
	"github.com/brimgo/brim/postgres"
	"github.com/brimgo/brim/spend"
	"github.com/brimgo/brim/store"
)

// revision returns a budget with a revision of rules, which approves so many euros at most.
func revision(n, most int64) spend.Budget {
	return spend.Budget{Name: "cards", Currency: "EUR", Revision: n, Rules: []spend.Rule{
		spend.PerTransaction("one", euros(most)), spend.Rolling("day", euros(1<<30), 24*time.Hour),
	}}
}

// TestRevisionsRace has three processes decide on one account while a fourth one sets rules. A
// decision goes by no older rules than those that were stored before it began, nor than those of an
// earlier decision on the account.
func TestRevisionsRace(t *testing.T) {
	t.Parallel()
	const revisions, processes, callers = 150, 3, 4
	schema := migrated(t)
	begins := func() *spend.Budgets {
		t.Helper()
		b, err := spend.New(t.Context(), over(t, pgtest.Pool(t), &postgres.Options{Schema: schema}), revision(0, 1), nil)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	sets := begins()
	var stored, decisions, seen atomic.Int64
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for p := range processes {
		b := begins()
		for c := range callers {
			wg.Go(func() {
				for i, last := 0, int64(0); ctx.Err() == nil; i++ {
					least := max(stored.Load(), last)
					d, err := b.UpTo(context.Background(), spend.UpToRequest{
						Request: spend.Request{ID: fmt.Sprint(p, "-", c, "-", i), Account: "a", Amount: euros(1 << 20)}, Least: euros(1),
					})
					if err != nil || !d.Approved {
						t.Error(d, err)
						return
					}
					was := last
					if last = d.Amount.Minor/100 - 1; last < least {
						t.Errorf("a decision by revision %d; revision %d was stored before", last, least)
						return
					}
					if decisions.Add(1); last > was {
						seen.Add(1)
					}
				}
			})
		}
	}
	for n := range int64(revisions) {
		if err := sets.SetRules(t.Context(), revision(1+n, 2+n), nil); err != nil {
			t.Error(err)
		}
		stored.Store(1 + n)
	}
	stop()
	wg.Wait()
	newest := euros(1 << 20)
	for e, err := range sets.History(t.Context(), "a", nil) {
		if err != nil || e.Amount.Minor > newest.Minor {
			t.Errorf("entry %d has %v, and the next one %v, by older rules; %v", e.Seq, e.Amount, newest, err)
		}
		newest = e.Amount
	}
	n := int64(0)
	for r, err := range sets.Rules(t.Context()) {
		if want := revisions - n; err != nil || r.Rules.Revision != want {
			t.Fatalf("revision %d, %v; want %d", r.Rules.Revision, err, want)
		}
		n++
	}
	t.Logf("%d decisions, of which %d were by newer rules than the caller's one before", decisions.Load(), seen.Load())
	if n != revisions+1 || seen.Load() < revisions {
		t.Error("the test has not tested much")
	}
}

// TestRevisionsRolledBack: rules of a transaction that is rolled back hold within it alone, and
// another process may store other rules under their number.
func TestRevisionsRolledBack(t *testing.T) {
	pool := pgtest.Pool(t)
	schema := migrated(t)
	l := over(t, pool, &postgres.Options{Schema: schema})
	b, err := spend.New(t.Context(), l, revision(0, 1), nil)
	if err != nil {
		t.Fatal(err)
	}
	// limit returns the limit by which a charge of much money is declined.
	limit := func(b *spend.Budgets, id string) int64 {
		t.Helper()
		d, err := b.Charge(t.Context(), spend.Request{ID: id, Account: id, Amount: euros(1 << 20)})
		if err != nil || d.Approved {
			t.Fatal(d, err)
		}
		return d.Declines[0].Limit.Minor / 100
	}
	tx := begin(t, pool)
	in := b.With(l.With(tx))
	if err := in.SetRules(t.Context(), revision(1, 100), nil); err != nil {
		t.Fatal(err)
	}
	if got := limit(b, "beside"); got != 1 {
		t.Errorf("beside the transaction the limit is %d; want 1", got)
	}
	if got := limit(in, "in"); got != 100 {
		t.Errorf("in the transaction the limit is %d; want 100", got)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	other, err := spend.New(t.Context(), over(t, pool, &postgres.Options{Schema: schema}), revision(1, 2), nil)
	if err != nil {
		t.Fatal(err)
	}
	for id, x := range map[string]*spend.Budgets{"who set them": b, "who set others": other} {
		if got := limit(x, id); got != 2 {
			t.Errorf("%s decides by a limit of %d; want 2", id, got)
		}
	}
}

// TestNewInTransaction: a New that waits for one in an open transaction of the application ends
// with the way out, and other decisions go on.
func TestNewInTransaction(t *testing.T) {
	pool := pgtest.Pool(t)
	schema := migrated(t)
	l := over(t, pool, &postgres.Options{Schema: schema, StatementTimeout: time.Second})
	b, err := spend.New(t.Context(), l, revision(0, 1), nil)
	if err != nil {
		t.Fatal(err)
	}
	tx := begin(t, pool)
	if _, err := spend.New(t.Context(), l.With(tx), revision(1, 2), nil); err != nil {
		t.Fatal(err)
	}
	waits := make(chan error, 1)
	go func() {
		_, err := spend.New(context.Background(), l, revision(2, 3), nil)
		waits <- err
	}()
	n := 0
	for len(waits) == 0 {
		mustCharge(t, b, spend.Request{ID: fmt.Sprint(n), Account: "7", Amount: euros(1)})
		n++
	}
	wantWayOut(t, <-waits)
	if n < 20 {
		t.Errorf("%d charges in a second beside a New that waits", n)
	}
	if _, err := spend.New(t.Context(), l, revision(0, 1), nil); err != nil {
		t.Errorf("a program that starts with the stored rules waits for nobody: %v", err)
	}
	_, err = spend.New(t.Context(), l.With(begin(t, pool)), revision(2, 3), nil)
	wantError(t, err, store.ErrUnavailable)
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := spend.New(t.Context(), l, revision(2, 3), nil); err != nil {
		t.Errorf("when the transaction has ended: %v", err)
	}
}
