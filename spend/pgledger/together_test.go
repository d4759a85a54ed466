package pgledger_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/brimgo/brim/internal/pgtest"
	"github.com/brimgo/brim/postgres"
	"github.com/brimgo/brim/spend"
	"github.com/brimgo/brim/store"
)

// TestTogetherBesideAStranger: a request whose account another transaction holds fails by the
// deadline, and the others that were sent with it are decided. A second call finds the
// account held from its beginning.
func TestTogetherBesideAStranger(t *testing.T) {
	pool := pgtest.Pool(t)
	l := over(t, pool, &postgres.Options{Schema: migrated(t)})
	b := budgets(t, l)
	mustCharge(t, b, spend.Request{ID: "before", Account: "held", Amount: euros(1)})
	tx, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.Background()) }()
	mustCharge(t, b.With(l.With(tx)), spend.Request{ID: "inside", Account: "held", Amount: euros(1)})
	requests := func(call string) (list []spend.Request) {
		for _, account := range []string{"a", "held", "b"} {
			list = append(list, spend.Request{ID: call + account, Account: account, Amount: euros(1)})
		}
		return list
	}
	for _, call := range []string{"first", "second"} {
		ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second)
		answers := b.ChargeAll(ctx, requests(call))
		cancel()
		for i, a := range answers {
			if held := i == 1; held != errors.Is(a.Err, store.ErrUnavailable) || !held && !a.Decision.Approved {
				t.Errorf("%s call, request %d: %+v", call, i+1, a)
			}
		}
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, a := range b.ChargeAll(t.Context(), requests("first")) {
		if a.Err != nil || !a.Decision.Approved {
			t.Errorf("after the other transaction: %+v", a)
		}
	}
}

// TestMovedBesideAStranger: another transaction holds an account that has moved. Charges under its
// former name fail by the deadline like those under its present one, in one transaction with each
// other, too, and begin no new account.
func TestMovedBesideAStranger(t *testing.T) {
	pool := pgtest.Pool(t)
	l := over(t, pool, &postgres.Options{Schema: migrated(t)})
	b := budgets(t, l)
	mustCharge(t, b, spend.Request{ID: "before", Account: "card", Amount: euros(1)})
	if _, err := b.MoveAccount(t.Context(), spend.MoveRequest{ID: "move", Account: "card", To: "new", Reason: "lost"}); err != nil {
		t.Fatal(err)
	}
	tx, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.Background()) }()
	mustCharge(t, b.With(l.With(tx)), spend.Request{ID: "inside", Account: "new", Amount: euros(1)})
	requests := func(call string) []spend.Request {
		return []spend.Request{
			{ID: call + "new", Account: "new", Amount: euros(1)}, {ID: call + "card", Account: "card", Amount: euros(1)},
		}
	}
	for _, call := range []string{"first", "second"} {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		answers := b.ChargeAll(ctx, requests(call))
		cancel()
		for i, a := range answers {
			if !errors.Is(a.Err, store.ErrUnavailable) {
				t.Errorf("%s call, request %d: %+v; want ErrUnavailable", call, i+1, a)
			}
		}
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, a := range b.ChargeAll(t.Context(), requests("first")) {
		if a.Err != nil || !a.Decision.Approved {
			t.Errorf("after the other transaction: %+v", a)
		}
	}
	keys, _, err := l.Accounts(t.Context(), "", "", 0, 10)
	rules, err2 := b.Remaining(t.Context(), "new")
	if err := errors.Join(err, err2, b.Verify(t.Context(), "new")); err != nil || len(keys) != 1 || rules[0].Used != euros(3) {
		t.Errorf("the ledger has the accounts %q, and %+v, %v; want one, with 3 used", keys, rules, err)
	}
}

// TestTogetherWithin: requests that are sent together in the caller's transaction each have their
// own answer, and end with the transaction.
func TestTogetherWithin(t *testing.T) {
	pool := pgtest.Pool(t)
	l := over(t, pool, &postgres.Options{Schema: migrated(t)})
	b := budgets(t, l)
	mustCharge(t, b, spend.Request{ID: "used", Account: "7", Amount: euros(10)})
	tx, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	answers := b.With(l.With(tx)).ChargeAll(t.Context(), []spend.Request{
		{ID: "used", Account: "7", Amount: euros(11)},
		{ID: "1", Account: "7", Amount: euros(90)},
		{ID: "2", Account: "7", Amount: euros(1)},
	})
	if !errors.Is(answers[0].Err, spend.ErrIDReused) || answers[1].Err != nil || !answers[1].Decision.Approved ||
		answers[2].Err != nil || answers[2].Decision.Approved {
		t.Errorf("got %+v; want ErrIDReused, an approval and a decline", answers)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	rules, err := b.Remaining(t.Context(), "7")
	if err != nil || rules[0].Used != euros(10) {
		t.Errorf("after a rollback: %+v, %v", rules, err)
	}
}
